// Any tensors as a checkpoint that bitsandbytes quantised: refused with an Error, or every element of every
// tensor can be read, and codes have the sizes that their format gives them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "io/tensor_source.h"
#include "memory_file.h"
#include "safetensors_input.h"

namespace {

void check_codes(const snug::SourceTensor& tensor) {
  const snug::CodedTensor& coded = *tensor.coded();
  int64_t elements = tensor.elements();
  int64_t bits = snug::code_bits(coded.format.coding);
  SNUG_CHECK(snug::bytes_of(coded.codes->dtype(), coded.codes->elements()) == (elements * bits + 7) / 8,
             "codes of " + tensor.name());
  int64_t block = coded.format.block == 0 ? tensor.shape()[1] : coded.format.block;
  SNUG_CHECK(coded.scales->elements() == (elements + block - 1) / block, "scales of " + tensor.name());
  SNUG_CHECK((coded.nested_scales != nullptr) == coded.format.nested, "nested scales of " + tensor.name());
}

// Pieces of all sizes, from odd places too.
void read_all(const snug::SourceTensor& tensor) {
  std::vector<float> values;
  for (int64_t first = 0, count = 1; first < tensor.elements(); first += count, count = 2 * count + 1) {
    count = std::min(count, tensor.elements() - first);
    values.assign(static_cast<size_t>(count), 0);
    tensor.read(first, count, snug::DType::f32, values.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes = with_fitting_length({reinterpret_cast<const std::byte*>(data), size});
  MemoryFile file({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  try {
    snug::TensorSource source = snug::open_tensors(file.path());
    for (const std::string& name : source.names()) {
      const snug::SourceTensor& tensor = source.find(name);
      if (tensor.coded() != nullptr) {
        check_codes(tensor);
      }
      if (snug::is_floating(tensor.dtype())) {
        read_all(tensor);
      }
    }
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
  }
  return 0;
}
