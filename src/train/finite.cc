// Looking through weight files, a piece at a time.
#include "train/finite.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "base/threads.h"

namespace snug {
namespace {

constexpr int64_t kPieceElements = 1024;

bool is_finite(const SourceTensor& tensor, DType dtype) {
  std::atomic<bool> finite = true;
  parallel_for(tensor.elements(), kPieceElements, [&](int64_t begin, int64_t end) {
    std::array<float, kPieceElements> stored{};
    std::array<float, kPieceElements> values{};
    for (int64_t first = begin; first < end && finite; first += kPieceElements) {
      int64_t count = std::min(kPieceElements, end - first);
      tensor.read(first, count, dtype, stored.data());
      convert(dtype, stored.data(), DType::f32, values.data(), count);
      if (!std::all_of(values.begin(), values.begin() + count, [](float v) { return std::isfinite(v); })) {
        finite = false;
      }
    }
  });
  return finite;
}

}  // namespace

std::vector<std::string> tensors_not_finite(const TensorSource& source, DType dtype) {
  std::vector<std::string> names;
  for (const std::string& name : source.names()) {
    const SourceTensor& tensor = source.find(name);
    if (is_floating(tensor.dtype()) && !is_finite(tensor, dtype)) {
      names.push_back(name);
    }
    tensor.release();
  }
  return names;
}

}  // namespace snug
