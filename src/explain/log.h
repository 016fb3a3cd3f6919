// What other programs print when memory runs out, as facts. The text is anybody's: a whole log, a traceback
// out of a forum with its lines broken anywhere, a screen of nvidia-smi.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// "CUDA out of memory. Tried to allocate ..." in the forms that PyTorch gave it over the years, or
// llama.cpp's.
struct FailedAllocation {
  int64_t line = 0;
  std::optional<int64_t> wanted_bytes = {};
  std::optional<int64_t> total_bytes = {};      // of the card
  std::optional<int64_t> free_bytes = {};       // on the card
  std::optional<int64_t> in_use_bytes = {};     // by this process, with the driver's context
  std::optional<int64_t> allocated_bytes = {};  // in tensors
  std::optional<int64_t> unused_bytes = {};     // kept by the allocator for later

  // By everybody: what the text says of this process, else what is not free.
  std::optional<int64_t> taken_bytes() const;
};

// PEFT's "trainable params: ... || all params: ... || trainable%: ...".
struct TrainableCount {
  int64_t line = 0;
  int64_t trainable = 0;
  std::optional<int64_t> all = {};
  std::optional<double> percent = {};
  double percent_error = 0;  // half of its last digit
};

// Rows of nvidia-smi.
struct CardUse {
  int64_t line = 0;
  int64_t used_bytes = 0;
  int64_t total_bytes = 0;
};
struct CardProcess {
  int64_t line = 0;
  int64_t pid = 0;
  std::string name;
  int64_t bytes = 0;
};

// A sentence that is known to mean something else than it seems to.
struct Symptom {
  int64_t line = 0;
  std::string_view said;
  std::string_view means;
  std::string_view remedy;
};

struct LogFacts {
  std::vector<FailedAllocation> failures;
  std::vector<TrainableCount> counts;
  std::vector<CardUse> cards;
  std::vector<CardProcess> processes;
  std::vector<Symptom> symptoms;    // each once, where it first stands
  std::vector<std::string> models;  // of the catalogue, that the text names; in its order
  std::vector<std::string> sizes;   // "7B": what people call their model by
  bool trained = false;             // the text got beyond the loading of weights

  bool empty() const {
    return failures.empty() && counts.empty() && cards.empty() && processes.empty() && symptoms.empty();
  }
};

LogFacts read_log(std::string_view text);

// What read_log understands, for those whose log explains nothing.
std::vector<std::string_view> known_log_texts();

}  // namespace snug
