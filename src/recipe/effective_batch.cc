// A product, or what it must be.
#include "recipe/effective_batch.h"

#include <fmt/format.h>

#include <cmath>

namespace snug {
namespace {

// Of a step about which nothing is said: as TrainingArguments have it.
constexpr int64_t kDefaultSequences = 8;

}  // namespace

int64_t effective_batch(const TrainingSection& training) {
  return training.effective_batch_size.value_or(
      training.per_device_train_batch_size.value_or(kDefaultSequences) *
      training.gradient_accumulation_steps.value_or(1));
}

int64_t steps_for(const TrainingSection& training, int64_t sequences) {
  int64_t effective = effective_batch(training);
  return (sequences + effective - 1) / effective;
}

int64_t steps_of_epochs(double epochs, int64_t steps_per_epoch) {
  // 1.1 epochs of 10 steps are 11 steps, though the product is a little more in floating point.
  auto whole = static_cast<int64_t>(std::floor(epochs));
  double fraction = epochs - static_cast<double>(whole);
  return whole * steps_per_epoch +
         static_cast<int64_t>(std::ceil(fraction * static_cast<double>(steps_per_epoch) - 1e-9));
}

std::string find_batch_problem(const TrainingSection& training) {
  if (!training.effective_batch_size) {
    return "";
  }
  int64_t effective = *training.effective_batch_size;
  std::optional<int64_t> per_device = training.per_device_train_batch_size;
  std::optional<int64_t> accumulation = training.gradient_accumulation_steps;
  if (per_device && accumulation && *per_device * *accumulation != effective) {
    return fmt::format(
        "training.effective_batch_size is {}, but per_device_train_batch_size × gradient_accumulation_steps "
        "is {} × {} = {}: leave out one of the three",
        effective, *per_device, *accumulation, *per_device * *accumulation);
  }
  if (per_device.value_or(1) > effective) {
    return fmt::format(
        "training.per_device_train_batch_size is {}, more than training.effective_batch_size, which is {}: "
        "a step is at least one micro-batch",
        *per_device, effective);
  }
  if (effective % accumulation.value_or(1) != 0) {
    return fmt::format(
        "training.effective_batch_size is {}, which is no multiple of "
        "training.gradient_accumulation_steps, {}: leave that out",
        effective, *accumulation);
  }
  return "";
}

}  // namespace snug
