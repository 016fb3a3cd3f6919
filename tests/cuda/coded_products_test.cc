// Products with weights of codes, against the CPU.
#include "cuda/on_both.h"
#include "support/coded_weight.h"

namespace snug {
namespace {

struct Case {
  int64_t rows;
  int64_t in;
  int64_t out;  // of two tensors in one weight
};

// Norms of what the card's products of so many numbers may be off by. In fp8 the units cut off short sums,
// within what bf16 would round away (backend/cuda/blas.cc).
double tolerance_of(const Format& format, int64_t inner) {
  constexpr int64_t kLongestUnitsSum = 8192;
  if (format.coding == Coding::fp8 && format.dtype == DType::f16 && inner <= kLongestUnitsSum) {
    return 0x1p-9;
  }
  return format.dtype == DType::f32 ? 3e-6 : format.dtype == DType::bf16 ? 4e-3 : 5e-4;
}

void expect_same_products(const Case& c, Format format, DType dtype) {
  SCOPED_TRACE(name_of(format) + " " + std::string(name_of(dtype)) + " " + std::to_string(c.in));
  format.dtype = dtype;
  Builder builder("coded");
  Dims in = {tokens(c.rows), fixed(c.in)};
  Dims out = {tokens(c.rows), fixed(c.out)};
  BufferId x = builder.input("x", dtype, in);
  int64_t cut = c.out / 3;
  BufferId w =
      builder.weight("w", dtype, {fixed(c.out), fixed(c.in)}, {{{"a"}, 0, cut}, {{"b"}, cut, c.out - cut}});
  builder.program().buffer(w).format = format;
  BufferId bias = builder.weight("bias", dtype, {fixed(c.out)}, {});
  BufferId y = builder.temporary("y", dtype, out);
  BufferId dy = builder.input("dy", dtype, out);
  BufferId dx = builder.input("dx", dtype, in);
  builder.append(OpKind::linear, "forward", {x, w, bias}, {y}, LinearAttributes{0.5F});
  builder.append(OpKind::linear_backward_input, "backward", {dy, w}, {dx}, LinearAttributes{0.5F})
      .accumulates = 1;
  Buffer weight = builder.buffer(w);
  OnBoth both(builder.finish());
  if (std::string reason = both.why_not_on_card(); !reason.empty()) {
    // Products in fp8 take a card since Ada, those for fp16 Hopper: nothing else is refused here.
    EXPECT_EQ(format.coding, Coding::fp8);
    EXPECT_NE(reason.find("compute capability"), std::string::npos) << reason;
    return;
  }
  both.set_bytes("w", coded_weight(weight, random_values(c.out * c.in, 9, 0.02F)));
  uint64_t seed = 1;
  for (const char* name : {"x", "bias", "dy", "dx"}) {
    both.randomise(name, seed++);
  }
  both.run(at_tokens(c.rows));
  both.expect_close_norms("y", tolerance_of(format, c.in));
  both.expect_close_norms("dx", tolerance_of(format, c.out));
}

class CudaCodes : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
};

TEST_F(CudaCodes, Products) {
  for (Format format : {kNf4, kNf4Double, kFp4, kInt8}) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const Case& c :
           {Case{5, 128, 192}, Case{7, 1352, 40}, Case{1, 35, 21}, Case{70, 35, 21}, Case{33, 40, 96}}) {
        expect_same_products(c, format, dtype);
      }
    }
  }
}

// Rows and columns are multiples of 16. Sums of 8,192 are the longest that are left to the units; the last
// case has rows of a gradient that are too long to be held.
TEST_F(CudaCodes, ProductsInFp8) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    for (const Case& c :
         {Case{5, 128, 192}, Case{7, 1360, 48}, Case{1, 32, 96}, Case{70, 4112, 48}, Case{40, 8192, 48},
          Case{40, 96, 8160}, Case{130, 9216, 144}, Case{33, 20496, 96}, Case{3, 144, 49152}}) {
      expect_same_products(c, kFp8, dtype);
    }
  }
}

TEST_F(CudaCodes, SeveralSlices) {
  expect_same_products({9, 8448, 16640}, kNf4Double, DType::bf16);
  expect_same_products({9, 8448, 16640}, kInt8, DType::bf16);
}

}  // namespace
}  // namespace snug
