// Opening model folders: one file, or the shards that an index names.
#include "io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/printable.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kIndexName = "model.safetensors.index.json";

bool is_pickle(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kExtensions = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"};
  return std::find(kExtensions.begin(), kExtensions.end(), path.extension().string()) != kExtensions.end();
}

Error pickle_refused(const fs::path& where, const std::string& file) {
  return bad_input(fmt::format(
      "{}: {} is a pickle, and loading a pickle can run any code; snug reads safetensors only. Convert it "
      "where you trust it: AutoModelForCausalLM.from_pretrained(...).save_pretrained(\"new_folder\", "
      "safe_serialization=True)",
      where.string(), file));
}

// Why a folder without model.safetensors and without index cannot be used.
Error no_weights(const fs::path& folder) {
  std::vector<std::string> safetensors;
  std::vector<std::string> pickles;
  std::error_code status;
  for (fs::directory_iterator entry(folder, status), end; !status && entry != end; entry.increment(status)) {
    const fs::path& path = entry->path();
    if (path.extension() == ".safetensors") {
      safetensors.push_back(path.filename().string());
    } else if (is_pickle(path) && path.filename() != "training_args.bin") {
      pickles.push_back(path.filename().string());
    }
  }
  if (status) {
    return environment_error(fmt::format("{}: cannot be listed: {}", folder.string(), status.message()));
  }
  std::sort(safetensors.begin(), safetensors.end());
  std::sort(pickles.begin(), pickles.end());
  if (!safetensors.empty()) {
    return bad_input(fmt::format(
        "{}: holds {} safetensors file(s) such as {}, but neither {} nor {}; if they are shards, fetch the "
        "index too, otherwise name the file itself",
        folder.string(), safetensors.size(), printable(safetensors.front()), kSingleName, kIndexName));
  }
  if (!pickles.empty()) {
    return pickle_refused(folder, printable(pickles.front()));
  }
  return bad_input(fmt::format("{}: holds neither {} nor {}", folder.string(), kSingleName, kIndexName));
}

// Which file to start from.
fs::path resolve(const fs::path& path) {
  std::error_code status;
  if (!fs::exists(path, status)) {
    if (status && status != std::errc::no_such_file_or_directory && status != std::errc::not_a_directory) {
      throw environment_error(fmt::format("{}: cannot be looked at: {}", path.string(), status.message()));
    }
    throw bad_input(fmt::format("{}: no such file or folder", path.string()));
  }
  if (!fs::is_directory(path, status)) {
    if (is_pickle(path)) {
      throw pickle_refused(path, "it");
    }
    return path;
  }
  for (const char* name : {kSingleName, kIndexName}) {
    if (fs::exists(path / name, status)) {
      return path / name;
    }
  }
  throw no_weights(path);
}

// An index is untrusted too: a shard is a file beside it and nothing else.
void check_shard_name(const std::string& shard, const std::string& tensor, const fs::path& index) {
  bool plain = !shard.empty() && shard != "." && shard != ".." && shard.find('/') == std::string::npos &&
               shard.find('\\') == std::string::npos && shard.find('\0') == std::string::npos;
  if (!plain) {
    throw bad_input(
        fmt::format("{}: tensor {} is said to be in {}; a shard must be a plain file name in the "
                    "folder of the index",
                    index.string(), in_quotes(tensor), in_quotes(shard)));
  }
  if (is_pickle(shard)) {
    throw pickle_refused(index, printable(shard));
  }
}

// tensor name -> shard file name
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  Json document = read_json(index);
  auto weight_map = document.is_object() ? document.find("weight_map") : document.end();
  if (weight_map == document.end() || !weight_map->is_object() || weight_map->empty()) {
    throw bad_input(
        fmt::format("{}: no \"weight_map\" object that names tensors and their shards", index.string()));
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [tensor, shard] : weight_map->get_ref<const Json::object_t&>()) {
    if (!shard.is_string()) {
      throw bad_input(fmt::format("{}: weight_map: the shard of tensor {} is {}; a file name is wanted",
                                  index.string(), in_quotes(tensor), printable(shard.dump(), 60)));
    }
    check_shard_name(shard.get_ref<const std::string&>(), tensor, index);
    shard_of.emplace(tensor, shard.get<std::string>());
  }
  return shard_of;
}

std::set<std::string> shards_in(const std::map<std::string, std::string>& shard_of) {
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) {
    shards.insert(shard);
  }
  return shards;
}

std::vector<std::string> find_missing(const std::set<std::string>& shards, const fs::path& folder) {
  std::vector<std::string> missing;
  std::error_code status;
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard, status)) {
      missing.push_back(printable(shard));
    }
  }
  return missing;
}

void check_shards_present(const std::set<std::string>& shards, const fs::path& index) {
  constexpr size_t kNamed = 5;
  std::vector<std::string> missing = find_missing(shards, index.parent_path());
  if (missing.empty()) {
    return;
  }
  size_t count = missing.size();
  missing.resize(std::min(count, kNamed));
  throw bad_input(fmt::format("{}: {} of {} shards {} missing: {}{}; fetch or copy {} again", index.string(),
                              count, shards.size(), count == 1 ? "is" : "are", fmt::join(missing, ", "),
                              count > kNamed ? ", ..." : "", count == 1 ? "it" : "them"));
}

// A tensor's bytes in the mapped file.
class MappedTensor : public SourceTensor {
 public:
  MappedTensor(Facts facts, std::shared_ptr<const MappedFile> mapped, std::span<const std::byte> bytes)
      : SourceTensor(std::move(facts)), mapped_(std::move(mapped)), bytes_(bytes) {}

  void read(int64_t first, int64_t count, DType to, void* target) const override {
    convert(dtype(), bytes_.data() + bytes_of(dtype(), first), to, target, count);
  }

  void release() const override { mapped_->release(bytes_); }

 private:
  std::shared_ptr<const MappedFile> mapped_;
  std::span<const std::byte> bytes_;
};

struct Shard {
  explicit Shard(const fs::path& file)
      : path(file.string()),
        mapped(std::make_shared<MappedFile>(file)),
        header(parse_safetensors_header(mapped->bytes(), std::ssize(mapped->bytes()), path)) {}

  std::unique_ptr<SourceTensor> tensor(const std::string& name) const {
    const TensorInfo& info = header.tensors.at(name);
    auto bytes = mapped->bytes().subspan(static_cast<size_t>(header.data_begin + info.begin),
                                         static_cast<size_t>(info.end - info.begin));
    return std::make_unique<MappedTensor>(
        SourceTensor::Facts{name, info.dtype, info.shape, info.end - info.begin, path}, mapped, bytes);
  }

  std::string path;
  std::shared_ptr<const MappedFile> mapped;
  SafetensorsHeader header;
};

TensorSource open_index(const fs::path& index) {
  std::map<std::string, std::string> shard_of = read_weight_map(index);
  std::set<std::string> names = shards_in(shard_of);
  check_shards_present(names, index);
  std::map<std::string, Shard> shards;
  for (const std::string& name : names) {
    shards.emplace(name, Shard(index.parent_path() / name));
  }
  TensorSource source;
  for (const auto& [tensor, shard] : shard_of) {
    if (!shards.at(shard).header.tensors.contains(tensor)) {
      throw bad_input(
          fmt::format("{}: tensor {} is said to be in {}, which does not hold it; index and "
                      "shards do not belong together",
                      index.string(), in_quotes(tensor), printable(shard)));
    }
    source.add(shards.at(shard).tensor(tensor));
  }
  return source;
}

}  // namespace

TensorSource open_safetensors(const fs::path& path) {
  fs::path start = resolve(path);
  if (start.extension() == ".json") {
    return open_index(start);
  }
  Shard file(start);
  TensorSource source;
  for (const auto& [name, info] : file.header.tensors) {
    source.add(file.tensor(name));
  }
  return source;
}

bool holds_safetensors(const fs::path& folder) {
  std::error_code status;
  if (fs::exists(folder / kSingleName, status)) {
    return true;
  }
  fs::path index = folder / kIndexName;
  return fs::exists(index, status) && find_missing(shards_in(read_weight_map(index)), folder).empty();
}

}  // namespace snug
