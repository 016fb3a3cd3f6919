// Writing, finding, checking and removing them.
#include "train/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/printable.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr int64_t kFormat = 1;  // of a checkpoint's files
constexpr const char* kHash = "xxh3_128";

std::optional<int64_t> step_in(const std::string& name) {
  std::string_view digits = name;
  if (!digits.starts_with(kPrefix)) {
    return std::nullopt;
  }
  digits.remove_prefix(kPrefix.size());
  int64_t step = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  bool is_number = error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  return is_number && step >= 0 ? std::optional(step) : std::nullopt;
}

std::string hash_of(const fs::path& file) {
  constexpr int64_t kPieceBytes = int64_t{16} << 20;
  MappedFile mapped(file);
  Fingerprint fingerprint;
  std::span<const std::byte> bytes = mapped.bytes();
  for (size_t done = 0; done < bytes.size();) {
    std::span<const std::byte> piece =
        bytes.subspan(done, std::min(static_cast<size_t>(kPieceBytes), bytes.size() - done));
    fingerprint.add_bytes({reinterpret_cast<const char*>(piece.data()), piece.size()});
    mapped.release(piece);
    done += piece.size();
  }
  return fingerprint.hex();
}

Json files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  Json files = Json::array();
  for (const std::string& name : names) {
    files.push_back({{"name", name},
                     {"bytes", static_cast<int64_t>(fs::file_size(folder / name))},
                     {kHash, hash_of(folder / name)}});
  }
  return files;
}

// Null unless it is one of snug's.
Json read_manifest(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kCheckpointManifest, ignored)) {
    return {};
  }
  try {
    Json manifest = read_json(folder / kCheckpointManifest);
    bool is_ours = manifest.is_object() && manifest.value("made_by", "") == "snug" &&
                   manifest.contains("files") && manifest["files"].is_array();
    return is_ours ? manifest : Json();
  } catch (const std::exception&) {  // whatever it is, it is no manifest
    return {};
  }
}

// "" for what is no name of a file in the folder.
std::string name_in(const Json& file) {
  bool has_name = file.is_object() && file.contains("name") && file["name"].is_string();
  std::string name = has_name ? file["name"].get<std::string>() : "";
  return is_plain_name(name) ? name : "";
}

// A hidden folder, which goes unless it is kept.
class PartialFolder {
 public:
  explicit PartialFolder(const fs::path& path) : path_(path) {
    remove();
    std::error_code status;
    fs::create_directories(path_, status);
    if (status) {
      throw write_error(status.value(), path_, "the folder cannot be created");
    }
  }
  ~PartialFolder() { remove(); }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  fs::path path_;
};

}  // namespace

std::string checkpoint_name(int64_t step) {
  return fmt::format("{}{}", kPrefix, step);
}

fs::path write_checkpoint_folder(const fs::path& run_folder, int64_t step,
                                 const std::function<void(const fs::path& folder)>& write_files) {
  fs::path target = run_folder / checkpoint_name(step);
  fs::path hidden = partial_name(target);
  PartialFolder partial(hidden);
  write_files(hidden);
  Json manifest = {{"made_by", "snug"}, {"format", kFormat}, {"step", step}, {"files", files_in(hidden)}};
  write_file_atomically(hidden / kCheckpointManifest, manifest.dump(2) + "\n");
  rename_into_place(hidden, target);
  return target;
}

std::vector<CheckpointFolder> find_checkpoints(const fs::path& run_folder) {
  std::vector<CheckpointFolder> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_folder, ignored)) {
    std::optional<int64_t> step = step_in(entry.path().filename().string());
    if (step && !read_manifest(entry.path()).is_null()) {
      found.push_back({entry.path(), *step});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

std::vector<std::string> foreign_checkpoints(const fs::path& run_folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (step_in(name) && read_manifest(entry.path()).is_null()) {
      names.push_back(name);
    }
  }
  return names;
}

std::string checkpoint_problem(const fs::path& folder) {
  Json manifest = read_manifest(folder);
  if (manifest.is_null()) {
    return fmt::format("{} is missing or damaged", kCheckpointManifest);
  }
  if (manifest.value("format", int64_t{0}) != kFormat) {
    return "it was written by a newer snug";
  }
  for (const Json& file : manifest["files"]) {
    std::string name = name_in(file);
    std::error_code status;
    uintmax_t bytes = fs::file_size(folder / name, status);
    if (name.empty() || status) {
      return fmt::format("{} is missing", printable(name));
    }
    if (Json(static_cast<int64_t>(bytes)) != file.value("bytes", Json())) {
      return fmt::format("{} has {} bytes, not {}", printable(name), bytes,
                         file.value("bytes", Json()).dump());
    }
    if (Json(hash_of(folder / name)) != file.value(kHash, Json())) {
      return fmt::format("{} is damaged: its checksum is another", printable(name));
    }
  }
  return "";
}

int64_t checkpoint_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    uintmax_t size = entry.file_size(ignored);
    bytes += ignored ? 0 : static_cast<int64_t>(size);
  }
  return bytes;
}

void remove_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  Json manifest = read_manifest(folder);
  // First, so that a checkpoint that is half removed is none.
  fs::remove(folder / kCheckpointManifest, ignored);
  if (manifest.is_null()) {
    return;
  }
  for (const Json& file : manifest["files"]) {
    if (std::string name = name_in(file); !name.empty()) {
      fs::remove(folder / name, ignored);
    }
  }
  fs::remove(folder, ignored);
}

}  // namespace snug
