// Files that are either whole or not there: temporary file beside the target, fsync, rename, fsync of the
// folder. If it is destroyed before commit(), the temporary file is removed and nothing has changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace snug {

class AtomicFile {
 public:
  // Creates missing parent folders. Throws environment_error naming the path and the cause.
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Takes the disk space of the whole file now, so that a full disk is known before the work and not at
  // its end. Optional.
  void reserve(int64_t total_bytes);
  void write(std::span<const std::byte> bytes);  // a full disk says how many bytes were wanted
  void write(std::string_view text);
  // Writes at a place of its own; the position of write() stays where it is.
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  int64_t position_ = 0;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view text);

// The whole file as text; throws Error naming the file and the cause. `max_bytes` guards against reading
// a weight file as a config.
std::string read_text_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{256} << 20);

// Throws now, and not hours later, if files cannot be created in `folder` (which is created if missing).
void require_writable_folder(const std::filesystem::path& folder);

// The name under which something is made before it is put in place: hidden, beside the target, this process's
// own.
std::filesystem::path partial_name(const std::filesystem::path& target);

// Gives a finished file or folder its name, and brings the name to the disk; for a folder its own entries
// too. A folder that has the name already gets the other one's.
void rename_into_place(const std::filesystem::path& made, const std::filesystem::path& target);

// Removes what killed processes had begun to write in a folder that no other process is writing to.
void remove_partial_files(const std::filesystem::path& folder);

// What a failed write means and what helps. `wanted_bytes`: how many bytes more were to be written, or 0
// where that is not the question.
Error write_error(int cause, const std::filesystem::path& path, std::string_view action,
                  int64_t wanted_bytes = 0);

// Writes all of `bytes` at `offset`, through interruptions and short writes. Returns 0, or the errno for
// which it gave up; `bytes` are then those that are left.
int try_write_fully(int descriptor, int64_t offset, std::span<const std::byte>& bytes);

// The same, or throws; `path` names the file in the error. For AtomicFile and its tests.
void write_fully(int descriptor, int64_t offset, std::span<const std::byte> bytes,
                 const std::filesystem::path& path);

}  // namespace snug
