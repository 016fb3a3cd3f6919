// A program: buffers, and ops over them in the order in which they run. Plain data; passes take one and
// return one.
#pragma once

#include <string>
#include <vector>

#include "program/buffer.h"
#include "program/op.h"

namespace snug {

struct Program {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Op> ops;

  BufferId add_buffer(Buffer buffer);
  // Ops may use none of them; the ids of buffers behind them change.
  void remove_buffers(const std::vector<BufferId>& ids);
  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
  Buffer& buffer(BufferId id) { return buffers[static_cast<size_t>(id)]; }
  BufferId find(const std::string& name) const;  // kNoBuffer if there is none
};

// The value of each varying extent at which the program's buffers are full.
Extents planned_extents(const Program& program);

}  // namespace snug
