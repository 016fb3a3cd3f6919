// Going from one stack to another: the registers that calls keep are pushed, and the stack's end is all that
// is noted. (The C library's swapcontext asks the kernel each time, and a block's threads take turns millions
// of times.)
#include "cuda_on_host/fiber.h"

#include <cstdint>
#include <cstring>

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "fibers know x86-64 and aarch64"
#endif

extern "C" void snug_switch_stacks(void** leaving, void* entering);
extern "C" void snug_enter_fiber();

#ifdef __x86_64__
asm(R"(
.text
snug_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
snug_enter_fiber:
  movq %r12, %rdi
  callq *%r13
  ud2
)");
namespace {
constexpr size_t kSaved = 7;  // words: the registers above, and where to go on
constexpr size_t kArgument = 3;
constexpr size_t kBody = 2;
constexpr size_t kGoOn = 6;
}  // namespace
#else
asm(R"(
.text
snug_switch_stacks:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
snug_enter_fiber:
  mov x0, x19
  blr x20
  brk #0
)");
namespace {
constexpr size_t kSaved = 20;
constexpr size_t kArgument = 0;
constexpr size_t kBody = 1;
constexpr size_t kGoOn = 11;
}  // namespace
#endif

namespace snug::cuda_on_host {

void Fiber::start(std::byte* stack, void (*body)(void*), void* argument) {
  // The end of a stack is a multiple of 16 before the call.
  auto* saved = reinterpret_cast<uintptr_t*>(stack + kStackBytes) - kSaved;
  std::memset(saved, 0, kSaved * sizeof(uintptr_t));
  saved[kArgument] = reinterpret_cast<uintptr_t>(argument);
  saved[kBody] = reinterpret_cast<uintptr_t>(body);
  saved[kGoOn] = reinterpret_cast<uintptr_t>(&snug_enter_fiber);
  here_ = saved;
}

void Fiber::resume() {
  snug_switch_stacks(&outside_, here_);
}

void Fiber::pause() {
  snug_switch_stacks(&here_, outside_);
}

}  // namespace snug::cuda_on_host
