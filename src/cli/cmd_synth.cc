// snug synth MODEL OUT_DIR
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "model/catalogue.h"
#include "model/locate.h"
#include "report/work_line.h"
#include "train/synth.h"

namespace snug {
namespace {

struct SynthArguments {
  std::string model;
  std::string folder;
  std::string dtype = "bf16";
  uint64_t seed = 0;
};

int synth_command(const SynthArguments& arguments) {
  LocatedModel located = locate_model(arguments.model);
  SynthOptions options;
  options.config = located.folder.empty() ? *catalogue_config(arguments.model)
                                          : read_json(std::filesystem::path(located.folder) / "config.json");
  options.source = located.spec.source;
  options.seed = arguments.seed;
  std::optional<DType> dtype = parse_dtype(arguments.dtype);
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    throw bad_input(fmt::format("--dtype is \"{}\": expected fp32, bf16 or fp16", arguments.dtype));
  }
  options.dtype = *dtype;
  if (std::filesystem::exists(std::filesystem::path(arguments.folder) / "config.json")) {
    throw bad_input(fmt::format("{}: there is a model already; choose an empty folder", arguments.folder));
  }
  {
    LiveLine live(stderr);
    WorkLine progress(live, stderr);
    write_synthetic_model(options, arguments.folder, [&](int64_t written, int64_t total) {
      progress.show({.what = "writing",
                     .done = written,
                     .total = total,
                     .detail = fmt::format("{} of {}", format_bytes(written), format_bytes(total))});
    });
  }
  fmt::print("  {} with random weights is in {}\n", arguments.model, arguments.folder);
  return kExitOk;
}

}  // namespace

void add_synth_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<SynthArguments>();
  CLI::App* command = app.add_subcommand("synth", "A model folder of a given shape with random weights");
  command->add_option("model", arguments->model, "A hub id or a model's folder: the shape to copy")
      ->required();
  command->add_option("folder", arguments->folder, "Where to write it")->required();
  command->add_option("--seed", arguments->seed, "Of the random weights");
  command->add_option("--dtype", arguments->dtype, "fp32, bf16 or fp16");
  command->footer(
      "\nTries a machine at the real size before anything is downloaded; the folder has\n"
      "a byte-level tokenizer.\n"
      "\nExample:\n  snug synth HuggingFaceTB/SmolLM2-135M /tmp/smol && snug inspect /tmp/smol");
  command->callback([arguments, &action] { action = [arguments] { return synth_command(*arguments); }; });
}

}  // namespace snug
