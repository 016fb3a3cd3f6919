// What the page of `snug watch` asks for: the runs of some folders, their rows as they come, their plans.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "report/runs_report.h"

namespace snug {

// New rows of a file that grows, and that a run which goes on may begin anew. `mark` stands for the bytes
// before `offset`: where these are others now, reading begins at 0 again.
struct RowNews {
  int64_t from = 0;
  int64_t offset = 0;
  std::string mark;
  Json rows = Json::array();
  bool more = false;  // there is more than one answer should hold
};
RowNews read_rows(const std::filesystem::path& file, int64_t offset, std::string_view mark,
                  int64_t most_bytes = int64_t{4} << 20);

// May be asked by several threads.
class RunFeed {
 public:
  explicit RunFeed(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // All runs with what `snug runs` tells of them, each under an id.
  Json runs();
  // Of the run with this id; nothing if there is none.
  std::optional<Json> rows(const std::string& id, int64_t offset, const std::string& mark);
  std::optional<Json> plan(const std::string& id);
  // All of it, for a page without a server.
  Json everything();

 private:
  // What was read of a folder, and what its files were then.
  struct Known {
    std::string signature;
    std::vector<RunRecord> records;
  };
  std::vector<RunRecord> read_known(const std::filesystem::path& folder);
  void refresh();
  std::optional<std::filesystem::path> folder_of(const std::string& id);

  std::vector<std::filesystem::path> folders_;
  std::mutex mutex_;
  std::map<std::filesystem::path, Known> known_;
  RunList list_;
  std::optional<std::chrono::steady_clock::time_point> refreshed_;
};

}  // namespace snug
