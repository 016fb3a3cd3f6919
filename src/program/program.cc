// Buffers, and names of the parts of a program.
#include "program/program.h"

#include <algorithm>

#include "base/check.h"
#include "base/sizes.h"
#include "program/code_layout.h"

namespace snug {

std::string_view name_of(Role role) {
  static constexpr std::array<std::string_view, kRoleCount> kNames = {
      "base weights", "weight scales",    "weight maps",
      "adapters",     "frozen adapters",  "fp32 master bits",
      "gradients",    "optimizer states", "state scales",
      "state maps",   "kept activations", "recomputed activations",
      "activations",  "workspace",        "batch",
      "staging",      "kv-cache",         "driver context"};
  return kNames[static_cast<size_t>(role)];
}

std::string_view name_of(Home home) {
  static constexpr std::array<std::string_view, kHomeCount> kNames = {"device", "pinned", "host"};
  return kNames[static_cast<size_t>(home)];
}

std::string_view name_of(Lifetime lifetime) {
  static constexpr std::array<std::string_view, 5> kNames = {"temporary", "input", "output", "phase",
                                                             "persistent"};
  return kNames[static_cast<size_t>(lifetime)];
}

int64_t Buffer::max_elements() const {
  int64_t elements = 1;
  for (const Dim& dim : dims) {
    elements = multiply_sizes(elements, dim.max, name);
  }
  return elements;
}

int64_t Buffer::max_bytes() const {
  int64_t elements = max_elements();  // first: it refuses what cannot be counted
  return format.is_coded() ? code_layout(*this).bytes() : bytes_of(format.dtype, elements);
}

BufferId Program::add_buffer(Buffer buffer) {
  buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(buffers.size()) - 1;
}

void Program::remove_buffers(const std::vector<BufferId>& ids) {
  std::vector<bool> stays(buffers.size(), true);
  for (BufferId id : ids) {
    stays[static_cast<size_t>(id)] = false;
  }
  std::vector<BufferId> moved(buffers.size(), kNoBuffer);
  std::vector<Buffer> left;
  for (size_t id = 0; id < buffers.size(); ++id) {
    if (stays[id]) {
      moved[id] = static_cast<BufferId>(left.size());
      left.push_back(std::move(buffers[id]));
    }
  }
  buffers = std::move(left);
  auto move = [&](BufferId& id) {
    if (id != kNoBuffer) {
      id = moved[static_cast<size_t>(id)];
      SNUG_CHECK(id != kNoBuffer, "an op uses a buffer that is removed");
    }
  };
  for (Op& op : ops) {
    std::for_each(op.inputs.begin(), op.inputs.end(), move);
    std::for_each(op.outputs.begin(), op.outputs.end(), move);
    move(op.workspace);
  }
}

BufferId Program::find(const std::string& wanted) const {
  auto found = std::find_if(buffers.begin(), buffers.end(),
                            [&](const Buffer& buffer) { return buffer.name == wanted; });
  return found == buffers.end() ? kNoBuffer : static_cast<BufferId>(found - buffers.begin());
}

Extents planned_extents(const Program& program) {
  Extents extents{};
  for (const Buffer& buffer : program.buffers) {
    for (const Dim& dim : buffer.dims) {
      int64_t& extent = extents[static_cast<size_t>(dim.extent)];
      extent = std::max(extent, dim.max);
    }
  }
  return extents;
}

}  // namespace snug
