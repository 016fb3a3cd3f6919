// What the page of `snug watch` asks for: the runs of some folders, their rows as they come, their plans.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "report/runs_report.h"

namespace snug {

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
  void refresh();
  std::optional<std::filesystem::path> folder_of(const std::string& id);

  std::vector<std::filesystem::path> folders_;
  std::mutex mutex_;
  RunReader reader_;
  RunList list_;
  std::optional<std::chrono::steady_clock::time_point> refreshed_;
};

}  // namespace snug
