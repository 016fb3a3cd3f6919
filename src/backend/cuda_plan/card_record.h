// What is remembered of cards that were measured: a small file each, in the user's cache.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ops/table.h"

namespace snug::cuda {

// All that the figures depend on: another driver or other kernels measure anew.
struct CardKey {
  std::string uuid;  // 32 hexadecimal digits
  std::string name;
  int capability = 0;
  int64_t multiprocessors = 0;
  int64_t memory_bytes_hz = 0;
  std::string driver;
  std::string kernels;  // backend/cuda/kernels_version.h
};

// What the kernels of the probes reached, as it was measured.
struct ReachedRates {
  double product_flops = 0;
  double bytes_per_second = 0;
  std::array<double, kPaceCount> paces = {1, 1, 1, 1};  // DeviceRates::paces

  bool operator==(const ReachedRates&) const = default;
};

// Nothing if there is none, or if it is of another key or cannot be read.
std::optional<ReachedRates> find_card_record(const std::filesystem::path& folder, const CardKey& key);
// Throws Error if that is not possible.
void write_card_record(const std::filesystem::path& folder, const CardKey& key, const ReachedRates& reached);

struct CardRecord {
  std::filesystem::path path;
  std::string name;  // of the card; "": it cannot be read
  int64_t bytes = 0;
  double unused_days = 0;
};

// All of a folder. Only files that are named as records are looked at, and removed.
std::vector<CardRecord> list_card_records(const std::filesystem::path& folder);
// Those that were not used for so many days. Returns their bytes.
int64_t clear_card_records(const std::filesystem::path& folder, double unused_days);

}  // namespace snug::cuda
