// Products of 8-bit numbers with scales of rows, by the library and, as on cards whose library has none, by
// passes of their own: against the formula in double.
#include <cmath>

#include "backend/cuda/blas.h"
#include "backend/cuda/float8.h"
#include "cuda/on_both.h"

namespace snug::cuda {
namespace {

constexpr int64_t kTokens = 70;
constexpr int64_t kIn = 272;
constexpr int64_t kOut = 192;
constexpr float kAlpha = 0.5F;

// Rows of codes, each with a power of two; row 3 has nothing but zeros, and the smallest scale that there is.
struct CodedRows {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<double> values;

  CodedRows(int64_t rows, Float8 kind, uint64_t seed) {
    Rng rng(seed);
    for (int64_t row = 0; row < rows; ++row) {
      bool is_zero = row == 3;
      int exponent = is_zero ? kLowestScaleExponent : static_cast<int>(rng.below(24)) - 16;
      scales.push_back(power_of_two(exponent));
      for (int64_t i = 0; i < kIn; ++i) {
        auto code = static_cast<uint8_t>(rng.below(uint64_t{largest_code(kind)} + 1) | rng.below(2) << 7);
        codes.push_back(is_zero ? 0 : code);
        values.push_back(static_cast<double>(float8_value(kind, codes.back())) * double{scales.back()});
      }
    }
  }
};

class Memory {
 public:
  template <typename T>
  T* put(const std::vector<T>& values) {
    auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    std::byte* at = take(bytes);
    shared_card()->upload(at, values.data(), bytes);
    return reinterpret_cast<T*>(at);
  }
  std::byte* take(int64_t bytes) {
    std::byte* at = next_;
    next_ += align_up(bytes);
    return at;
  }

 private:
  std::byte* next_ = shared_arena();
};

std::vector<float> bf16_values(const std::vector<uint16_t>& raw) {
  std::vector<float> values(raw.size());
  convert(DType::bf16, raw.data(), DType::f32, values.data(), static_cast<int64_t>(raw.size()));
  return values;
}

// c0 is what the product is added to, or what has to be written over.
void expect_product(bool scales_rows, Float8 kind, bool accumulate, bool has_bias) {
  SCOPED_TRACE(testing::Message() << "library's scales " << scales_rows << ", e5m2 " << (kind == Float8::e5m2)
                                  << ", adds " << accumulate << ", bias " << has_bias);
  CodedRows a(kTokens, kind, 1);
  CodedRows b(kOut, Float8::e4m3, 2);
  auto rounded = [](int64_t count, uint64_t seed, float deviation) {
    std::vector<float> values = random_values(count, seed, deviation);
    std::vector<uint16_t> raw(values.size());
    convert(DType::f32, values.data(), DType::bf16, raw.data(), count);
    return raw;
  };
  std::vector<uint16_t> before = rounded(kTokens * kOut, 3, 1000.0F);
  std::vector<uint16_t> bias = rounded(kOut, 4, 100.0F);
  Blas blas(false, scales_rows);
  if (scales_rows && !blas.scales_rows()) {
    return;
  }
  Memory memory;
  Gemm product;
  product.a = {memory.put(a.codes), DType::u8, kTokens, kIn, kIn};
  product.b = {memory.put(b.codes), DType::u8, kOut, kIn, kIn};
  product.c = {memory.put(before), DType::bf16, kTokens, kOut, kOut};
  product.transpose_b = true;
  product.alpha = kAlpha;
  product.accumulate = accumulate;
  product.bias = has_bias ? memory.put(bias) : nullptr;
  product.a_scales = memory.put(a.scales);
  product.b_scales = memory.put(b.scales);
  product.a_kind = kind;
  std::span<std::byte> workspace(memory.take(kBlasWorkspaceBytes), static_cast<size_t>(kBlasWorkspaceBytes));
  shared_card()->synchronize();
  run_with_row_scales({.stream = nullptr, .blas = &blas}, product, workspace);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  std::vector<uint16_t> raw(before.size());
  shared_card()->download(raw.data(), product.c.data, kTokens * kOut * 2);
  shared_card()->synchronize();
  std::vector<float> result = bf16_values(raw);
  std::vector<float> old = bf16_values(before);
  std::vector<float> added = bf16_values(bias);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t n = 0; n < kOut; ++n) {
      auto at = static_cast<size_t>(t * kOut + n);
      double sum = 0;
      double magnitude = 0;
      for (int64_t i = 0; i < kIn; ++i) {
        double term =
            kAlpha * a.values[static_cast<size_t>(t * kIn + i)] * b.values[static_cast<size_t>(n * kIn + i)];
        sum += term;
        magnitude += std::abs(term);
      }
      double before_it = accumulate ? double{old[at]} : 0.0;
      double behind_it = has_bias ? double{added[static_cast<size_t>(n)]} : 0.0;
      double expected = sum + before_it + behind_it;
      // The units add 32 products at a time to what is there, all cut off at 13 bits of the largest: up to a
      // unit of the last place for the products and one for what they are added to. bf16 has 8 bits, and with
      // a bias what is added up first is rounded before the rest is added.
      constexpr double kTurns = (kIn + 31) / 32;
      double magnitudes = magnitude + std::abs(before_it);
      double parts = std::abs(sum) + std::abs(before_it) + std::abs(behind_it) + std::abs(expected);
      double tolerance = magnitudes * kTurns * 0x1p-12 + parts * 0x1p-8;
      ASSERT_NEAR(result[at], expected, tolerance) << t << ", " << n;
    }
  }
}

TEST(CudaFloat8Scales, LibraryAndPassesOfTheirOwn) {
  SKIP_WITHOUT_CARD();
  for (bool scales_rows : {true, false}) {
    for (Float8 kind : {Float8::e4m3, Float8::e5m2}) {
      for (bool accumulate : {false, true}) {
        for (bool has_bias : {false, true}) {
          expect_product(scales_rows, kind, accumulate, has_bias);
        }
      }
    }
  }
}

// An infinity makes NaN of its row, here too.
TEST(CudaFloat8Scales, ScaleThatIsNoNumberMakesItsRowNaN) {
  SKIP_WITHOUT_CARD();
  Blas blas(false, false);
  Memory memory;
  std::vector<uint8_t> codes(16 * 16, 0x38);
  std::vector<float> scales(16, 1.0F);
  std::vector<uint16_t> before(16 * 16, 0);
  Gemm product;
  product.a = product.b = {memory.put(codes), DType::u8, 16, 16, 16};
  product.c = {memory.put(before), DType::bf16, 16, 16, 16};
  product.transpose_b = true;
  product.b_scales = memory.put(scales);
  scales[5] = std::numeric_limits<float>::quiet_NaN();
  product.a_scales = memory.put(scales);
  std::span<std::byte> workspace(memory.take(kBlasWorkspaceBytes), static_cast<size_t>(kBlasWorkspaceBytes));
  shared_card()->synchronize();
  run_with_row_scales({.stream = nullptr, .blas = &blas}, product, workspace);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  shared_card()->download(before.data(), product.c.data, 16 * 16 * 2);
  shared_card()->synchronize();
  std::vector<float> result = bf16_values(before);
  for (size_t i = 0; i < result.size(); ++i) {
    if (i / 16 == 5) {
      EXPECT_TRUE(std::isnan(result[i])) << i;
    } else {
      EXPECT_EQ(result[i], 16.0F) << i;
    }
  }
}

}  // namespace
}  // namespace snug::cuda
