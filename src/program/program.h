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
  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id)]; }
  Buffer& buffer(BufferId id) { return buffers[static_cast<size_t>(id)]; }
  BufferId find(const std::string& name) const;  // kNoBuffer if there is none
};

// First and last op that touch a buffer; persistent ones and unused ones are marked as such by the reader.
struct Interval {
  int first = -1;
  int last = -1;
};

// When each buffer must hold its bytes, by the op indices of `program`: inputs from op 0, outputs to the
// last op. Index = BufferId. A buffer that no op touches has first == -1.
std::vector<Interval> lifetimes(const Program& program);

// The value of each varying extent at which the program's buffers are full.
Extents planned_extents(const Program& program);

// Throws nothing and changes nothing: a program that breaks a rule is a bug in a pass, so it SNUG_CHECKs.
// Rules: ids in range; a buffer is written with = at most once and before any other use (inputs and
// persistent buffers come written); += follows a write; names are unique; sizes are positive.
void verify(const Program& program);

// The same rules; returns the first violation as text, "" if there is none (for tests of the rules).
std::string find_violation(const Program& program);

}  // namespace snug
