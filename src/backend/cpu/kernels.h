// The CPU backend's table of kernels: one row a kind, one file per op.
#pragma once

#include "backend/backend.h"

namespace snug::cpu {

struct Kernel {
  void (*run)(const KernelCall&) = nullptr;
  // With so many threads; null: needs none.
  int64_t (*workspace_bytes)(const Program&, const Op&, int threads) = nullptr;
};

const Kernel& kernel_of(OpKind kind);

}  // namespace snug::cpu
