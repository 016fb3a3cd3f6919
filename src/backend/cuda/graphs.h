// Sequences of ops that come again at the same sizes, recorded as CUDA graphs: one launch instead of
// thousands.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <utility>

#include "program/buffer.h"

namespace snug::cuda {

class GraphCache {
 public:
  explicit GraphCache(cudaStream_t stream) : stream_(stream) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Runs `enqueue`, or the graph that it was recorded as. The first time at given sizes the ops run as they
  // are (libraries load and choose their kernels), the second time they are recorded, then replayed.
  void run(const std::string& name, const Extents& extents, const std::function<void()>& enqueue);

 private:
  // A graph takes some of the driver's own memory on the card, so few are kept.
  static constexpr size_t kMostGraphs = 4;
  // Sizes that were seen and may come again.
  static constexpr size_t kMostEntries = 256;

  struct Entry {
    std::string name;
    Extents extents;
    cudaGraphExec_t graph = nullptr;
  };

  cudaGraphExec_t record(const std::function<void()>& enqueue);
  void release(Entry& entry);
  void make_room();

  cudaStream_t stream_;
  std::list<Entry> entries_;  // the latest first
};

}  // namespace snug::cuda
