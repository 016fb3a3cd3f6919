// Claiming a folder, and its manifest.
#include "train/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/check.h"
#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/printable.h"
#include "text/tokenizer/tokenizer.h"
#include "train/checkpoint_folder.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";

std::string_view name_of(RunState state) {
  switch (state) {
    case RunState::running:
      return "running";
    case RunState::stopped:
      return "stopped";
    case RunState::complete:
      return "complete";
  }
  return "";
}

// Whether a file would be read with, or overwritten by, what a run writes.
bool is_like_a_result(const std::string& name) {
  static const std::set<std::string> names = [] {
    std::vector<std::string> text_files = text_file_names();
    std::set<std::string> all(text_files.begin(), text_files.end());
    all.insert({kManifest, kRecipeFile, kPlanFile, kMetricsFile, kSummaryFile, "adapter_config.json"});
    return all;
  }();
  std::string ending = fs::path(name).extension().string();
  bool holds_weights = ending == ".safetensors" || ending == ".bin" || ending == ".pt" || ending == ".gguf";
  return names.contains(name) || holds_weights || name.ends_with(".safetensors.index.json");
}

std::string listed(const std::vector<std::string>& names) {
  size_t shown = std::min<size_t>(names.size(), 3);
  std::vector<std::string> words;
  for (size_t i = 0; i < shown; ++i) {
    words.push_back(printable(names[i]));
  }
  std::string more = names.size() > shown ? fmt::format(" and {} more", names.size() - shown) : "";
  return fmt::format("{}{}", fmt::join(words, ", "), more);
}

std::string now_text() {
  auto now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
}

}  // namespace

RunFolder::RunFolder(const Options& options)
    : folder_(options.folder), resume_(options.resume), started_(now_text()) {
  std::error_code ignored;
  if (fs::equivalent(folder_, options.model_folder, ignored)) {
    throw bad_input(
        fmt::format("output_dir {}: is the folder of the model that is trained, whose files would be "
                    "overwritten; write to another folder (--set output_dir=...)",
                    folder_.string()));
  }
  require_writable_folder(folder_);
  lock_ = std::make_unique<FolderLock>(folder_);
  if (lock_->is_held_elsewhere()) {
    throw bad_input(
        fmt::format("output_dir {}: another process is training into this folder; wait for it, or write to "
                    "another folder (--set output_dir=...)",
                    folder_.string()));
  }
  remove_partial_files(folder_);
  read_manifest();
  refuse_strangers();
  if (!options.overwrite && !options.resume && holds_something()) {
    refuse_earlier_run();
  }
}

void RunFolder::read_manifest() {
  fs::path path = folder_ / kManifest;
  if (!fs::exists(path)) {
    return;
  }
  Json manifest = read_json(path);
  if (!manifest.is_object() || json_string(manifest, "made_by", "", path.string()) != "snug") {
    return;  // a stranger's
  }
  earlier_ = {kManifest};
  earlier_state_ = json_string(manifest, "state", "", path.string());
  for (const Json& name : manifest.value("files", Json::array())) {
    if (name.is_string() && is_plain_name(name.get<std::string>())) {
      earlier_.push_back(name.get<std::string>());
    }
  }
}

// A run that saved nothing has left nothing to mix with.
bool RunFolder::holds_something() const {
  bool has_files = std::any_of(earlier_.begin(), earlier_.end(), [&](const std::string& name) {
    bool comes_first = name == kManifest || name == kRecipeFile || name == kPlanFile || name == kMetricsFile;
    std::error_code status;
    uintmax_t bytes = fs::file_size(folder_ / name, status);
    return !comes_first && !status && bytes > 0;
  });
  return has_files || !find_checkpoints(folder_).empty();
}

void RunFolder::refuse_strangers() const {
  std::vector<std::string> strangers = foreign_checkpoints(folder_);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if (is_like_a_result(name) && std::find(earlier_.begin(), earlier_.end(), name) == earlier_.end()) {
      strangers.push_back(name);
    }
  }
  if (!strangers.empty()) {
    std::sort(strangers.begin(), strangers.end());
    throw bad_input(
        fmt::format("output_dir {}: holds {}, of which no manifest says that a run wrote it there; what is "
                    "trained would be mixed with it. Write to another folder (--set output_dir=...), or move "
                    "it away",
                    folder_.string(), listed(strangers)));
  }
}

void RunFolder::refuse_earlier_run() const {
  std::string how = earlier_state_ == name_of(RunState::running) ? "one that did not end" : earlier_state_;
  std::vector<std::string> files(earlier_.begin() + 1, earlier_.end());
  std::string_view go_on = find_checkpoints(folder_).empty() ? "" : "Go on with it (--resume), write";
  throw bad_input(fmt::format(
      "output_dir {}: holds a run already ({}: {}). {} to another folder (--set output_dir=...), or give "
      "--overwrite, which removes these files when the new run begins",
      folder_.string(), how, listed(files), go_on.empty() ? "Write" : go_on));
}

void RunFolder::begin(const std::vector<PlannedFile>& files, const std::vector<PlannedFile>& checkpoint,
                      int64_t checkpoints) {
  int64_t freed_bytes = 0;
  std::error_code ignored;
  for (const std::string& name : earlier_) {
    uintmax_t bytes = fs::file_size(folder_ / name, ignored);
    freed_bytes += ignored ? 0 : static_cast<int64_t>(bytes);
  }
  std::vector<CheckpointFolder> earlier_checkpoints = find_checkpoints(folder_);
  for (const CheckpointFolder& old : earlier_checkpoints) {
    freed_bytes += checkpoint_bytes(old.path);  // or they are among those that are kept
  }
  std::vector<PlannedFile> wanted = files;
  for (int64_t i = 0; i < checkpoints; ++i) {
    wanted.insert(wanted.end(), checkpoint.begin(), checkpoint.end());
  }
  require_disk_space(folder_, wanted, freed_bytes);
  if (!resume_) {
    for (const CheckpointFolder& old : earlier_checkpoints) {
      remove_checkpoint(old.path);
    }
    for (size_t i = earlier_.size(); i-- > 0;) {  // the manifest last
      fs::remove(folder_ / earlier_[i], ignored);
    }
  }
  earlier_.clear();
  for (const PlannedFile& file : files) {
    files_.push_back(file.name);
  }
  write_manifest();  // before the files, so that whatever ends the run, no file of it is a stranger
  std::vector<PlannedFile> taken = files;
  taken.insert(taken.end(), checkpoint.begin(), checkpoint.end());
  reservation_.emplace(folder_, taken);
}

fs::path RunFolder::file(const std::string& name) const {
  SNUG_CHECK(std::find(files_.begin(), files_.end(), name) != files_.end(), name + " is not in the manifest");
  return folder_ / name;
}

void RunFolder::finish(RunState state) {
  state_ = state;
  write_manifest();
}

void RunFolder::write_manifest() const {
  Json manifest = {{"made_by", "snug"}, {"started", started_}, {"state", name_of(state_)}, {"files", files_}};
  write_file_atomically(folder_ / kManifest, manifest.dump(2) + "\n");
}

}  // namespace snug
