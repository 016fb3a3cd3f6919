// The run for TensorBoard: the rows of metrics.jsonl as scalars, and the recipe as hparams.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/appended_file.h"
#include "recipe/recipe.h"
#include "train/run_events.h"

namespace snug {

// The name of a file that begins now: events.out.tfevents.SECONDS.HOST
std::string new_event_file_name();

class TensorboardLog : public RunListener {
 public:
  // Starts a file with these rows (lines of metrics.jsonl) of an earlier part of the run. It is made of them
  // alone, so that no step is there twice, whatever an earlier file had.
  TensorboardLog(const std::filesystem::path& path, const Recipe& recipe, std::string_view earlier_rows,
                 const RunEvents& events);

  void on_row(const Json& row) override;
  void on_end(const TrainSummary& summary) override;

 private:
  void append(const std::string& record);

  AppendedFile file_;
  const RunEvents& events_;
};

}  // namespace snug
