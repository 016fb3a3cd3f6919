// Streams, events and graphs of CUDA's runtime. There is one order of everything, whatever its stream.
#include "cuda_on_host/stream.h"

#include <cuda_runtime_api.h>

#include <chrono>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_on_host/grid.h"

namespace snug::cuda_on_host {
namespace {

using Graph = std::vector<Work>;
using Clock = std::chrono::steady_clock;

struct Event {
  uint64_t count = 0;  // of what was enqueued before it
  Clock::time_point time;
};

std::deque<Work> queue;
uint64_t done = 0;
std::unique_ptr<Graph> recorded;  // while a graph is recorded

}  // namespace

void enqueue(Work work) {
  if (recorded) {
    recorded->push_back(std::move(work));
    return;
  }
  queue.push_back(std::move(work));
  if (!happens_late()) {
    finish();
  }
}

uint64_t enqueued() {
  return done + queue.size();
}

void finish(uint64_t count) {
  while (done < count && !queue.empty()) {
    Work work = std::move(queue.front());
    queue.pop_front();
    ++done;
    work();
  }
}

namespace {

Graph* graph_of(void* handle) {
  return static_cast<Graph*>(handle);
}
Event* event_of(cudaEvent_t handle) {
  return reinterpret_cast<Event*>(handle);
}

}  // namespace
}  // namespace snug::cuda_on_host

using namespace snug::cuda_on_host;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t /*stream*/) {
  finish();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*stream*/) {
  if (recorded) {
    return cudaErrorStreamCaptureUnsupported;
  }
  finish();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t /*stream*/, cudaStreamCaptureMode /*mode*/) {
  recorded = std::make_unique<Graph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t /*stream*/, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(recorded.release());
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*graph_of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t /*stream*/) {
  for (const Work& work : *graph_of(executable)) {
    enqueue(work);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete graph_of(executable);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  return cudaEventCreate(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  finish();  // it may be marked there
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*stream*/) {
  enqueue([event] { event_of(event)->time = Clock::now(); });
  event_of(event)->count = enqueued();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  finish(event_of(event)->count);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds =
      std::chrono::duration<float, std::milli>(event_of(end)->time - event_of(begin)->time).count();
  return cudaSuccess;
}
