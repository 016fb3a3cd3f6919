// Tensors by name, and who reads what lies at a path.
#include "io/tensor_source.h"

#include <utility>

#include "base/check.h"
#include "io/bitsandbytes.h"
#include "io/safetensors.h"

namespace snug {

int64_t SourceTensor::elements() const {
  int64_t elements = 1;
  for (int64_t size : facts_.shape) {
    elements *= size;
  }
  return elements;
}

void TensorSource::add(std::unique_ptr<SourceTensor> tensor) {
  stored_bytes_ += tensor->stored_bytes();
  std::string name = tensor->name();
  bool is_new = tensors_.emplace(name, std::move(tensor)).second;
  SNUG_CHECK(is_new, "a second tensor " + name);
}

const SourceTensor& TensorSource::find(const std::string& name) const {
  auto found = tensors_.find(name);
  SNUG_CHECK(found != tensors_.end(), "no tensor " + name);
  return *found->second;
}

std::vector<std::string> TensorSource::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    names.push_back(name);
  }
  return names;
}

std::map<std::string, std::unique_ptr<SourceTensor>> TensorSource::take_all() {
  stored_bytes_ = 0;
  return std::exchange(tensors_, {});
}

TensorSource open_tensors(const std::filesystem::path& path) {
  return join_bitsandbytes(open_safetensors(path));
}

bool holds_tensors(const std::filesystem::path& folder) {
  return holds_safetensors(folder);
}

}  // namespace snug
