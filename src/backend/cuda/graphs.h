// Sequences of ops that come again at the same sizes, recorded as CUDA graphs: one launch instead of
// thousands.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
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

  // Runs `enqueue`, or the graph that it was recorded as. Recording costs more than a run, so that sizes are
  // recorded when they have come several times in a row; batches of changing lengths run op by op.
  void run(const std::string& name, const Extents& extents, const std::function<void()>& enqueue);

 private:
  // A graph takes some of the driver's own memory on the card, so few are kept.
  static constexpr size_t kMostGraphs = 4;
  // The first runs as it is also because libraries then load and choose their kernels.
  static constexpr int kRunsBeforeGraph = 2;

  struct Entry {
    std::string name;
    Extents extents;
    cudaGraphExec_t graph = nullptr;
  };
  // The sizes that a sequence last ran at, and how often in a row without a graph.
  struct LastRun {
    Extents extents;
    int count = 0;
  };

  cudaGraphExec_t record(const std::function<void()>& enqueue);
  void make_room();

  cudaStream_t stream_;
  std::list<Entry> entries_;  // the latest first
  std::map<std::string, LastRun> last_runs_;
};

}  // namespace snug::cuda
