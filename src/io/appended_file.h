// A file that grows by whole records, readable while it does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace snug {

class AppendedFile {
 public:
  // Starts the file anew, with this at its beginning.
  explicit AppendedFile(const std::filesystem::path& path, std::string_view beginning = "");
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  // False if the record does not reach the file: it is left out as a whole, and the next one may succeed.
  bool append(std::string_view record);
  std::string text() const;                                // all of it so far
  const std::string& problem() const { return problem_; }  // of the last record that was left out
  int64_t records_lost() const { return records_lost_; }

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
  int64_t bytes_ = 0;  // of whole records
  std::string problem_;
  int64_t records_lost_ = 0;
};

}  // namespace snug
