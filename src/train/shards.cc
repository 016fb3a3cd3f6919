// Shards and their index.
#include "train/shards.h"

#include <fmt/format.h>

#include "io/atomic_file.h"
#include "io/json.h"

namespace snug {
namespace {

constexpr int64_t kLargestShardBytes = 5'000'000'000;  // Hugging Face's default
constexpr const char* kIndexName = "model.safetensors.index.json";

std::string shard_name(size_t shard, size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, count);
}

// The first tensor of each shard, and the end.
std::vector<size_t> shard_starts(const std::vector<SafetensorsWriter::Entry>& tensors) {
  std::vector<size_t> starts = {0};
  int64_t filled = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (filled > 0 && filled + bytes_of(tensors[i]) > kLargestShardBytes) {
      starts.push_back(i);
      filled = 0;
    }
    filled += bytes_of(tensors[i]);
  }
  starts.push_back(tensors.size());
  return starts;
}

}  // namespace

int64_t bytes_of(const SafetensorsWriter::Entry& tensor) {
  int64_t elements = 1;
  for (int64_t size : tensor.shape) {
    elements *= size;
  }
  return elements * size_of(tensor.dtype);
}

int64_t file_bytes(const std::vector<SafetensorsWriter::Entry>& tensors) {
  constexpr int64_t kEntryBytes = 200;  // of the header, beside the name
  int64_t bytes = kEntryBytes;
  for (const SafetensorsWriter::Entry& tensor : tensors) {
    bytes += kEntryBytes + static_cast<int64_t>(tensor.name.size()) + bytes_of(tensor);
  }
  return bytes;
}

std::vector<PlannedFile> shard_files(const std::vector<SafetensorsWriter::Entry>& tensors) {
  std::vector<size_t> starts = shard_starts(tensors);
  size_t count = starts.size() - 1;
  std::vector<PlannedFile> files;
  int64_t index_bytes = 0;
  for (size_t shard = 0; shard < count; ++shard) {
    auto first = tensors.begin() + static_cast<std::ptrdiff_t>(starts[shard]);
    auto last = tensors.begin() + static_cast<std::ptrdiff_t>(starts[shard + 1]);
    files.push_back({shard_name(shard, count), file_bytes({first, last})});
    index_bytes += 256 * (last - first);
  }
  if (count > 1) {
    files.push_back({kIndexName, index_bytes});
  }
  return files;
}

void write_shards(const std::filesystem::path& folder, const std::vector<SafetensorsWriter::Entry>& tensors,
                  const std::function<void(size_t tensor, SafetensorsWriter& writer)>& write_data) {
  std::vector<size_t> starts = shard_starts(tensors);
  size_t count = starts.size() - 1;
  Json weight_map = Json::object();
  int64_t total = 0;
  for (size_t shard = 0; shard < count; ++shard) {
    std::string name = shard_name(shard, count);
    auto first = tensors.begin() + static_cast<std::ptrdiff_t>(starts[shard]);
    auto last = tensors.begin() + static_cast<std::ptrdiff_t>(starts[shard + 1]);
    SafetensorsWriter writer(folder / name, {first, last});
    for (size_t i = starts[shard]; i < starts[shard + 1]; ++i) {
      write_data(i, writer);
      weight_map[tensors[i].name] = name;
      total += bytes_of(tensors[i]);
    }
    writer.finish();
  }
  if (count > 1) {
    Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    write_file_atomically(folder / kIndexName, index.dump(2) + "\n");
  }
}

}  // namespace snug
