// Sizes and places of coded weights, against the bits that the format documents.
#include "program/code_layout.h"

#include <gtest/gtest.h>

#include "ops/table.h"
#include "program/builder.h"

namespace snug {
namespace {

Buffer weight(Format format, int64_t rows, int64_t columns, std::vector<TensorPart> parts = {}) {
  return {.name = "w", .format = format, .dims = {fixed(rows), fixed(columns)}, .parts = std::move(parts)};
}

TEST(CodeLayout, BitsAWeight) {
  constexpr double kWeights = 4096.0 * 4096.0;
  auto bits = [&](Format format) {
    return 8.0 * static_cast<double>(weight(format, 4096, 4096).max_bytes()) / kWeights;
  };
  EXPECT_NEAR(bits(kNf4), 4.5, 1e-3);  // 4 and an fp32 for 64
  EXPECT_NEAR(bits(kFp4), 4.5, 1e-3);
  EXPECT_NEAR(bits(kNf4Double), 4.127, 1e-3);  // 4, a byte for 64, an fp32 for 64 * 256
  EXPECT_NEAR(bits(kInt8), 8 + 32.0 / 4096, 1e-6);
  EXPECT_EQ(weight(DType::bf16, 3, 5).max_bytes(), 30);
}

TEST(CodeLayout, PiecesStandBehindEachOther) {
  // 3 * 35 = 105 elements, 2 * 35 = 70: neither is whole blocks, and 105 is odd.
  std::vector<TensorPart> parts = {{{"a"}, 0, 3}, {{"b"}, 3, 2}};
  CodeLayout layout = code_layout(weight(kNf4Double, 5, 35, parts));
  ASSERT_EQ(layout.part_count, 2);
  EXPECT_EQ(layout.parts[0].codes, 0);
  EXPECT_EQ(layout.parts[1].codes, 64);  // 53 bytes, rounded up to 16
  EXPECT_EQ(layout.code_bytes, 64 + 48);
  EXPECT_EQ(layout.parts[0].scales, 112);
  EXPECT_EQ(layout.parts[1].scales, 128);  // two blocks each, a byte a block
  EXPECT_EQ(layout.parts[0].nested_scales, 144);
  EXPECT_EQ(layout.parts[0].offset, 148);
  EXPECT_EQ(layout.parts[1].nested_scales, 160);
  EXPECT_EQ(layout.scale_bytes, 64);
  EXPECT_EQ(layout.parts[0].map, 176);
  EXPECT_EQ(layout.parts[0].nested_map, 240);
  EXPECT_EQ(layout.parts[1].map, 240 + 1024);
  EXPECT_EQ(layout.map_bytes, 2 * (64 + 1024));
  EXPECT_EQ(layout.bytes(), weight(kNf4Double, 5, 35, parts).max_bytes());
}

TEST(CodeLayout, RowsOfEightBitsHaveAScaleEach) {
  CodeLayout layout = code_layout(weight(kInt8, 5, 35, {{{"a"}, 0, 3}, {{"b"}, 3, 2}}));
  EXPECT_EQ(layout.parts[1].codes, 112);  // 105 bytes
  EXPECT_EQ(layout.parts[0].scales, 112 + 80);
  EXPECT_EQ(layout.parts[1].scales, 112 + 80 + 16);
  EXPECT_EQ(layout.scale_bytes, 32);
  EXPECT_EQ(layout.map_bytes, 0);
}

TEST(CodeLayout, Names) {
  EXPECT_EQ(name_of(Format(DType::bf16)), "bf16");
  EXPECT_EQ(name_of(kNf4), "nf4");
  EXPECT_EQ(name_of(kNf4Double), "nf4_double");
  EXPECT_EQ(name_of(kInt8), "int8");
  EXPECT_EQ(name_of(Format(Coding::fp4, 128)), "fp4 in blocks of 128");
}

TEST(Verify, OnlyProductsTakeCodes) {
  Builder builder("bad");
  BufferId x = builder.input("x", DType::f32, {fixed(2), fixed(64)});
  BufferId w = builder.weight("w", DType::f32, {fixed(3), fixed(64)}, {});
  BufferId y = builder.temporary("y", DType::f32, {fixed(2), fixed(3)});
  builder.program().buffer(w).format = kNf4;
  builder.append(OpKind::linear, "product", {x, w}, {y}, LinearAttributes{});
  EXPECT_EQ(find_violation(builder.program()), "");
  BufferId copied = builder.temporary("copied", DType::f32, {fixed(3), fixed(64)});
  builder.append(OpKind::copy, "copy", {w}, {copied});
  EXPECT_EQ(find_violation(builder.program()), "op 1 (copy): takes no codes, and \"w\" is nf4");
}

}  // namespace
}  // namespace snug
