// A JSON file a card, named by its UUID.
#include "backend/cuda_plan/card_record.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"

namespace snug::cuda {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 32;
constexpr std::string_view kEnding = ".card";
constexpr int64_t kMostBytes = 65536;

constexpr std::array<const char*, kPaceCount> kPaceNames = {"usual", "attention", "attention_backward",
                                                            "adapter"};

Json key_json(const CardKey& key) {
  return {{"name", key.name},
          {"uuid", key.uuid},
          {"capability", key.capability},
          {"multiprocessors", key.multiprocessors},
          {"memory_bytes_hz", key.memory_bytes_hz},
          {"driver", key.driver},
          {"kernels", key.kernels}};
}

fs::path path_of(const fs::path& folder, const CardKey& key) {
  return folder / (key.uuid + std::string(kEnding));
}

bool is_record(const fs::path& path) {
  std::string name = path.filename().string();
  return name.size() == kHexDigits + kEnding.size() && name.ends_with(kEnding) &&
         name.find_first_not_of("0123456789abcdef") == kHexDigits;
}

// Nothing for a file that snug did not write.
std::optional<Json> read_record(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) {
    return std::nullopt;
  }
  try {
    std::optional<Json> record = find_object(read_text_file(path, kMostBytes));
    bool is_whole = record && record->contains("card") && (*record)["card"].is_object() &&
                    record->contains("reached") && (*record)["reached"].is_object();
    return is_whole ? record : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

double number_in(const Json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

std::optional<ReachedRates> find_card_record(const fs::path& folder, const CardKey& key) {
  fs::path path = path_of(folder, key);
  std::optional<Json> record = read_record(path);
  if (!record || (*record)["card"] != key_json(key)) {
    return std::nullopt;
  }
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);  // it is in use
  const Json& found = (*record)["reached"];
  ReachedRates reached{.product_flops = number_in(found, "product_flops"),
                       .bytes_per_second = number_in(found, "bytes_per_second")};
  for (size_t i = 1; i < kPaceCount; ++i) {
    reached.paces[i] = number_in(found, kPaceNames[i]);
  }
  return reached;
}

void write_card_record(const fs::path& folder, const CardKey& key, const ReachedRates& reached) {
  Json figures = {{"product_flops", reached.product_flops}, {"bytes_per_second", reached.bytes_per_second}};
  for (size_t i = 1; i < kPaceCount; ++i) {
    figures[kPaceNames[i]] = reached.paces[i];
  }
  Json record = {{"card", key_json(key)}, {"reached", figures}};
  write_file_atomically(path_of(folder, key),
                        record.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<CardRecord> list_card_records(const fs::path& folder) {
  std::vector<CardRecord> records;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (!is_record(entry.path()) || !entry.is_regular_file(ignored)) {
      continue;
    }
    std::optional<Json> record = read_record(entry.path());
    auto unused = fs::file_time_type::clock::now() - fs::last_write_time(entry.path(), ignored);
    double days = std::chrono::duration<double, std::ratio<86400>>(unused).count();
    bool is_named = record && (*record)["card"].contains("name") && (*record)["card"]["name"].is_string();
    records.push_back({.path = entry.path(),
                       .name = is_named ? (*record)["card"]["name"].get<std::string>() : "",
                       .bytes = static_cast<int64_t>(fs::file_size(entry.path(), ignored)),
                       .unused_days = std::max(days, 0.0)});
  }
  std::sort(records.begin(), records.end(),
            [](const CardRecord& a, const CardRecord& b) { return a.path < b.path; });
  return records;
}

int64_t clear_card_records(const fs::path& folder, double unused_days) {
  int64_t bytes = 0;
  std::error_code failed;
  for (const CardRecord& record : list_card_records(folder)) {
    if (record.unused_days >= unused_days && fs::remove(record.path, failed)) {
      bytes += record.bytes;
    }
  }
  return bytes;
}

}  // namespace snug::cuda
