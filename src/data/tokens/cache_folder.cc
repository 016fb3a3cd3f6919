// Listing and removing. What cannot be removed stays: a cache that is left over does no harm.
#include "data/tokens/cache_folder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>

#include "base/error.h"
#include "data/tokens/cache.h"
#include "data/tokens/encoding_version.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 32;

bool is_writable(const fs::path& folder) {
  std::error_code ignored;
  fs::path existing = fs::absolute(folder, ignored);
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  return ::access(existing.c_str(), W_OK | X_OK) == 0;
}

double days_since(const fs::file_time_type& time) {
  return std::chrono::duration<double, std::ratio<86400>>(fs::file_time_type::clock::now() - time).count();
}

CachedTokens look_at(const fs::path& path) {
  std::error_code ignored;
  CachedTokens cache{.path = path, .bytes = static_cast<int64_t>(fs::file_size(path, ignored))};
  cache.unused_days = std::max(days_since(fs::last_write_time(path, ignored)), 0.0);
  try {
    if (std::optional<TokenTable> table = open_token_cache(path)) {
      cache.readable = true;
      cache.usable = table->facts().encoding == kEncodingVersion;
      cache.files = table->facts().files;
      cache.rows = table->rows();
      cache.tokens = table->words();
    }
  } catch (const Error&) {  // not ours to read, or just being removed
    cache.readable = false;
  }
  return cache;
}

// Named by a hash and that ending: nobody else's files are touched.
bool is_named(const fs::path& path, std::string_view ending) {
  std::string name = path.filename().string();
  return name.size() == kHexDigits + ending.size() && name.ends_with(ending) &&
         name.find_first_not_of("0123456789abcdef") == kHexDigits;
}

std::vector<fs::path> files_of(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (is_named(entry.path(), ending) && entry.is_regular_file(ignored)) {
      found.push_back(entry.path());
    }
  }
  return found;
}

// What is noted about data files (fingerprint.h) is made again when it is missing.
void remove_old_notes(const fs::path& folder, double unused_days) {
  std::error_code ignored;
  for (const fs::path& note : files_of(folder, ".seen")) {
    if (days_since(fs::last_write_time(note, ignored)) >= unused_days) {
      fs::remove(note, ignored);
    }
  }
}

}  // namespace

fs::path user_cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') {
    return fs::path(cache) / "snug";
  }
  const char* home = std::getenv("HOME");
  return home == nullptr ? fs::path() : fs::path(home) / ".cache" / "snug";
}

fs::path cache_folder_of(const fs::path& data_file) {
  fs::path beside = data_file.parent_path() / ".snug";
  fs::path own = user_cache_folder();
  return is_writable(beside) || own.empty() ? beside : own;
}

std::vector<CachedTokens> list_caches(const fs::path& folder) {
  std::vector<CachedTokens> caches;
  for (const fs::path& path : files_of(folder, ".tokens")) {
    caches.push_back(look_at(path));
  }
  std::sort(caches.begin(), caches.end(), [](const CachedTokens& a, const CachedTokens& b) {
    return a.unused_days != b.unused_days ? a.unused_days < b.unused_days : a.path < b.path;
  });
  return caches;
}

void mark_used(const fs::path& cache) {
  std::error_code ignored;  // on a disk that cannot be written nothing is removed either
  fs::last_write_time(cache, fs::file_time_type::clock::now(), ignored);
}

void remove_old_caches(const fs::path& folder, const fs::path& kept, const CacheLimits& limits) {
  struct Entry {
    fs::path path;
    int64_t bytes = 0;
    double unused_days = 0;
  };
  std::error_code ignored;
  std::vector<Entry> entries;
  for (const fs::path& path : files_of(folder, ".tokens")) {
    entries.push_back({path, static_cast<int64_t>(fs::file_size(path, ignored)),
                       days_since(fs::last_write_time(path, ignored))});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.unused_days < b.unused_days; });
  int64_t bytes = 0;
  for (const Entry& entry : entries) {
    bytes += entry.bytes;
    if (entry.path != kept && (entry.unused_days > limits.unused_days || bytes > limits.folder_bytes)) {
      fs::remove(entry.path, ignored);
      bytes -= entry.bytes;
    }
  }
  remove_old_notes(folder, limits.unused_days);
}

int64_t clear_caches(const fs::path& folder, double unused_days) {
  int64_t bytes = 0;
  std::error_code failed;
  for (const CachedTokens& cache : list_caches(folder)) {
    if (cache.unused_days >= unused_days && fs::remove(cache.path, failed)) {
      bytes += cache.bytes;
    }
  }
  remove_old_notes(folder, unused_days);
  return bytes;
}

}  // namespace snug
