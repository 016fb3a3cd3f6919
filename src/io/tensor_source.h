// Where tensors come from. Each format of files has a kind of SourceTensor of its own and a function that
// opens it; whoever loads tensors knows what stands here and no format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/format.h"

namespace snug {

struct CodedTensor;

// One tensor, before it is loaded.
class SourceTensor {
 public:
  struct Facts {
    std::string name;
    DType dtype;  // reading it as this loses nothing
    std::vector<int64_t> shape;
    int64_t stored_bytes = 0;  // of the files, for it
    std::string file;          // for messages
  };

  explicit SourceTensor(Facts facts) : facts_(std::move(facts)) {}
  virtual ~SourceTensor() = default;
  SourceTensor(const SourceTensor&) = delete;
  SourceTensor& operator=(const SourceTensor&) = delete;

  const std::string& name() const { return facts_.name; }
  DType dtype() const { return facts_.dtype; }
  const std::vector<int64_t>& shape() const { return facts_.shape; }
  int64_t elements() const;
  int64_t stored_bytes() const { return facts_.stored_bytes; }
  const std::string& file() const { return facts_.file; }

  // Elements [first, first + count) to `target`, as `to`: the tensor's own dtype, or any floating one if its
  // own is. Several threads may read at once.
  virtual void read(int64_t first, int64_t count, DType to, void* target) const = 0;

  // Its codes, where the file holds it as such; read() gives what they stand for.
  virtual const CodedTensor* coded() const { return nullptr; }

  // Its values have been read: they need not stay in memory beside the arena. It can be read again.
  virtual void release() const = 0;

 private:
  Facts facts_;
};

// A matrix as codes, in pieces that can be copied as they are: program/code_layout.h says what each is. Their
// dtypes are those of the file, which may be any for `codes`: the bytes count.
struct CodedTensor {
  Format format;  // its dtype says nothing
  float offset = 0;
  const SourceTensor* codes = nullptr;
  const SourceTensor* scales = nullptr;
  const SourceTensor* nested_scales = nullptr;  // where the scales are codes themselves
  const SourceTensor* map = nullptr;            // where codes are looked up
  const SourceTensor* nested_map = nullptr;
};

// All tensors of a model folder or of one file, by name.
class TensorSource {
 public:
  void add(std::unique_ptr<SourceTensor> tensor);  // SNUG_CHECKs that its name is new

  bool contains(const std::string& name) const { return tensors_.contains(name); }
  const SourceTensor& find(const std::string& name) const;  // SNUG_CHECKs that it is there
  std::vector<std::string> names() const;
  // Whoever makes other tensors of them; leaves none behind.
  std::map<std::string, std::unique_ptr<SourceTensor>> take_all();
  int64_t stored_bytes() const { return stored_bytes_; }

 private:
  std::map<std::string, std::unique_ptr<SourceTensor>> tensors_;
  int64_t stored_bytes_ = 0;
};

// `path`: a folder, or a file. What is missing, damaged or of a kind that snug does not read is an error
// here, before anything is loaded.
TensorSource open_tensors(const std::filesystem::path& path);

// Whether all files that open_tensors needs are in this folder. A folder with a config alone is good for
// planning.
bool holds_tensors(const std::filesystem::path& folder);

}  // namespace snug
