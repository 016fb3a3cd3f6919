// Trainable parameters are linear in the rank, so one count of each model and set of layers finds every rank.
#include "explain/counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compile/adapters.h"
#include "model/catalogue.h"
#include "model/model_spec.h"

namespace snug {
namespace {

constexpr int64_t kLargestRank = 1024;

// What people adapt, the usual first. Names that a model does not have are no choice for it.
const std::vector<std::vector<std::string>>& usual_targets() {
  static const std::vector<std::vector<std::string>> kTargets = {
      {"all-linear"},
      {"q_proj", "v_proj"},
      {"q_proj", "k_proj", "v_proj", "o_proj"},
      {"q_proj", "k_proj", "v_proj"},
      {"gate_proj", "up_proj", "down_proj"},
      {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"},
      {"q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"},
      {"q", "v"},
      {"q", "k", "v", "o"},
      {"qkv_proj", "o_proj"},
  };
  return kTargets;
}

Program forward_of(const std::string& model) {
  ModelSpec spec = parse_model_config(catalogue_config(model).value().dump(), model);
  return build_forward(spec,
                       {.program_name = "count", .dtype = DType::f32, .max_tokens = 1, .max_sequences = 1});
}

bool has_modules(const Program& forward, const std::vector<std::string>& targets) {
  if (targets.front() == "all-linear") {
    return true;
  }
  std::set<std::string> ends;
  for (const Buffer& buffer : forward.buffers) {
    for (const TensorPart& part : buffer.parts) {
      std::string module = module_of(part);
      ends.insert(module.substr(module.rfind('.') + 1));
    }
  }
  return std::all_of(targets.begin(), targets.end(),
                     [&](const std::string& target) { return ends.contains(target); });
}

int64_t count_adapters(const Program& forward, const std::vector<std::string>& targets, int64_t r) {
  LoraSection lora;
  lora.r = r;
  lora.target_modules = targets;
  return count_trainable(add_adapters(forward, lora, false));
}

bool agrees(const TrainableCount& count, const CountedRun& run) {
  if (count.all) {
    return *count.all == run.parameters + run.trainable;
  }
  return !count.percent || std::abs(run.percent() - *count.percent) <= count.percent_error + 1e-9;
}

// Ranks are mostly powers of two, and not large.
int unlikeliness(const CountedRun& run) {
  if (run.r > 256) {
    return 3;
  }
  return (run.r & (run.r - 1)) == 0 ? 0 : run.r % 8 == 0 ? 1 : 2;
}

}  // namespace

std::string CountedRun::layers() const {
  if (targets.front() == "all-linear") {
    return "all linear layers";
  }
  std::vector<std::string> first(targets.begin(), targets.end() - 1);
  return fmt::format("{} and {}", fmt::join(first, ", "), targets.back());
}

CountedRun count_run(const std::string& model, const std::vector<std::string>& targets, int64_t r) {
  Program forward = forward_of(model);
  return {model, targets, r, count_adapters(forward, targets, r), count_parameters(forward)};
}

std::vector<CountedRun> runs_with_counts(const TrainableCount& count) {
  std::vector<CountedRun> found;
  std::set<std::pair<int64_t, int64_t>> seen;  // shapes with several names are one
  for (const std::string& model : catalogue_ids()) {
    Program forward = forward_of(model);
    int64_t parameters = count_parameters(forward);
    if (!seen.emplace(parameters, count_adapters(forward, {"all-linear"}, 1)).second) {
      continue;
    }
    for (const std::vector<std::string>& targets : usual_targets()) {
      if (!has_modules(forward, targets)) {
        continue;
      }
      int64_t of_rank_one = count_adapters(forward, targets, 1);
      int64_t r = count.trainable / of_rank_one;
      CountedRun run{model, targets, r, count.trainable, parameters};
      if (r >= 1 && r <= kLargestRank && r * of_rank_one == count.trainable && agrees(count, run)) {
        found.push_back(run);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const CountedRun& a, const CountedRun& b) {
    return unlikeliness(a) < unlikeliness(b);
  });
  auto doubtful = std::find_if(found.begin(), found.end(), [&](const CountedRun& run) {
    return unlikeliness(run) > unlikeliness(found.front());
  });
  found.erase(doubtful, found.end());
  return found;
}

std::string sibling_of_size(const std::string& model, const std::string& size) {
  size_t end = model.rfind('B');
  if (end == std::string::npos) {
    return "";
  }
  size_t begin = model.find_last_not_of("0123456789.", end - 1) + 1;
  std::string other = model.substr(0, begin) + size + model.substr(end + 1);
  return begin < end && other != model && catalogue_config(other) ? other : "";
}

}  // namespace snug
