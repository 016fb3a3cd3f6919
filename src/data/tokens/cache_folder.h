// Folders of token caches: where they are, what lies in them, and what goes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace snug {

// Where the tokens of a data file are kept unless the recipe says otherwise: beside the data, or in the
// user's own cache if nothing can be written there.
std::filesystem::path cache_folder_of(const std::filesystem::path& data_file);
std::filesystem::path user_cache_folder();  // "" if there is no home

struct CachedTokens {
  std::filesystem::path path;
  int64_t bytes = 0;
  double unused_days = 0;  // since it was last used
  bool readable = false;   // the rest is known
  bool usable = false;     // made in the way in which this program makes tokens
  std::string files = {};  // "train.jsonl"
  int64_t rows = 0;
  int64_t tokens = 0;
};

// The last used first; empty if there is no such folder.
std::vector<CachedTokens> list_caches(const std::filesystem::path& folder);

void mark_used(const std::filesystem::path& cache);

// Nobody looks after caches, so they go by themselves: what was not used for so long, and the longest unused
// until the folder holds no more than that.
struct CacheLimits {
  double unused_days = 30;
  int64_t folder_bytes = 50'000'000'000;
};

// `kept` stays. Whoever still reads one keeps it until they are done.
void remove_old_caches(const std::filesystem::path& folder, const std::filesystem::path& kept,
                       const CacheLimits& limits = {});

// All caches of a folder that were not used for so many days, with what belongs to them. Returns their bytes.
int64_t clear_caches(const std::filesystem::path& folder, double unused_days = 0);

}  // namespace snug
