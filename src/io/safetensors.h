// safetensors files, single or sharded by an index, read through a memory map. The header is untrusted:
// every length, range, name and dtype is checked before any of it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "io/tensor_source.h"

namespace snug {

struct TensorInfo {
  DType dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // within the data section
  int64_t end = 0;
};

// A parsed header; `data_begin` is the byte of the file at which the data section starts.
struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;
};

// `file_start` holds at least the header. `file_bytes` is the size of the whole file, `path` names it in
// errors. Throws bad_input for anything that is not a valid file: truncated, header too long, not JSON,
// unknown dtype, dtype x shape != bytes, overlap, holes, out of bounds, duplicate names.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file_start, int64_t file_bytes,
                                           const std::string& path);

// All tensors of a model folder (or of one file), whichever shards they are in. `path`: a .safetensors file,
// an .index.json, or a folder that holds model.safetensors or model.safetensors.index.json. Missing shards
// and tensors the index promises but no shard holds are errors here, before anything is loaded. A folder with
// only .bin / .pt files is refused with the reason.
TensorSource open_safetensors(const std::filesystem::path& path);

// Whether all files that it needs are in this folder.
bool holds_safetensors(const std::filesystem::path& folder);

// Writes a safetensors file without ever holding it whole: declare all tensors, then stream their bytes
// in the order declared. Atomic: the file appears under its name only when finish() returns.
class SafetensorsWriter {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
  };
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  // The next bytes of the data section. SNUG_CHECKs that no more is written than was declared.
  void write(std::span<const std::byte> bytes);
  void finish();  // SNUG_CHECKs that all declared bytes were written

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace snug
