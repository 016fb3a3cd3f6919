// The folder that a run writes to: one run in it at a time, and a manifest (manifest.json) of what it holds,
// so that nothing is mixed and nothing is removed that snug did not write.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/disk_space.h"
#include "io/folder_lock.h"
#include "io/json.h"

namespace snug {

// What became of the run that a folder holds. One that is running but has no lock was killed.
enum class RunState { running, stopped, complete };

// What a folder says that it holds.
struct RunManifest {
  std::string state;
  std::vector<std::string> files;   // the manifest first
  std::vector<std::string> stages;  // folders
};

class RunFolder {
 public:
  struct Options {
    std::filesystem::path folder;
    std::filesystem::path model_folder;    // of the model that is trained
    bool overwrite = false;                // what an earlier run wrote is removed when this one begins
    bool resume = false;                   // what an earlier run wrote is gone on with
    std::vector<std::string> stages = {};  // folders in it that have manifests of their own
  };
  // Creates the folder if need be and locks it; changes nothing else but the remains of saves that were
  // killed. Throws bad_input, with the ways out, if another process has it, if it is the model's own, or if
  // it holds a run (unless it may be overwritten) or files of a model or a run that no manifest lists.
  explicit RunFolder(const Options& options);

  const std::filesystem::path& path() const { return folder_; }
  // Whether the run that it holds came to its end.
  bool is_complete() const;
  // Removes what an earlier run wrote; the folders of stages that are its own are left to them.
  void clear();

  // What else its manifest says of the run that begins (train/run_record.h).
  void set_origin(Json origin) { origin_ = std::move(origin); }
  void set_total_steps(int64_t steps) { total_steps_ = steps; }
  // The run begins: the earlier one's files go, unless it is gone on with; all that this one will write are
  // listed, and their disk space is taken. There must also be room for so many checkpoints; that of one is
  // taken too, for the run that is stopped.
  void begin(const std::vector<PlannedFile>& files, const std::vector<PlannedFile>& checkpoint,
             int64_t checkpoints);
  // The path of one of them.
  std::filesystem::path file(const std::string& name) const;
  // What was taken is free now for the last files of the run.
  void release_space() { reservation_.reset(); }
  void finish(RunState state);

 private:
  void write_manifest() const;
  bool holds_something() const;
  void refuse_strangers() const;
  void refuse_earlier_run() const;

  std::filesystem::path folder_;
  bool resume_ = false;
  std::unique_ptr<FolderLock> lock_;
  std::vector<std::string> stages_;
  RunManifest earlier_;
  std::string started_;
  Json origin_;
  std::optional<int64_t> total_steps_;  // of a run with stages each has its own
  RunState state_ = RunState::running;
  std::vector<std::string> files_;
  std::optional<DiskReservation> reservation_;
};

}  // namespace snug
