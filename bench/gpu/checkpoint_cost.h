// What a checkpoint costs the steps beside which it is written: the trainer's own copy and files, while steps
// go on until it is on the disk.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>

#include "io/atomic_file.h"
#include "io/json.h"
#include "train/checkpoint.h"
#include "train/snapshot.h"
#include "train/trainer.h"

namespace snug {

class CheckpointCost {
 public:
  CheckpointCost(Executor& executor, StepRunner& runner, std::vector<Batch> batches)
      : executor_(executor), runner_(runner), batches_(std::move(batches)) {}

  // `folder` is made, and removed again.
  Json measure(const Recipe& recipe, const ModelSpec& spec, const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / "config.json", "{}\n");  // of which checkpoints of a model have a copy
    TrainInputs inputs{.recipe = recipe, .model = {.spec = spec, .folder = folder.string()}, .data = {}};
    double step_seconds = seconds_a_step();
    Json saves = Json::array();
    for (int i = 0; i < kSaves; ++i) {
      saves.push_back(save_once(inputs, folder, step_seconds));
      if (saves.back()["written_s"].get<double>() > kLongSeconds) {
        break;
      }
    }
    std::filesystem::remove_all(folder);
    double lost = saves.back()["lost_s"].get<double>();
    return {{"checkpoint_bytes", executor_.plan().saving->checkpoint_bytes},
            {"snapshot_bytes", executor_.plan().saving->snapshot_bytes},
            {"training_waits", executor_.plan().saving->training_waits()},
            {"step_s", step_seconds},
            {"saves", saves},
            {"percent_of_5_minutes", 100 * lost / 300}};
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kSaves = 2;            // the first touches the copy's memory for the first time
  static constexpr double kLongSeconds = 45;  // one that takes longer is measured once
  static constexpr double kTimedSeconds = 8;  // of steps alone

  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  // One step ahead of the card, as the trainer.
  void step() {
    if (runner_.history_full()) {
      runner_.take_results();
      mark_before_.reset();
    }
    runner_.enqueue_step(batches_, steps_++, kTotalSteps);
    if (mark_before_) {
      executor_.backend().wait_for(*mark_before_);
    }
    mark_before_ = executor_.backend().mark();
  }
  void finish_steps() {
    runner_.take_results();
    mark_before_.reset();
  }

  double seconds_a_step() {
    finish_steps();
    auto start = Clock::now();
    int64_t count = 0;
    for (; seconds_since(start) < kTimedSeconds; ++count) {
      step();
    }
    finish_steps();
    return seconds_since(start) / static_cast<double>(count);
  }

  Json save_once(const TrainInputs& inputs, const std::filesystem::path& folder, double step_seconds) {
    bool waits = !has_snapshot(executor_.plan());
    ResumePoint point;
    point.recipe = inputs.recipe;
    auto start = Clock::now();
    auto write = [&](BufferReader& reader) {
      write_checkpoint_folder(folder, 1, [&](const std::filesystem::path& files) {
        write_checkpoint_files(reader, inputs, point, files);
      });
      return seconds_since(start);
    };
    std::optional<Snapshot> snapshot;
    std::future<double> written;
    if (waits) {
      DeviceReader reader(executor_);
      std::promise<double> done;
      done.set_value(write(reader));
      written = done.get_future();
    } else {
      snapshot.emplace(executor_);
      snapshot->take();
      written = std::async(std::launch::async, [&] { return write(*snapshot); });
    }
    double held = seconds_since(start);
    int64_t count = 0;
    do {
      step();
      ++count;
    } while (written.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
    finish_steps();
    double all = seconds_since(start);
    remove_checkpoint(folder / checkpoint_name(1));
    return {{"held_s", held},
            {"written_s", written.get()},
            {"steps_meanwhile", count},
            {"lost_s", all - static_cast<double>(count) * step_seconds}};
  }

  static constexpr int64_t kTotalSteps = int64_t{1} << 20;

  Executor& executor_;
  StepRunner& runner_;
  std::vector<Batch> batches_;
  std::optional<uint64_t> mark_before_;
  int64_t steps_ = 0;
};

}  // namespace snug
