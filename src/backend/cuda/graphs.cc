// Recording and replaying.
#include "backend/cuda/graphs.h"

#include <algorithm>

#include "backend/cuda/check.h"

namespace snug::cuda {

GraphCache::~GraphCache() {
  for (const Entry& entry : entries_) {
    if (entry.graph != nullptr) {
      cudaGraphExecDestroy(entry.graph);
    }
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

void GraphCache::release(Entry& entry) {
  if (entry.graph != nullptr) {
    check(cudaStreamSynchronize(stream_), "waiting for a graph");  // it may still be running
    check(cudaGraphExecDestroy(entry.graph), "releasing a graph");
    entry.graph = nullptr;
  }
}

// For one more graph.
void GraphCache::make_room() {
  auto has_graph = [](const Entry& entry) { return entry.graph != nullptr; };
  if (static_cast<size_t>(std::count_if(entries_.begin(), entries_.end(), has_graph)) >= kMostGraphs) {
    release(*std::find_if(entries_.rbegin(), entries_.rend(), has_graph));
  }
}

void GraphCache::run(const std::string& name, const Extents& extents, const std::function<void()>& enqueue) {
  auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.extents == extents && entry.name == name;
  });
  if (found == entries_.end()) {
    enqueue();
    entries_.push_front({name, extents, nullptr});
    if (entries_.size() > kMostEntries) {
      release(entries_.back());
      entries_.pop_back();
    }
    return;
  }
  entries_.splice(entries_.begin(), entries_, found);
  if (found->graph == nullptr) {
    make_room();
    found->graph = record(enqueue);
  }
  check(cudaGraphLaunch(found->graph, stream_), "running a graph");
}

}  // namespace snug::cuda
