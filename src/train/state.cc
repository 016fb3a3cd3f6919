// Saving and loading it.
#include "train/state.h"

#include "plan/saving.h"

namespace snug {
namespace {

std::vector<int64_t> shape_of(const Buffer& buffer) {
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
      tensors.push_back({.name = buffer->name,
                         .buffer = buffer->name,
                         .dtype = buffer->dtype(),
                         .shape = shape_of(*buffer),
                         .elements = buffer->max_elements()});
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
