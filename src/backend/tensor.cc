// Tensors of buffers, and their sizes.
#include "backend/backend.h"
#include "base/check.h"

namespace snug {

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    count *= dims[static_cast<size_t>(i)];
  }
  return count;
}

Tensor tensor_of(const Buffer& buffer, void* data, const Extents& extents) {
  bool coded = buffer.format.is_coded();
  Tensor tensor{.data = data,
                .dtype = coded ? DType::u8 : buffer.dtype(),
                .rank = static_cast<int>(buffer.dims.size()),
                .coded = coded ? &buffer : nullptr};
  for (size_t i = 0; i < buffer.dims.size(); ++i) {
    tensor.dims[i] = actual(buffer.dims[i], extents);
    SNUG_CHECK(tensor.dims[i] <= buffer.dims[i].max, "more than was planned for " + buffer.name);
  }
  return tensor;
}

}  // namespace snug
