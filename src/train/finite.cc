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

bool is_finite(const TensorBytes& tensor, DType dtype) {
  int64_t element_bytes = size_of(tensor.dtype);
  std::atomic<bool> finite = true;
  parallel_for(static_cast<int64_t>(tensor.bytes.size()) / element_bytes, kPieceElements,
               [&](int64_t begin, int64_t end) {
                 std::array<float, kPieceElements> stored{};
                 std::array<float, kPieceElements> values{};
                 for (int64_t first = begin; first < end && finite; first += kPieceElements) {
                   int64_t count = std::min(kPieceElements, end - first);
                   convert(tensor.dtype, tensor.bytes.data() + first * element_bytes, dtype, stored.data(),
                           count);
                   convert(dtype, stored.data(), DType::f32, values.data(), count);
                   if (!std::all_of(values.begin(), values.begin() + count,
                                    [](float v) { return std::isfinite(v); })) {
                     finite = false;
                   }
                 }
               });
  return finite;
}

}  // namespace

std::vector<std::string> tensors_not_finite(const SafetensorsSet& files, DType dtype) {
  std::vector<std::string> names;
  for (const std::string& name : files.names()) {
    TensorBytes tensor = files.find(name);
    if (is_floating(tensor.dtype) && !is_finite(tensor, dtype)) {
      names.push_back(name);
    }
    files.release(tensor.bytes);
  }
  return names;
}

}  // namespace snug
