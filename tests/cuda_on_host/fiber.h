// A thread of control with a stack of its own, which runs when it is told to and until it pauses.
#pragma once

#include <cstddef>

namespace snug::cuda_on_host {

class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{256} << 10;

  // `stack` has kStackBytes; `body` is called with `argument`, and must not return: it ends with pause().
  void start(std::byte* stack, void (*body)(void*), void* argument);
  // Called from outside: until it pauses.
  void resume();
  // Called by the fiber itself.
  void pause();

 private:
  void* here_ = nullptr;     // where it goes on
  void* outside_ = nullptr;  // where its caller goes on
};

}  // namespace snug::cuda_on_host
