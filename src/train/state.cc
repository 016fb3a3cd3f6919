// Saving and loading it.
#include "train/state.h"

#include "plan/saving.h"

namespace snug {
namespace {

// Codes are stored as the bytes that they are, with their scales.
std::vector<int64_t> shape_of(const Buffer& buffer) {
  if (buffer.format.is_coded()) {
    return {buffer.max_bytes()};
  }
  std::vector<int64_t> shape;
  for (const Dim& dim : buffer.dims) {
    shape.push_back(dim.max);
  }
  return shape;
}

}  // namespace

std::vector<StoredTensor> state_tensors(const Plan& plan, StateScope scope) {
  std::vector<StoredTensor> tensors;
  for (const Buffer* buffer : state_buffers(plan)) {
    bool in_model_files = scope == StateScope::beside_model_files && buffer->role == Role::base_weights;
    if (!in_model_files) {
      bool is_coded = buffer->format.is_coded();
      tensors.push_back({.name = buffer->name,
                         .buffer = buffer->name,
                         .dtype = is_coded ? DType::u8 : buffer->dtype(),
                         .shape = shape_of(*buffer),
                         .elements = is_coded ? buffer->max_bytes() : buffer->max_elements()});
    }
  }
  return tensors;
}

void save_state(BufferReader& reader, StateScope scope, const std::filesystem::path& file,
                const BytesObserver& observer) {
  std::vector<StoredTensor> tensors = state_tensors(reader.plan(), scope);
  SafetensorsWriter writer(file, entries_of(tensors), {});
  TensorSaver saver(reader, tensors, observer);
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    saver.save(tensor, writer);
  }
  writer.finish();
}

void load_state(Executor& executor, StateScope scope, const std::filesystem::path& file) {
  load_buffers(executor, state_tensors(executor.plan(), scope), open_tensors(file));
}

}  // namespace snug
