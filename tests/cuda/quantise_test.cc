// Codes and scales that the card makes, against the host's, to the bit.
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "base/code_formula.h"
#include "cuda/card.h"
#include "cuda/on_both.h"
#include "support/values.h"

namespace snug {
namespace {

class CudaQuantise : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
};

// Memory that host and card both reach, as staging is.
std::byte* pinned_arena() {
  constexpr int64_t kBytes = int64_t{32} << 20;
  static std::byte* arena = shared_card()->allocate_arena(Home::pinned, kBytes);
  return arena;
}

// Random values, with blocks of zeros, of numbers that are hardly any, and values that lie where one code
// ends and the next begins, or next to it.
std::vector<float> values_of(int64_t count) {
  std::vector<float> values = random_values(count, 3, 0.05F);
  for (int64_t i = 0; i < count; ++i) {
    auto& value = values[static_cast<size_t>(i)];
    int64_t block = i / 64;
    if (block % 7 == 1) {
      value = 0;
    } else if (block % 7 == 2) {
      value *= 1e-38F;
    } else if (block % 7 == 3) {
      const CodeLevels& levels = levels_of(block % 2 == 0 ? Coding::nf4 : Coding::fp4);
      auto bound = levels.bounds[static_cast<size_t>(i) % levels.bounds.size()] * 0.5F;
      value = i % 64 == 5 ? -0.5F : i % 3 == 0 ? bound : std::nextafter(bound, i % 3 == 1 ? 2.0F : -2.0F);
    }
  }
  return values;
}

void expect_same_codes(Format format, DType dtype, int64_t rows, int64_t columns) {
  SCOPED_TRACE(name_of(format) + " " + std::string(name_of(dtype)) + " " + std::to_string(columns));
  format.dtype = dtype;
  int64_t count = rows * columns;
  std::vector<float> values = values_of(count);
  CodePiece piece{.format = format, .columns = columns, .values = pinned_arena(), .count = count};
  convert(DType::f32, values.data(), dtype, pinned_arena(), count);
  int64_t scale_bytes = piece.units() * size_of(DType::f32);
  std::vector<std::byte> codes(static_cast<size_t>(piece.code_bytes()));
  std::vector<std::byte> scales(static_cast<size_t>(scale_bytes));
  piece.codes = codes.data();
  piece.scales = reinterpret_cast<float*>(scales.data());
  CpuBackend().quantise(piece);

  CudaBackend& card = *shared_card();
  std::vector<std::byte> made(codes.size() + 16, std::byte{0xa5});
  card.upload(shared_arena(), made.data(), std::ssize(made));
  piece.codes = shared_arena();
  // To the card, and to the host's memory, where scales go that become codes.
  std::byte* at_card = shared_arena() + align_up(std::ssize(made));
  std::byte* at_host = pinned_arena() + align_up(bytes_of(dtype, count));
  for (std::byte* place : {at_card, at_host}) {
    piece.scales = reinterpret_cast<float*>(place);
    card.quantise(piece);
    std::vector<std::byte> made_scales(scales.size());
    card.download(made_scales.data(), place, scale_bytes);
    EXPECT_EQ(made_scales, scales);
  }
  card.download(made.data(), piece.codes, std::ssize(made));
  EXPECT_EQ(std::memcmp(made.data(), codes.data(), codes.size()), 0);
  for (size_t i = codes.size(); i < made.size(); ++i) {
    EXPECT_EQ(made[i], std::byte{0xa5});  // nothing behind the codes
  }
}

TEST_F(CudaQuantise, TheHostsBits) {
  for (Format format : {kNf4, kFp4, Format(Coding::nf4, 16), Format(Coding::nf4, 256), kInt8}) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      expect_same_codes(format, dtype, 96, 1024);
      expect_same_codes(format, dtype, 5, 67);    // odd: the last byte holds one code
      expect_same_codes(format, dtype, 1, 3);     // less than a block
      expect_same_codes(format, dtype, 7, 4104);  // the last block is shorter
    }
  }
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (int64_t columns : {16, 1024, 4104, 18944, 45056}) {
      expect_same_codes(kFp8, dtype, 96, columns);
    }
  }
  expect_same_codes(kNf4, DType::bf16, 1024, 4096);
  expect_same_codes(kInt8, DType::bf16, 300, 18944);
}

}  // namespace
}  // namespace snug
