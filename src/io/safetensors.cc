// Opening model folders: one file, or the shards that an index names.
#include "io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/error.h"
#include "io/json.h"
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

}  // namespace

SafetensorsSet SafetensorsSet::open(const fs::path& path) {
  SafetensorsSet set;
  auto add_shard = [&set](const fs::path& file) {
    auto mapped = std::make_shared<MappedFile>(file);
    auto bytes = mapped->bytes();
    SafetensorsHeader header =
        parse_safetensors_header(bytes, static_cast<int64_t>(bytes.size()), file.string());
    set.shards_.push_back({file.string(), std::move(mapped), std::move(header)});
  };
  fs::path start = resolve(path);
  if (start.extension() != ".json") {
    add_shard(start);
    for (const auto& [name, info] : set.shards_.front().header.tensors) {
      set.where_.emplace(name, 0);
    }
    return set;
  }
  std::map<std::string, std::string> shard_of = read_weight_map(start);
  std::set<std::string> shards = shards_in(shard_of);
  check_shards_present(shards, start);
  std::map<std::string, size_t> number_of;
  for (const std::string& shard : shards) {
    number_of.emplace(shard, set.shards_.size());
    add_shard(start.parent_path() / shard);
  }
  for (const auto& [tensor, shard] : shard_of) {
    size_t number = number_of.at(shard);
    if (!set.shards_[number].header.tensors.contains(tensor)) {
      throw bad_input(
          fmt::format("{}: tensor {} is said to be in {}, which does not hold it; index and "
                      "shards do not belong together",
                      start.string(), in_quotes(tensor), printable(shard)));
    }
    set.where_.emplace(tensor, number);
  }
  return set;
}

bool SafetensorsSet::is_complete(const fs::path& folder) {
  std::error_code status;
  if (fs::exists(folder / kSingleName, status)) {
    return true;
  }
  fs::path index = folder / kIndexName;
  return fs::exists(index, status) && find_missing(shards_in(read_weight_map(index)), folder).empty();
}

TensorBytes SafetensorsSet::find(const std::string& name) const {
  auto found = where_.find(name);
  SNUG_CHECK(found != where_.end(), "no tensor " + name);
  const Shard& shard = shards_[found->second];
  const TensorInfo& info = shard.header.tensors.at(name);
  auto first = static_cast<size_t>(shard.header.data_begin + info.begin);
  auto count = static_cast<size_t>(info.end - info.begin);
  return {info.dtype, info.shape, shard.file->bytes().subspan(first, count), shard.path};
}

std::vector<std::string> SafetensorsSet::names() const {
  std::vector<std::string> names;
  names.reserve(where_.size());
  for (const auto& [name, shard] : where_) {
    names.push_back(name);
  }
  return names;
}

int64_t SafetensorsSet::total_bytes() const {
  int64_t total = 0;
  for (const auto& [name, shard] : where_) {
    const TensorInfo& info = shards_[shard].header.tensors.at(name);
    total += info.end - info.begin;
  }
  return total;
}

void SafetensorsSet::release(std::span<const std::byte> range) const {
  if (range.empty()) {
    return;
  }
  for (const Shard& shard : shards_) {
    auto file = shard.file->bytes();
    if (std::less_equal<>()(file.data(), range.data()) &&
        std::less<>()(range.data(), file.data() + file.size())) {
      shard.file->release(range);
      return;
    }
  }
  SNUG_CHECK(false, "the range to release is in none of the files");
}

}  // namespace snug
