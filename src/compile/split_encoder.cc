// Which ops depend on the decoder's tokens decides on which side they go.
#include "compile/split_encoder.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "program/names.h"

namespace snug {
namespace {

using Marks = std::vector<bool>;  // by buffer

bool any_marked(const std::vector<BufferId>& ids, const Marks& marks) {
  return std::any_of(ids.begin(), ids.end(),
                     [&](BufferId id) { return id != kNoBuffer && marks[static_cast<size_t>(id)]; });
}

void mark(const std::vector<BufferId>& ids, Marks& marks) {
  for (BufferId id : ids) {
    if (id != kNoBuffer) {
      marks[static_cast<size_t>(id)] = true;
    }
  }
}

// Appends an op of `source` to `program`, with the buffers that it is the first to use.
class Extraction {
 public:
  Extraction(const Program& source, std::string name) : source_(source) { program_.name = std::move(name); }

  void append(Op op) {
    for (std::vector<BufferId>* ids : {&op.inputs, &op.outputs}) {
      for (BufferId& id : *ids) {
        id = moved(id);
      }
    }
    program_.ops.push_back(std::move(op));
  }

  Program finish() { return std::move(program_); }

 private:
  BufferId moved(BufferId id) {
    if (id == kNoBuffer) {
      return id;
    }
    auto [place, is_new] = moved_.try_emplace(id, kNoBuffer);
    if (is_new) {
      place->second = program_.add_buffer(source_.buffer(id));
    }
    return place->second;
  }

  const Program& source_;
  Program program_;
  std::map<BufferId, BufferId> moved_;
};

}  // namespace

SplitPrograms split_encoder(Program forward, const std::string& encode_name) {
  BufferId ids = forward.find(kIds);
  SNUG_CHECK(ids != kNoBuffer, "a forward program reads ids");
  Marks depends(forward.buffers.size(), false);  // on the decoder's tokens
  depends[static_cast<size_t>(ids)] = true;
  Marks encoded(forward.buffers.size(), false);
  std::vector<bool> in_rest;
  for (const Op& op : forward.ops) {
    in_rest.push_back(any_marked(op.inputs, depends));
    mark(op.outputs, in_rest.back() ? depends : encoded);
  }
  for (size_t index = 0; index < forward.ops.size(); ++index) {
    for (BufferId id : forward.ops[index].inputs) {
      if (in_rest[index] && id != kNoBuffer && encoded[static_cast<size_t>(id)]) {
        forward.buffer(id).lifetime = Lifetime::persistent;
        forward.buffer(id).role = Role::kv_cache;
      }
    }
  }
  Extraction encode(forward, encode_name);
  Extraction rest(forward, forward.name);
  for (size_t index = 0; index < forward.ops.size(); ++index) {
    (in_rest[index] ? rest : encode).append(forward.ops[index]);
  }
  return {encode.finish(), rest.finish()};
}

}  // namespace snug
