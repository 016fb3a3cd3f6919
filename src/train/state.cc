// Saving and loading it.
#include "train/state.h"

#include "plan/saving.h"
#include "program/names.h"

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

// Checkpoints of earlier versions have an fp32 master where the plan has a parameter and its rest: takes both
// out of `tensors`, as the master says what they are.
std::vector<const Buffer*> take_those_with_masters(const Plan& plan, const TensorSource& source,
                                                   std::vector<StoredTensor>& tensors) {
  std::vector<const Buffer*> parameters;
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
    std::string rest = rest_name(buffer.name);
    bool has_master = buffer.trainable && !source.contains(rest) && source.contains(master_name(buffer.name));
    auto is_rest = [&](const StoredTensor& tensor) { return tensor.buffer == rest; };
    if (has_master && std::erase_if(tensors, is_rest) > 0) {
      std::erase_if(tensors, [&](const StoredTensor& tensor) { return tensor.buffer == buffer.name; });
      parameters.push_back(&buffer);
    }
  }
  return parameters;
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
  TensorSource source = open_tensors(file);
  std::vector<StoredTensor> tensors = state_tensors(executor.plan(), scope);
  std::vector<const Buffer*> with_masters = take_those_with_masters(executor.plan(), source, tensors);
  load_buffers(executor, tensors, source);
  for (const Buffer* parameter : with_masters) {
    load_exact_values(executor, *parameter, source.find(master_name(parameter->name)));
  }
}

}  // namespace snug
