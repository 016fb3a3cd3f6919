// Writing a checkpoint and reading it.
#include "train/checkpoint.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"
#include "recipe/parse.h"
#include "recipe/write.h"
#include "train/adapter_files.h"
#include "train/model_card.h"
#include "train/output.h"
#include "train/run_files.h"
#include "train/shards.h"
#include "train/stacked_adapter.h"
#include "train/state.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kState = "state.safetensors";
constexpr const char* kProgress = "progress.json";
constexpr int64_t kSmallFileBytes = 64 << 10;

// What full fine-tuning trains is in the model's own files.
StateScope scope_of(const TrainInputs& inputs) {
  return inputs.recipe.lora ? StateScope::everything : StateScope::beside_model_files;
}

// Names and sizes of the files that the weights come from, and the config: enough to know another model.
std::string model_fingerprint(const TrainInputs& inputs) {
  Fingerprint fingerprint;
  fingerprint.add(read_text_file(fs::path(inputs.model.folder) / "config.json"));
  if (!inputs.recipe.model.from_scratch) {
    TensorSource source = open_tensors(inputs.model.folder);
    for (const std::string& name : source.names()) {
      fingerprint.add(name);
      fingerprint.add(source.find(name).stored_bytes());
    }
  }
  if (!inputs.frozen_adapter.empty()) {
    fingerprint.add(adapter_fingerprint(inputs.frozen_adapter));
  }
  return fingerprint.hex();
}

}  // namespace

RunIdentity identity_of(const TrainInputs& inputs) {
  return {.train_data = inputs.data.train.fingerprint(),
          .eval_data = inputs.data.eval ? inputs.data.eval->fingerprint() : "",
          .model = model_fingerprint(inputs)};
}

void save_result_files(BufferReader& reader, const TrainInputs& inputs, const fs::path& folder,
                       const BytesObserver& observer) {
  if (std::string card = base_card(inputs.recipe, inputs.model.spec); !card.empty()) {
    write_file_atomically(folder / kModelCardFile, card);
  }
  if (!inputs.frozen_adapter.empty()) {
    save_stacked_adapter(reader, inputs, folder);
  } else if (inputs.recipe.lora) {
    save_adapter(reader, inputs.recipe, inputs.model.spec, folder, observer);
  } else {
    save_model(reader, inputs.model.folder, folder, observer);
  }
}

std::vector<PlannedFile> result_files(const Plan& plan, const TrainInputs& inputs) {
  bool is_stacked = !inputs.recipe.stage.stacked.empty();
  return is_stacked           ? stacked_adapter_files(plan)
         : inputs.recipe.lora ? adapter_files(plan)
                              : model_files(plan, inputs.model.folder);
}

void write_checkpoint_files(BufferReader& reader, const TrainInputs& inputs, const ResumePoint& point,
                            const fs::path& folder, const BytesObserver& observer) {
  save_result_files(reader, inputs, folder, observer);
  save_state(reader, scope_of(inputs), folder / kState, observer);
  Json progress = {{"progress", progress_to_json(point.progress)}, {"total_steps", point.total_steps},
                   {"eval_sequences", point.eval_sequences},       {"train_data", point.identity.train_data},
                   {"eval_data", point.identity.eval_data},        {"model", point.identity.model}};
  write_file_atomically(folder / kProgress, progress.dump(2) + "\n");
  write_file_atomically(folder / kRecipeFile, recipe_to_yaml(point.recipe));
  write_file_atomically(folder / kMetricsFile, point.metrics);
}

std::vector<PlannedFile> checkpoint_files(const Plan& plan, const TrainInputs& inputs) {
  std::vector<PlannedFile> files = result_files(plan, inputs);
  if (!base_card(inputs.recipe, inputs.model.spec).empty()) {
    files.push_back({kModelCardFile, kSmallFileBytes});
  }
  files.push_back({kState, file_bytes(entries_of(state_tensors(plan, scope_of(inputs))))});
  for (const char* name : {kProgress, kRecipeFile, kMetricsFile, kCheckpointManifest}) {
    files.push_back({name, kSmallFileBytes});
  }
  return files;
}

ResumePoint read_resume_point(const fs::path& folder) {
  std::string problem = checkpoint_problem(folder);
  if (!problem.empty()) {
    throw bad_input(fmt::format("{}: cannot be gone on from: {}", folder.string(), problem));
  }
  ResumePoint point;
  point.folder = folder;
  point.recipe = read_recipe(folder / kRecipeFile);
  std::string source = (folder / kProgress).string();
  Json json = read_json(source);
  try {
    point.progress = progress_from_json(json.at("progress"), source);
    json.at("total_steps").get_to(point.total_steps);
    json.at("eval_sequences").get_to(point.eval_sequences);
    json.at("train_data").get_to(point.identity.train_data);
    json.at("eval_data").get_to(point.identity.eval_data);
    json.at("model").get_to(point.identity.model);
  } catch (const Json::exception& error) {
    throw bad_input(fmt::format("{}: is not what snug writes of a run: {}", source, error.what()));
  }
  point.metrics = read_text_file(folder / kMetricsFile);
  return point;
}

std::optional<ResumePoint> find_resume_point(const fs::path& run_folder, std::vector<std::string>& damaged) {
  for (const CheckpointFolder& checkpoint : find_checkpoints(run_folder)) {
    try {
      return read_resume_point(checkpoint.path);
    } catch (const Error& error) {
      damaged.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

void load_checkpoint(Executor& executor, const TrainInputs& inputs, const fs::path& folder) {
  if (!inputs.recipe.lora) {
    load_tensors(executor, Role::base_weights, open_tensors(folder));
  }
  load_state(executor, scope_of(inputs), folder / kState);
}

}  // namespace snug
