// Filling the arena: weights from files or from random numbers, streamed through the staging buffer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "io/safetensors.h"
#include "io/tensor_source.h"
#include "model/model_spec.h"
#include "train/buffer_reader.h"

namespace snug {

// How far moving tensors has come, after each of them.
using BytesObserver = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// What a source must hold for a plan, checked before a byte is loaded: throws bad_input naming every
// missing tensor, or the first whose shape disagrees with the config.
void require_tensors(const Plan& plan, Role role, const TensorSource& source, const std::string& where);

// Streams all buffers of `role` that come from files into their places, converting on the way.
void load_tensors(Executor& executor, Role role, const TensorSource& source,
                  const BytesObserver& observer = {});

// The same for some tensors of the model only, in place of what was loaded before: `names` has the model's
// name of each and the source's. Throws bad_input for one whose shape disagrees.
void load_instead(Executor& executor, const TensorSource& source,
                  const std::map<std::string, std::string>& names);

// Constants that come with the programs, and zeros where the load phase says so. Call once, first.
void load_constants(Executor& executor);

// Fresh weights and adapters (train/initialize.h).
void initialize_weights(Executor& executor, const ModelSpec& spec, uint64_t seed);

void initialize_adapters(Executor& executor, uint64_t seed);

// One tensor of a file, as rows of a persistent buffer; used by everything that writes weights out.
struct StoredTensor {
  std::string name;    // the file's name for it
  std::string buffer;  // where its values are: the fp32 master where there is one and `exact` is asked for
  std::string rests =
      {};  // where the lower halves of its fp32 values are, if `buffer` has only the upper ones
  DType dtype;
  std::vector<int64_t> shape;
  int64_t first_element = 0;
  int64_t elements = 0;
};
std::vector<StoredTensor> stored_tensors(const Plan& plan, Role role, bool exact);
std::vector<SafetensorsWriter::Entry> entries_of(const std::vector<StoredTensor>& tensors);

// Calls `take` with the values of a tensor, in its dtype.
void read_tensor(BufferReader& reader, const StoredTensor& tensor, const BufferReader::TakeBytes& take);

// Streams tensors back as they are, without any conversion. Throws bad_input for one that is missing or of
// another kind.
void load_buffers(Executor& executor, const std::vector<StoredTensor>& tensors, const TensorSource& source);

// fp32 values for a whole trained buffer, and for what keeps them exact beside it. Throws bad_input if they
// are of another kind.
void load_exact_values(Executor& executor, const Buffer& buffer, const SourceTensor& values);

// Streams tensors to files.
class TensorSaver {
 public:
  // `observer` hears of the bytes of all of `tensors`; both must outlive the saver.
  TensorSaver(BufferReader& reader, const std::vector<StoredTensor>& tensors, const BytesObserver& observer);
  void save(size_t tensor, SafetensorsWriter& writer);

 private:
  BufferReader& reader_;
  const std::vector<StoredTensor>& tensors_;
  const BytesObserver& observer_;
  int64_t done_bytes_ = 0;
  int64_t total_bytes_ = 0;
};

}  // namespace snug
