// Homes and scratch memory.
#include "plan/lower.h"

#include <fmt/format.h>

#include "base/error.h"

namespace snug {

Program lower(Program program, const Device& device) {
  for (Buffer& buffer : program.buffers) {
    buffer.home = device.home_of(buffer.home);
  }
  for (size_t index = 0; index < program.ops.size(); ++index) {
    std::string missing = device.find_unsupported(program, program.ops[index]);
    if (!missing.empty()) {
      throw bad_input(fmt::format("op \"{}\": {}", program.ops[index].name, missing));
    }
    int64_t bytes = device.workspace_bytes(program, program.ops[index]);
    if (bytes > 0) {
      // The index tells an op from the one that makes its result again.
      std::string name = fmt::format("scratch of op {}, {}", index, program.ops[index].name);
      program.ops[index].workspace = program.add_buffer({.name = std::move(name),
                                                         .format = DType::u8,
                                                         .dims = {fixed(bytes)},
                                                         .role = Role::workspace,
                                                         .home = device.home_of(Home::device)});
    }
  }
  return program;
}

}  // namespace snug
