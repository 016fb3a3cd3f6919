// What a card is told to do, in the order in which it is told: done at once, when somebody waits for it
// (SNUG_HOST_WORK=late), or each time that the graph is launched which it was recorded for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace snug::cuda_on_host {

using Work = std::function<void()>;

void enqueue(Work work);
// How much has been enqueued until now.
uint64_t enqueued();
// Does what has not been done of the first `count`.
void finish(uint64_t count);
inline void finish() {
  finish(enqueued());
}

}  // namespace snug::cuda_on_host
