// Recording and replaying.
#include "backend/cuda/graphs.h"

#include <algorithm>

#include "backend/cuda/check.h"

namespace snug::cuda {

GraphCache::~GraphCache() {
  for (const Entry& entry : entries_) {
    cudaGraphExecDestroy(entry.graph);
  }
}

cudaGraphExec_t GraphCache::record(const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a graph");
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream_, &graph);
    cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream_, &graph), "recording a graph");
  cudaGraphExec_t executable = nullptr;
  cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "preparing a graph");
  return executable;
}

// For one more graph.
void GraphCache::make_room() {
  if (entries_.size() < kMostGraphs) {
    return;
  }
  check(cudaStreamSynchronize(stream_), "waiting for a graph");  // it may still be running
  check(cudaGraphExecDestroy(entries_.back().graph), "releasing a graph");
  entries_.pop_back();
}

void GraphCache::run(const std::string& name, const Extents& extents, const std::function<void()>& enqueue) {
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.extents == extents && entry.name == name;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    check(cudaGraphLaunch(found->graph, stream_), "running a graph");
    return;
  }
  LastRun& last = last_runs_[name];
  last.count = last.extents == extents ? last.count + 1 : 1;
  last.extents = extents;
  if (last.count <= kRunsBeforeGraph) {
    enqueue();
    return;
  }
  make_room();
  entries_.push_front({name, extents, record(enqueue)});
  check(cudaGraphLaunch(entries_.front().graph, stream_), "running a graph");
}

}  // namespace snug::cuda
