// A model folder of any shape with random weights, streamed to disk: for trying a machine at the real size
// before anything is downloaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/dtype.h"
#include "io/json.h"

namespace snug {

struct SynthOptions {
  Json config;         // as config.json
  std::string source;  // where the config came from, for messages
  uint64_t seed = 0;
  DType dtype = DType::bf16;
};

// Writes config.json, the weights (sharded above 5 GB) and a byte-level tokenizer that any recipe can use.
// Holds a few megabytes whatever the size. `on_progress` is called with the bytes written so far and in all.
void write_synthetic_model(
    const SynthOptions& options, const std::filesystem::path& folder,
    const std::function<void(int64_t written_bytes, int64_t total_bytes)>& on_progress);

}  // namespace snug
