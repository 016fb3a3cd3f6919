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
#include "train/curve_svg.h"
#include "train/model_card.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

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
    all.insert({kManifest, kRecipeFile, kPlanFile, kMetricsFile, kSummaryFile, "adapter_config.json",
                kModelCardFile, kCurveFile});
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

RunManifest read_manifest(const fs::path& folder) {
  RunManifest found;
  fs::path path = folder / kManifest;
  if (!fs::exists(path)) {
    return found;
  }
  Json manifest = read_json(path);
  if (!manifest.is_object() || json_string(manifest, "made_by", "", path.string()) != "snug") {
    return found;  // a stranger's
  }
  found.state = json_string(manifest, "state", "", path.string());
  found.files = {kManifest};
  for (const Json& name : manifest.value("files", Json::array())) {
    if (name.is_string() && is_inner_name(name.get<std::string>())) {
      found.files.push_back(name.get<std::string>());
    }
  }
  for (const Json& name : manifest.value("stages", Json::array())) {
    if (name.is_string() && is_plain_name(name.get<std::string>())) {
      found.stages.push_back(name.get<std::string>());
    }
  }
  return found;
}

// A run that saved nothing has left nothing to mix with.
bool holds_something(const fs::path& folder, const RunManifest& manifest) {
  bool has_files = std::any_of(manifest.files.begin(), manifest.files.end(), [&](const std::string& name) {
    bool comes_first = name == kManifest || name == kRecipeFile || name == kPlanFile ||
                       name == kMetricsFile || name == kLogFile || is_event_file_name(name);
    std::error_code status;
    uintmax_t bytes = fs::file_size(folder / name, status);
    return !comes_first && !status && bytes > 0;
  });
  bool has_stages = std::any_of(manifest.stages.begin(), manifest.stages.end(), [&](const std::string& name) {
    return holds_something(folder / name, read_manifest(folder / name));
  });
  return has_files || has_stages || !find_checkpoints(folder).empty();
}

int64_t bytes_in(const fs::path& folder, const RunManifest& manifest) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const std::string& name : manifest.files) {
    uintmax_t size = fs::file_size(folder / name, ignored);
    bytes += ignored ? 0 : static_cast<int64_t>(size);
  }
  for (const CheckpointFolder& old : find_checkpoints(folder)) {
    bytes += checkpoint_bytes(old.path);
  }
  return bytes;
}

// What manifests list, and nothing else.
void remove_run(const fs::path& folder, const RunManifest& manifest, const std::vector<std::string>& kept) {
  std::error_code ignored;
  for (const std::string& stage : manifest.stages) {
    if (std::find(kept.begin(), kept.end(), stage) == kept.end()) {
      remove_run(folder / stage, read_manifest(folder / stage), {});
      fs::remove(folder / stage, ignored);
    }
  }
  for (const CheckpointFolder& old : find_checkpoints(folder)) {
    remove_checkpoint(old.path);
  }
  for (size_t i = manifest.files.size(); i-- > 0;) {  // what is in a folder before it, the manifest last
    fs::remove(folder / manifest.files[i], ignored);
  }
}

// One that is read with the next would show steps twice.
void remove_event_files(const fs::path& folder, const RunManifest& manifest) {
  std::error_code ignored;
  for (const std::string& name : manifest.files) {
    if (is_event_file_name(name)) {
      fs::remove(folder / name, ignored);
    }
  }
}

}  // namespace

RunFolder::RunFolder(const Options& options)
    : folder_(options.folder), resume_(options.resume), stages_(options.stages), started_(now_text()) {
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
  earlier_ = read_manifest(folder_);
  refuse_strangers();
  if (!options.overwrite && !options.resume && holds_something()) {
    refuse_earlier_run();
  }
}

bool RunFolder::is_complete() const {
  return earlier_.state == name_of(RunState::complete);
}

bool RunFolder::holds_something() const {
  return ::snug::holds_something(folder_, earlier_);
}

void RunFolder::refuse_strangers() const {
  std::vector<std::string> strangers = foreign_checkpoints(folder_);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    std::string name = entry.path().filename().string();
    if (is_like_a_result(name) &&
        std::find(earlier_.files.begin(), earlier_.files.end(), name) == earlier_.files.end()) {
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
  std::string how = earlier_.state == name_of(RunState::running) ? "one that did not end" : earlier_.state;
  std::vector<std::string> files = earlier_.stages;
  files.insert(files.end(), earlier_.files.begin() + (earlier_.files.empty() ? 0 : 1), earlier_.files.end());
  bool can_go_on = !find_checkpoints(folder_).empty() || !earlier_.stages.empty();
  std::string_view go_on = can_go_on ? "Go on with it (--resume), write" : "";
  throw bad_input(fmt::format(
      "output_dir {}: holds a run already ({}: {}). {} to another folder (--set output_dir=...), or give "
      "--overwrite, which removes these files when the new run begins",
      folder_.string(), how, listed(files), go_on.empty() ? "Write" : go_on));
}

void RunFolder::begin(const std::vector<PlannedFile>& files, const std::vector<PlannedFile>& checkpoint,
                      int64_t checkpoints) {
  std::vector<PlannedFile> wanted = files;
  for (int64_t i = 0; i < checkpoints; ++i) {
    wanted.insert(wanted.end(), checkpoint.begin(), checkpoint.end());
  }
  // What is there goes, or is among what is wanted.
  require_disk_space(folder_, wanted, bytes_in(folder_, earlier_));
  if (!resume_) {
    clear();
  }
  for (const PlannedFile& file : files) {
    files_.push_back(file.name);
  }
  remove_event_files(folder_, earlier_);  // a run that goes on writes a new one, of all rows
  earlier_ = {};
  write_manifest();  // before the files, so that whatever ends the run, no file of it is a stranger
  std::vector<PlannedFile> taken = files;
  taken.insert(taken.end(), checkpoint.begin(), checkpoint.end());
  reservation_.emplace(folder_, taken);
}

void RunFolder::clear() {
  remove_run(folder_, earlier_, stages_);
  earlier_ = {};
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
  if (!origin_.is_null()) {
    manifest["origin"] = origin_;
  }
  if (total_steps_) {
    manifest["total_steps"] = *total_steps_;
  }
  if (!stages_.empty()) {
    manifest["stages"] = stages_;
  }
  write_file_atomically(folder_ / kManifest, manifest.dump(2) + "\n");
}

}  // namespace snug
