// Another backend, with the time on the card of every op it runs: a profile by op kind.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda_backend.h"
#include "ops/table.h"

namespace snug {

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
    spans_.push_back({label_of(call), begin, record()});
  }

  struct Share {
    double seconds = 0;
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
      cudaEventDestroy(span.begin);
      cudaEventDestroy(span.end);
    }
    spans_.clear();
    return shares;
  }

 private:
  struct Span {
    std::string label;
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
};

}  // namespace snug
