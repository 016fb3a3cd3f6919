// Weights in.
#include "train/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <unordered_set>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "base/split_float.h"
#include "base/threads.h"
#include "compile/phases.h"
#include "program/names.h"
#include "train/code_placer.h"
#include "train/initialize.h"
#include "train/staging.h"

namespace snug {
namespace {

int64_t columns_of(const Buffer& buffer) {
  return buffer.dims.size() < 2 ? 1 : buffer.dims[1].max;
}

// Persistent buffers of a role that come from files, in the load phase's order.
std::vector<const Buffer*> file_buffers(const Plan& plan, Role role) {
  std::vector<const Buffer*> buffers;
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
    if (buffer.role == role && buffer.origin == Origin::file) {
      buffers.push_back(&buffer);
    }
  }
  return buffers;
}

std::string name_in(const TensorSource& source, const TensorPart& part) {
  auto found = std::find_if(part.names.begin(), part.names.end(),
                            [&](const std::string& name) { return source.contains(name); });
  return found == part.names.end() ? "" : *found;
}

// Makes fp32 values piece by piece.
using MakeValues = std::function<void(int64_t first, std::span<float> values)>;

// What one of the buffers that a tensor goes to has of its fp32 values: all of them in a dtype, or one of
// their halves (base/split_float.h).
enum class Share : uint8_t { values, upper_halves, rests };

struct Target {
  Tensor tensor;
  Share share = Share::values;

  DType dtype() const { return tensor.dtype; }
  std::byte* place(int64_t element) const { return tensor.as<std::byte>() + bytes_of(dtype(), element); }
};

void put_values(Share share, DType dtype, std::span<const float> values, void* to) {
  switch (share) {
    case Share::values:
      return convert(DType::f32, values.data(), dtype, to, std::ssize(values));
    case Share::upper_halves:
      std::transform(values.begin(), values.end(), static_cast<bf16_t*>(to),
                     [](float value) { return bf16_t{split_float(value).bf16_bits}; });
      return;
    case Share::rests:
      std::transform(values.begin(), values.end(), static_cast<int16_t*>(to),
                     [](float value) { return split_float(value).rest; });
      return;
  }
}

// The same without memory for all values in fp32.
void make_as(Share share, DType dtype, const MakeValues& make, int64_t first, int64_t count, void* to) {
  std::array<float, 4096> values;
  for (int64_t done = 0; done < count; done += std::ssize(values)) {
    auto piece =
        std::span(values).first(static_cast<size_t>(std::min<int64_t>(std::ssize(values), count - done)));
    make(first + done, piece);
    put_values(share, dtype, piece, static_cast<std::byte*>(to) + bytes_of(dtype, done));
  }
}

void read_as(const Target& target, const SourceTensor& source, int64_t first, int64_t count, void* to) {
  if (target.share == Share::values) {
    source.read(first, count, target.dtype(), to);
    return;
  }
  auto read = [&](int64_t begin, std::span<float> values) {
    source.read(begin, std::ssize(values), DType::f32, values.data());
  };
  make_as(target.share, target.dtype(), read, first, count, to);
}

// Writes tensors to rows of a buffer, and to what keeps their values exact beside it.
class Placer {
 public:
  Placer(Executor& executor, Staging& staging, const Buffer& buffer)
      : executor_(executor), backend_(executor.backend()), staging_(staging), buffer_(buffer) {
    bool is_split = executor.has(kLoadPhase, rest_name(buffer.name));
    targets_.push_back({.tensor = executor.tensor(kLoadPhase, buffer.name),
                        .share = is_split ? Share::upper_halves : Share::values});
    if (is_split) {
      targets_.push_back(
          {.tensor = executor.tensor(kLoadPhase, rest_name(buffer.name)), .share = Share::rests});
    }
    if (std::string master = master_name(buffer.name); executor.has(kLoadPhase, master)) {
      targets_.push_back({.tensor = executor.tensor(kLoadPhase, master)});
    }
  }

  // A tensor to its part of the buffer, in pieces that fit half the staging.
  void place(const TensorPart& part, const SourceTensor& tensor) {
    if (buffer_.format.is_coded() && tensor.coded() != nullptr) {
      copy_codes(executor_, staging_, buffer_, part, *tensor.coded());
      return;
    }
    if (buffer_.format.is_coded()) {
      place_codes(executor_, staging_, buffer_, part, [&](int64_t first, int64_t count, void* values) {
        tensor.read(first, count, buffer_.format.dtype, values);
      });
      return;
    }
    int64_t first = part.row_begin * columns_of(buffer_);
    int64_t count = tensor.elements();
    for (const Target& target : targets_) {
      int64_t piece = staging_.half_bytes() / size_of(target.dtype());
      for (int64_t done = 0; done < count; done += piece) {
        int64_t now = std::min(piece, count - done);
        std::byte* half = staging_.next();
        parallel_for(now, kCopyGrain, [&](int64_t begin, int64_t end) {
          read_as(target, tensor, done + begin, end - begin, half + bytes_of(target.dtype(), begin));
        });
        staging_.send(target.place(first + done), half, bytes_of(target.dtype(), now));
      }
    }
  }

  void place(const TensorPart& part, const MakeValues& make) {
    if (buffer_.format.is_coded()) {
      place_codes(executor_, staging_, buffer_, part, [&](int64_t begin, int64_t values, void* to) {
        make_as(Share::values, buffer_.format.dtype, make, begin, values, to);
      });
      return;
    }
    int64_t first = part.row_begin * columns_of(buffer_);
    int64_t count = part.rows * columns_of(buffer_);
    // Half of the staging buffer holds the values, the other half what they are converted to.
    const Tensor& staging = staging_.whole();
    int64_t piece = staging.elements() / 2 / size_of(DType::f32);
    SNUG_CHECK(piece > 0, "the staging buffer is too small");
    auto* values = staging.as<float>();
    for (int64_t done = 0; done < count; done += piece) {
      int64_t now = std::min(piece, count - done);
      make(done, {values, static_cast<size_t>(now)});
      for (const Target& target : targets_) {
        auto* converted = reinterpret_cast<std::byte*>(values + piece);
        parallel_for(now, kCopyGrain, [&](int64_t begin, int64_t end) {
          put_values(target.share, target.dtype(), {values + begin, static_cast<size_t>(end - begin)},
                     converted + bytes_of(target.dtype(), begin));
        });
        backend_.upload(target.place(first + done), converted, bytes_of(target.dtype(), now));
        backend_.synchronize();
      }
    }
  }

 private:
  static constexpr int64_t kCopyGrain = int64_t{1} << 16;

  Executor& executor_;
  Backend& backend_;
  Staging& staging_;
  const Buffer& buffer_;
  std::vector<Target> targets_;
};

void initialize_part(Placer& placer, const TensorPart& part, const Initializer& initializer, uint64_t seed) {
  Rng rng = tensor_rng(seed, part.names.front());
  placer.place(part, [&](int64_t first, std::span<float> values) { initializer.fill(rng, first, values); });
}

std::string text_of(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

void require_shape(const Buffer& buffer, const TensorPart& part, const SourceTensor& tensor) {
  std::vector<int64_t> expected = part_shape(buffer, part);
  if (tensor.shape() != expected) {
    throw bad_input(
        fmt::format("{}: tensor \"{}\" is {}, but config.json makes it {}; the config and the weights "
                    "are of different models",
                    tensor.file(), tensor.name(), text_of(tensor.shape()), text_of(expected)));
  }
  if (!is_floating(tensor.dtype())) {
    throw bad_input(fmt::format("{}: tensor \"{}\" is {}; weights must be fp32, bf16 or fp16", tensor.file(),
                                tensor.name(), name_of(tensor.dtype())));
  }
  if (buffer.format.is_coded() && tensor.coded() != nullptr) {
    Format stored = tensor.coded()->format;
    stored.dtype = buffer.format.dtype;
    if (stored != buffer.format) {
      throw bad_input(fmt::format(
          "{}: tensor \"{}\" is quantised already, to {}, and config.json does not say so: add the "
          "\"quantization_config\" that it was saved with, or take the original, unquantised model",
          tensor.file(), tensor.name(), name_of(stored)));
    }
  }
}

void require_kind(const SourceTensor& stored, DType dtype, const std::vector<int64_t>& shape) {
  if (stored.dtype() != dtype || stored.shape() != shape) {
    throw bad_input(fmt::format("{}: tensor \"{}\" is {} {}, but this run makes it {} {}", stored.file(),
                                stored.name(), name_of(stored.dtype()), text_of(stored.shape()),
                                name_of(dtype), text_of(shape)));
  }
}

// Loads the parts of a role's buffers for which `name_of` has a name.
using NameOfPart = std::function<std::string(const TensorPart& part)>;

void load_named(Executor& executor, Role role, const TensorSource& source, const NameOfPart& name_of,
                const BytesObserver& observer) {
  Staging staging(executor);
  int64_t done_bytes = 0;
  for (const Buffer* buffer : file_buffers(executor.plan(), role)) {
    Placer placer(executor, staging, *buffer);
    for (const TensorPart& part : buffer->parts) {
      std::string name = name_of(part);
      if (name.empty()) {
        continue;
      }
      const SourceTensor& tensor = source.find(name);
      require_shape(*buffer, part, tensor);
      placer.place(part, tensor);
      tensor.release();
      done_bytes += tensor.stored_bytes();
      if (observer) {
        observer(done_bytes, source.stored_bytes());
      }
    }
  }
  executor.backend().synchronize();
}

}  // namespace

void require_tensors(const Plan& plan, Role role, const TensorSource& source, const std::string& where) {
  std::vector<std::string> missing;
  for (const Buffer* buffer : file_buffers(plan, role)) {
    for (const TensorPart& part : buffer->parts) {
      std::string name = name_in(source, part);
      if (name.empty()) {
        missing.push_back(part.names.front());
        continue;
      }
      require_shape(*buffer, part, source.find(name));
    }
  }
  if (!missing.empty()) {
    size_t shown = std::min<size_t>(missing.size(), 5);
    throw bad_input(
        fmt::format("{}: {} of the model's tensors are missing: {}{}; the download may be incomplete, or "
                    "config.json may belong to another model",
                    where, missing.size(),
                    fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                    missing.size() > shown ? ", ..." : ""));
  }
}

void load_tensors(Executor& executor, Role role, const TensorSource& source, const BytesObserver& observer) {
  load_named(
      executor, role, source, [&](const TensorPart& part) { return name_in(source, part); }, observer);
}

void load_instead(Executor& executor, const TensorSource& source,
                  const std::map<std::string, std::string>& names) {
  auto name_of_part = [&](const TensorPart& part) {
    auto found = names.find(part.names.front());
    return found == names.end() ? "" : found->second;
  };
  load_named(executor, Role::base_weights, source, name_of_part, {});
}

void load_constants(Executor& executor) {
  executor.run(kLoadPhase, {});
  for (const Buffer& buffer : executor.plan().phase(kLoadPhase).program.buffers) {
    if (buffer.origin == Origin::constant) {
      executor.write_values<float>(kLoadPhase, buffer.name, buffer.constant);
    }
  }
}

void initialize_weights(Executor& executor, const ModelSpec& spec, uint64_t seed) {
  Staging staging(executor);
  for (const Buffer* buffer : file_buffers(executor.plan(), Role::base_weights)) {
    Placer placer(executor, staging, *buffer);
    for (const TensorPart& part : buffer->parts) {
      initialize_part(placer, part, weight_initializer(*buffer, part, spec), seed);
    }
  }
}

void initialize_adapters(Executor& executor, uint64_t seed) {
  Staging staging(executor);
  for (const Buffer* buffer : file_buffers(executor.plan(), Role::adapters)) {
    Placer placer(executor, staging, *buffer);
    for (const TensorPart& part : buffer->parts) {
      initialize_part(placer, part, adapter_initializer(*buffer, part), seed);
    }
  }
}

std::vector<StoredTensor> stored_tensors(const Plan& plan, Role role, bool exact) {
  std::vector<StoredTensor> tensors;
  std::unordered_set<std::string_view> known;
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
    known.insert(buffer.name);
  }
  for (const Buffer* buffer : file_buffers(plan, role)) {
    if (buffer->format.is_coded()) {
      continue;  // never trained, and made of the model's files again
    }
    bool wants_exact = exact && buffer->trainable;
    bool use_master = wants_exact && known.contains(master_name(buffer->name));
    bool use_rest = wants_exact && known.contains(rest_name(buffer->name));
    for (const TensorPart& part : buffer->parts) {
      int64_t columns = columns_of(*buffer);
      tensors.push_back({.name = part.names.front(),
                         .buffer = use_master ? master_name(buffer->name) : buffer->name,
                         .rests = use_rest ? rest_name(buffer->name) : "",
                         .dtype = use_master || use_rest ? DType::f32 : buffer->dtype(),
                         .shape = part_shape(*buffer, part),
                         .first_element = part.row_begin * columns,
                         .elements = part.rows * columns});
    }
  }
  return tensors;
}

std::vector<SafetensorsWriter::Entry> entries_of(const std::vector<StoredTensor>& tensors) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const StoredTensor& tensor : tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return entries;
}

void read_tensor(BufferReader& reader, const StoredTensor& tensor, const BufferReader::TakeBytes& take) {
  if (tensor.rests.empty()) {
    reader.read(tensor.buffer, bytes_of(tensor.dtype, tensor.first_element),
                bytes_of(tensor.dtype, tensor.elements), take);
  } else {
    reader.read_joined({.upper = tensor.buffer, .rests = tensor.rests}, tensor.first_element, tensor.elements,
                       take);
  }
}

void load_buffers(Executor& executor, const std::vector<StoredTensor>& tensors, const TensorSource& source) {
  Staging staging(executor);
  for (const StoredTensor& tensor : tensors) {
    if (!source.contains(tensor.name)) {
      throw bad_input(fmt::format("tensor \"{}\" is missing", tensor.name));
    }
    const SourceTensor& stored = source.find(tensor.name);
    require_kind(stored, tensor.dtype, tensor.shape);
    auto* target = executor.tensor(kLoadPhase, tensor.buffer).as<std::byte>() +
                   bytes_of(tensor.dtype, tensor.first_element);
    int64_t piece = staging.half_bytes() / size_of(tensor.dtype);
    for (int64_t done = 0; done < tensor.elements; done += piece) {
      int64_t now = std::min(piece, tensor.elements - done);
      std::byte* half = staging.next();
      stored.read(done, now, tensor.dtype, half);
      staging.send(target + bytes_of(tensor.dtype, done), half, bytes_of(tensor.dtype, now));
    }
    stored.release();
  }
  executor.backend().synchronize();
}

void load_exact_values(Executor& executor, const Buffer& buffer, const SourceTensor& values) {
  TensorPart whole{.names = {}, .row_begin = 0, .rows = buffer.dims.front().max};
  require_kind(values, DType::f32, part_shape(buffer, whole));
  Staging staging(executor);
  Placer(executor, staging, buffer).place(whole, values);
  values.release();
  executor.backend().synchronize();
}

TensorSaver::TensorSaver(BufferReader& reader, const std::vector<StoredTensor>& tensors,
                         const BytesObserver& observer)
    : reader_(reader), tensors_(tensors), observer_(observer) {
  for (const StoredTensor& tensor : tensors) {
    total_bytes_ += tensor.elements * size_of(tensor.dtype);
  }
}

void TensorSaver::save(size_t index, SafetensorsWriter& writer) {
  const StoredTensor& tensor = tensors_[index];
  read_tensor(reader_, tensor, [&](std::span<const std::byte> bytes) {
    writer.write(bytes);
    done_bytes_ += static_cast<int64_t>(bytes.size());
    if (observer_) {
      observer_(done_bytes_, total_bytes_);
    }
  });
}

}  // namespace snug
