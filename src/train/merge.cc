// Tensor by tensor, in pieces of rows.
#include "train/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/threads.h"
#include "compile/adapters.h"
#include "compile/phases.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "train/adapter_files.h"
#include "train/output.h"
#include "train/shards.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelConfig = "config.json";
constexpr int64_t kPieceElements = int64_t{1} << 20;  // at a time

// What is added to one matrix: scale * B[out,r] A[r,in].
struct Update {
  std::vector<float> a;
  std::vector<float> b;  // scaled
  int64_t rank = 0;

  // To the rows [first, first + rows) of the matrix, [rows, columns] at `values`.
  void add(float* values, int64_t first, int64_t rows, int64_t columns) const {
    parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* y = values + row * columns;
        for (int64_t k = 0; k < rank; ++k) {
          float factor = b[static_cast<size_t>((first + row) * rank + k)];
          const float* x = a.data() + k * columns;
          for (int64_t column = 0; column < columns; ++column) {
            y[column] += factor * x[column];
          }
        }
      }
    });
  }
};

class Merger {
 public:
  Merger(const Plan& plan, const fs::path& model, const fs::path& adapter)
      : weights_(open_tensors(model)),
        adapter_(open_adapter(adapter)),
        settings_(read_adapter_config(adapter)),
        shapes_(settings_) {
    for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
      for (const TensorPart& part : buffer.parts) {
        for (const std::string& name : part.names) {
          own_names_.emplace(name, part.names.front());
        }
      }
    }
  }

  std::vector<SafetensorsWriter::Entry> entries() const { return entries_of_model(weights_); }

  static std::vector<SafetensorsWriter::Entry> entries_of_model(const TensorSource& source) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const std::string& name : source.names()) {
      const SourceTensor& tensor = source.find(name);
      entries.push_back({name, tensor.dtype(), tensor.shape()});
    }
    return entries;
  }

  void write(const std::string& name, SafetensorsWriter& writer) {
    const SourceTensor& tensor = weights_.find(name);
    if (const SourceTensor* bias = trained_bias(name)) {
      write_values(values_of(*bias), tensor.dtype(), writer);
    } else if (std::optional<Update> update = update_of(name)) {
      write_updated(tensor, *update, writer);
    } else {
      copy(tensor, writer);
    }
    tensor.release();
  }

  // Throws unless every tensor of the adapter found its place.
  void finish() const {
    for (const std::string& name : adapter_.names()) {
      if (!used_.contains(name)) {
        throw bad_input(
            fmt::format("{}: belongs to no tensor of the model, so that it cannot be merged into it", name));
      }
    }
  }

 private:
  // Of a tensor of the file: what the adapter's file calls what belongs to it.
  std::string prefix_of(const std::string& name, std::string_view ending) const {
    auto found = own_names_.find(name);
    const std::string& known = found == own_names_.end() ? name : found->second;
    return known.ends_with(ending)
               ? fmt::format("{}{}", kAdapterPrefix, known.substr(0, known.size() - ending.size()))
               : "";
  }

  // Null where there is none.
  const SourceTensor* trained_bias(const std::string& name) {
    std::string prefix = prefix_of(name, ".bias");
    for (const char* between : {".base_layer", ""}) {
      std::string bias = prefix + between + ".bias";
      if (!prefix.empty() && adapter_.contains(bias)) {
        used_.insert(bias);
        return &adapter_.find(bias);
      }
    }
    return nullptr;
  }

  std::optional<Update> update_of(const std::string& name) {
    std::string prefix = prefix_of(name, ".weight");
    if (prefix.empty() || !adapter_.contains(prefix + ".lora_A.weight")) {
      return std::nullopt;
    }
    used_.insert({prefix + ".lora_A.weight", prefix + ".lora_B.weight"});
    const SourceTensor& a = adapter_.find(prefix + ".lora_A.weight");
    Update update{values_of(a), values_of(adapter_.find(prefix + ".lora_B.weight")), a.shape()[0]};
    float scale = shapes_.scale_of(prefix.substr(kAdapterPrefix.size()));
    for (float& value : update.b) {
      value *= scale;
    }
    return update;
  }

  static void write_values(const std::vector<float>& values, DType dtype, SafetensorsWriter& writer) {
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_of(dtype)));
    convert(DType::f32, values.data(), dtype, bytes.data(), std::ssize(values));
    writer.write(bytes);
  }

  // Calls `write` with the tensor's elements [first, first + count), piece by piece.
  static void in_pieces(const SourceTensor& tensor, int64_t piece,
                        const std::function<void(int64_t first, int64_t count)>& write) {
    for (int64_t first = 0; first < tensor.elements(); first += piece) {
      write(first, std::min(piece, tensor.elements() - first));
    }
  }

  static void copy(const SourceTensor& tensor, SafetensorsWriter& writer) {
    std::vector<std::byte> bytes;
    in_pieces(tensor, kPieceElements, [&](int64_t first, int64_t count) {
      bytes.resize(static_cast<size_t>(count * size_of(tensor.dtype())));
      tensor.read(first, count, tensor.dtype(), bytes.data());
      writer.write(bytes);
    });
  }

  static void write_updated(const SourceTensor& tensor, const Update& update, SafetensorsWriter& writer) {
    int64_t columns = tensor.shape()[1];
    int64_t rows = std::max<int64_t>(1, kPieceElements / columns);
    std::vector<float> values;
    in_pieces(tensor, rows * columns, [&](int64_t first, int64_t count) {
      values.resize(static_cast<size_t>(count));
      tensor.read(first, count, DType::f32, values.data());
      update.add(values.data(), first / columns, count / columns, columns);
      write_values(values, tensor.dtype(), writer);
    });
  }

  TensorSource weights_;
  TensorSource adapter_;
  LoraSection settings_;
  AdapterShapes shapes_;
  std::set<std::string> used_;  // of the adapter's tensors
  std::map<std::string, std::string>
      own_names_;  // any name of a tensor -> the one that adapters are named by
};

}  // namespace

void merge_adapter(const Plan& plan, const fs::path& model, const fs::path& adapter, const fs::path& target,
                   const BytesObserver& observer) {
  fs::path made = partial_name(target);
  std::error_code ignored;
  fs::remove_all(made, ignored);
  Merger merger(plan, model, adapter);
  std::vector<SafetensorsWriter::Entry> entries = merger.entries();
  int64_t total = 0;
  for (const SafetensorsWriter::Entry& entry : entries) {
    total += bytes_of(entry);
  }
  int64_t done = 0;
  write_shards(made, entries, [&](size_t tensor, SafetensorsWriter& writer) {
    merger.write(entries[tensor].name, writer);
    done += bytes_of(entries[tensor]);
    if (observer) {
      observer(done, total);
    }
  });
  merger.finish();
  for (const std::string& name : copied_model_files(model)) {
    write_file_atomically(made / name, read_text_file(model / name));
  }
  write_file_atomically(made / kModelConfig, read_text_file(model / kModelConfig));
  rename_into_place(made, target);
  fs::remove_all(made, ignored);  // it has the name of what was there before
}

std::vector<PlannedFile> merged_model_files(const fs::path& model) {
  std::vector<PlannedFile> files = shard_files(Merger::entries_of_model(open_tensors(model)));
  std::vector<std::string> names = copied_model_files(model);
  names.emplace_back(kModelConfig);
  for (const std::string& name : names) {
    files.push_back({name, static_cast<int64_t>(fs::file_size(model / name))});
  }
  return files;
}

}  // namespace snug
