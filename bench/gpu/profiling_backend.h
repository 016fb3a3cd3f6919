// Another backend, with the time on the card of every op it runs: a profile by op kind, beside what the
// card's rates would allow.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "ops/table.h"

namespace snug {

// Seen on an H200: the GEMM rate at these shapes, and a copy from memory to memory.
inline constexpr double kCardFlops = 720e12;
inline constexpr double kCardBytes = 4.2e12;

class ProfilingBackend : public CudaBackend {
 public:
  explicit ProfilingBackend(const CudaOptions& options, bool profile)
      : CudaBackend(options), profile_(profile) {}

  void run(const KernelCall& call) override {
    if (!profile_) {
      return CudaBackend::run(call);
    }
    cudaEvent_t begin = record();
    CudaBackend::run(call);
    spans_.push_back({label_of(call), place_of(call.op), begin, record()});
  }

  // So that the profile can say what the ops of this program would take at the card's rates.
  void expect(const Program& program) {
    for (const Op& op : program.ops) {
      OpCost cost = cost_of(program, op);
      least_seconds_[place_of(op)] = std::max(cost.flops / kCardFlops, cost.bytes / kCardBytes);
    }
  }

  struct Share {
    double seconds = 0;
    double least_seconds = 0;  // 0 for ops of programs that were not expected
    int64_t calls = 0;
  };
  // Since the last call of this; waits for the card.
  std::map<std::string, Share> take_profile() {
    synchronize();
    std::map<std::string, Share> shares;
    for (const Span& span : spans_) {
      float milliseconds = 0;
      cuda::check(cudaEventElapsedTime(&milliseconds, span.begin, span.end), "reading a clock");
      shares[span.label].seconds += static_cast<double>(milliseconds) * 1e-3;
      shares[span.label].calls += 1;
      auto least = least_seconds_.find(span.place);
      shares[span.label].least_seconds += least == least_seconds_.end() ? 0.0 : least->second;
      cudaEventDestroy(span.begin);
      cudaEventDestroy(span.end);
    }
    spans_.clear();
    return shares;
  }

 private:
  // Ops of one kind at one place in the model are of one size.
  using Place = std::pair<OpKind, std::string>;
  static Place place_of(const Op& op) { return {op.kind, op.name}; }

  struct Span {
    std::string label;
    Place place;
    cudaEvent_t begin;
    cudaEvent_t end;
  };

  // The kind, and for products the place in the model: layers differ in nothing else.
  static std::string label_of(const KernelCall& call) {
    std::string label(row_of(call.op.kind).name);
    std::string place = call.op.name;
    size_t layer = place.find("layers.");
    if (layer != std::string::npos) {
      place = place.substr(place.find('.', layer + 7) + 1);
      label += " " + place.substr(0, place.find(" + "));
    }
    return label;
  }

  cudaEvent_t record() {
    cudaEvent_t event = nullptr;
    cuda::check(cudaEventCreate(&event), "making a clock");
    cuda::check(cudaEventRecord(event, stream()), "starting a clock");
    return event;
  }

  bool profile_;
  std::vector<Span> spans_;
  std::map<Place, double> least_seconds_;
};

}  // namespace snug
