// Folders checkpoint-N in a run's folder: each is whole or not there. Files go to a hidden folder first; when
// they and their checksums (checkpoint.json) are on the disk, it gets its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace snug {

inline constexpr const char* kCheckpointManifest = "checkpoint.json";

// What it is called in messages and on the disk.
std::string checkpoint_name(int64_t step);

// `write_files` puts the files into the folder that it is given. One of the same step is replaced. Throws
// what writing throws; nothing is left behind then, and every other checkpoint is as it was.
std::filesystem::path write_checkpoint_folder(
    const std::filesystem::path& run_folder, int64_t step,
    const std::function<void(const std::filesystem::path& folder)>& write_files);

struct CheckpointFolder {
  std::filesystem::path path;
  int64_t step = 0;
};

// Those that snug wrote, newest first. Whether their files are as they were is not looked at.
std::vector<CheckpointFolder> find_checkpoints(const std::filesystem::path& run_folder);

// Folders that are called like checkpoints and that no snug wrote.
std::vector<std::string> foreign_checkpoints(const std::filesystem::path& run_folder);

// Why a checkpoint cannot be used: a file is missing, or its size or checksum is another; "" if it is whole.
// Reads all of it.
std::string checkpoint_problem(const std::filesystem::path& folder);

int64_t checkpoint_bytes(const std::filesystem::path& folder);

// Takes away what its manifest lists, and the folder if that was all. Does not throw: a checkpoint too many
// is no reason to end a run.
void remove_checkpoint(const std::filesystem::path& folder);

}  // namespace snug
