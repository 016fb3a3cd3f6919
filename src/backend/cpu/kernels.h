// The CPU backend's table of kernels: one row a kind, one file per op.
#pragma once

#include "backend/backend.h"

namespace snug::cpu {

struct Kernel {
  void (*run)(const KernelCall&) = nullptr;
  // Null: needs none.
  int64_t (*workspace_bytes)(const Program&, const Op&) = nullptr;
};

const Kernel& kernel_of(OpKind kind);

}  // namespace snug::cpu
