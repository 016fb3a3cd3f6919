// One piece of memory, ops one behind the other on the stream, and events between groups of them.
#include "backend/cuda/measure.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace snug::cuda {
namespace {

constexpr int kWarmUps = 3;
constexpr double kGroupSeconds = 0.01;  // between two events
constexpr int kFewestGroups = 5;
constexpr int64_t kPatternValues = int64_t{1} << 20;

class DeviceMemory {
 public:
  explicit DeviceMemory(int64_t bytes) {
    void* address = nullptr;
    if (cudaMalloc(&address, static_cast<size_t>(bytes)) != cudaSuccess) {
      (void)cudaGetLastError();  // a refusal leaves the card usable
      throw environment_error("the card has no memory to measure with");
    }
    data_ = static_cast<std::byte*>(address);
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "measuring the card"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "measuring the card"); }
  double seconds_since(const Event& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "measuring the card");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Zeros would be multiplied with less power, and so faster, than numbers.
std::vector<std::byte> random_pattern(DType dtype) {
  std::minstd_rand random;  // any numbers will do
  std::vector<float> values(static_cast<size_t>(kPatternValues));
  for (float& value : values) {
    value = static_cast<float>(random()) / static_cast<float>(std::minstd_rand::max()) - 0.5F;
  }
  std::vector<std::byte> pattern(static_cast<size_t>(bytes_of(dtype, kPatternValues)));
  convert(DType::f32, values.data(), dtype, pattern.data(), kPatternValues);
  return pattern;
}

class ProbeRun {
 public:
  // `pattern` lies on the card.
  ProbeRun(const Queue& queue, const Probe& probe, std::byte* memory, std::span<const std::byte> pattern)
      : queue_(queue),
        probe_(probe),
        places_(places_of(probe.program)),
        extents_(planned_extents(probe.program)),
        memory_(memory) {
    fill(pattern);
    set_integers();
    run(0, probe.first_timed);
  }

  // The median of groups, once the card is warm.
  double seconds() {
    for (int i = 0; i < kWarmUps; ++i) {
      run_timed();
    }
    double once = time_groups(1, 1).front();
    int repeats = std::max(1, static_cast<int>(std::lround(kGroupSeconds / once)));
    int groups = std::max(kFewestGroups, static_cast<int>(std::lround(probe_.seconds / (repeats * once))));
    std::vector<double> times = time_groups(groups, repeats);
    std::vector<double> later(times.begin() + groups / 2, times.end());
    auto middle = later.begin() + std::ssize(later) / 2;
    std::nth_element(later.begin(), middle, later.end());
    return *middle;
  }

 private:
  void fill(std::span<const std::byte> pattern) {
    for (int64_t done = 0; done < places_.bytes; done += std::ssize(pattern)) {
      int64_t bytes = std::min(std::ssize(pattern), places_.bytes - done);
      check(cudaMemcpyAsync(memory_ + done, pattern.data(), static_cast<size_t>(bytes),
                            cudaMemcpyDeviceToDevice, queue_.stream),
            "measuring the card");
    }
  }

  // Offsets of sequences of one length.
  void set_integers() {
    std::array<int32_t, kProbeSequences + 1> offsets{};
    for (size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] = static_cast<int32_t>(static_cast<int64_t>(i) * kProbeTokens / kProbeSequences);
    }
    for (size_t i = 0; i < probe_.program.buffers.size(); ++i) {
      const Buffer& buffer = probe_.program.buffers[i];
      std::byte* place = memory_ + places_.offsets[i];
      if (buffer.dtype() == DType::i32) {
        check(cudaMemcpyAsync(place, offsets.data(), sizeof offsets, cudaMemcpyHostToDevice, queue_.stream),
              "measuring the card");
      }
    }
    check(cudaStreamSynchronize(queue_.stream), "measuring the card");
  }

  Tensor tensor(BufferId id) const {
    return id == kNoBuffer ? Tensor{}
                           : tensor_of(probe_.program.buffer(id),
                                       memory_ + places_.offsets[static_cast<size_t>(id)], extents_);
  }

  void run(size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      const Op& op = probe_.program.ops[i];
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      for (BufferId id : op.inputs) {
        inputs.push_back(tensor(id));
      }
      for (BufferId id : op.outputs) {
        outputs.push_back(tensor(id));
      }
      std::span<std::byte> scratch(memory_ + places_.scratch_offset,
                                   static_cast<size_t>(places_.bytes - places_.scratch_offset));
      kernel_of(op.kind)(queue_, {.op = op, .inputs = inputs, .outputs = outputs, .workspace = scratch});
    }
  }

  void run_timed() { run(probe_.first_timed, probe_.program.ops.size()); }

  // Of one run of the timed ops, as each group of so many runs had it.
  std::vector<double> time_groups(int groups, int repeats) {
    std::vector<Event> marks(static_cast<size_t>(groups) + 1);
    marks.front().record(queue_.stream);
    for (int group = 0; group < groups; ++group) {
      for (int i = 0; i < repeats; ++i) {
        run_timed();
      }
      marks[static_cast<size_t>(group) + 1].record(queue_.stream);
    }
    check(cudaStreamSynchronize(queue_.stream), "measuring the card");
    std::vector<double> seconds;
    for (size_t i = 1; i < marks.size(); ++i) {
      seconds.push_back(marks[i].seconds_since(marks[i - 1]) / repeats);
    }
    return seconds;
  }

  const Queue& queue_;
  const Probe& probe_;
  ProbePlaces places_;
  Extents extents_;
  std::byte* memory_;
};

}  // namespace

int64_t measuring_bytes(DType dtype) {
  int64_t most = 0;
  for (const Probe& probe : card_probes(dtype)) {
    most = std::max(most, places_of(probe.program).bytes);
  }
  return most + bytes_of(dtype, kPatternValues);
}

ProbeSeconds measure_probes(const Queue& queue, DType dtype) {
  DeviceMemory memory(measuring_bytes(dtype));
  std::vector<std::byte> pattern = random_pattern(dtype);
  std::byte* kept = memory.data() + measuring_bytes(dtype) - std::ssize(pattern);
  check(cudaMemcpyAsync(kept, pattern.data(), pattern.size(), cudaMemcpyHostToDevice, queue.stream),
        "measuring the card");
  ProbeSeconds seconds{};
  for (const Probe& probe : card_probes(dtype)) {
    ProbeRun run(queue, probe, memory.data(), {kept, pattern.size()});
    seconds[static_cast<size_t>(probe.kind)] = run.seconds();
  }
  return seconds;
}

}  // namespace snug::cuda
