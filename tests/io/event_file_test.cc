// TensorBoard's event files: checksums as published, and records as another reader finds them.
#include "io/event_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/event_reader.h"

namespace snug {
namespace {

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(EventFile, ChecksumsAreThoseThatArePublished) {
  EXPECT_EQ(masked_checksum("123456789"), masked(0xe3069283));
  EXPECT_EQ(masked_checksum(std::string(32, '\0')), masked(0x8a9136aa));
  EXPECT_EQ(masked_checksum(std::string(32, '\xff')), masked(0x62a8ab43));
  EXPECT_EQ(masked_checksum(""), masked(0));
}

TEST(EventFile, IsReadAsItWasWritten) {
  EventFile file = read_event_file(
      event_file_start(1.5) + restart_event(1.5) +
      settings_event(1.5, {{"rate", 0.25}, {"packing", true}, {"model", "x"}, {"sets", Json{1, 2}}}) +
      scalars_event(2.5, 300, {{"train/loss", 0.5}, {"train/grad_norm", NAN}}) +
      scalars_event(3.5, int64_t{1} << 40, {{"train/loss", -1e30}}) +
      text_event(4, 7, "samples/0", "**hi**") + settings_end_event(5, true));
  EXPECT_EQ(file.version, "brain.Event:2");
  ASSERT_EQ(file.scalars["train/loss"].size(), 2U);
  EXPECT_EQ(file.scalars["train/loss"][0].step, 300);
  EXPECT_EQ(file.scalars["train/loss"][0].value, 0.5F);
  EXPECT_EQ(file.scalars["train/loss"][0].wall_time, 2.5);
  EXPECT_EQ(file.scalars["train/loss"][1].step, int64_t{1} << 40);
  EXPECT_EQ(file.scalars["train/loss"][1].value, -1e30F);
  EXPECT_TRUE(std::isnan(file.scalars["train/grad_norm"][0].value));
  EXPECT_EQ(file.texts["samples/0"][7], "**hi**");
  EXPECT_EQ(std::bit_cast<double>(field_of(file.settings["rate"], 2).bits), 0.25);
  EXPECT_EQ(field_of(file.settings["packing"], 4).bits, 1U);
  EXPECT_EQ(field_of(file.settings["model"], 3).bytes, "x");
  EXPECT_EQ(field_of(file.settings["sets"], 3).bytes, "[1,2]");
  EXPECT_EQ(file.ended, 1);
}

}  // namespace
}  // namespace snug
