// Sizes as people write them.
#include <gtest/gtest.h>

#include "base/bytes.h"

namespace snug {
namespace {

TEST(Bytes, ParsesUnits) {
  EXPECT_EQ(parse_bytes("512"), 512);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("24G"), 24'000'000'000);
  EXPECT_EQ(parse_bytes("1.5m"), 1'500'000);
  EXPECT_EQ(parse_bytes("1.5KB"), 1500);
  EXPECT_EQ(parse_bytes("24GB"), 24000000000);
  EXPECT_EQ(parse_bytes("24gb"), 24000000000);
  EXPECT_EQ(parse_bytes("1KiB"), 1024);
  EXPECT_EQ(parse_bytes("500 MiB"), 524288000);
  EXPECT_EQ(parse_bytes("0.5GiB"), 536870912);
  EXPECT_EQ(parse_bytes("22.3GiB"), 23944442675);  // 22.3 x 2^30 = 23944442675.2
  EXPECT_EQ(parse_bytes("2TiB"), 2199023255552);
  EXPECT_EQ(parse_bytes("0"), 0);
}

TEST(Bytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GB", "-1", "-1GB", "24 parsecs", "24GBs", "1e30", "nan", "inf", "0x10",
                           "1,5GB", "9000000TiB", "24 G B x"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(Bytes, Formats) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(52428800), "50.0 MiB");
  EXPECT_EQ(format_bytes(23944442675), "22.30 GiB");
  EXPECT_EQ(format_bytes(-52428800), "-50.0 MiB");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(7615616512), "7,615,616,512");
  EXPECT_EQ(format_count(-123456), "-123,456");
}

TEST(Bytes, AlignsUp) {
  EXPECT_EQ(align_up(0), 0);
  EXPECT_EQ(align_up(1), 256);
  EXPECT_EQ(align_up(256), 256);
  EXPECT_EQ(align_up(257), 512);
  EXPECT_EQ(align_up(13, 8), 16);
}

}  // namespace
}  // namespace snug
