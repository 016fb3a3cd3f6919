// What the kernel tables of all backends promise: one row a kind, in the order of OpKind.
#pragma once

#include <array>

#include "program/op.h"

namespace snug {

template <typename Kernel>
struct KernelRow {
  OpKind kind;
  Kernel kernel;
};

template <typename Kernel>
using KernelRows = std::array<KernelRow<Kernel>, kOpKindCount>;

template <typename Kernel>
constexpr bool rows_follow_the_kinds(const KernelRows<Kernel>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].kind != static_cast<OpKind>(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace snug
