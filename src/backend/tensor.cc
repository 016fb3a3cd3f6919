// Sizes of tensors.
#include "backend/backend.h"

namespace snug {

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    count *= dims[static_cast<size_t>(i)];
  }
  return count;
}

}  // namespace snug
