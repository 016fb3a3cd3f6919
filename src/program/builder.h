// A small hand for writing programs: makes buffers with unique names and appends ops to them.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "program/program.h"

namespace snug {

class Builder {
 public:
  explicit Builder(std::string program_name) { program_.name = std::move(program_name); }
  // Goes on writing at the end of an existing program.
  explicit Builder(Program program) : program_(std::move(program)) {}

  BufferId input(std::string name, DType dtype, Dims dims);
  // A persistent weight; asking this builder for the same name again returns the same buffer.
  BufferId weight(std::string name, DType dtype, Dims dims, std::vector<TensorPart> parts);
  // What a run carries from program to program; it begins with zeros unless another origin is given.
  BufferId persistent(std::string name, Format format, Dims dims, Role role, Origin origin = Origin::zero);
  BufferId temporary(std::string name, DType dtype, Dims dims, Role role = Role::activations);

  // The input that says which elements of x a dropout drops: seed, step, first token
  // (backend/dropout_mask.h). A mask follows the token's place in the step, which an encoder counts apart.
  BufferId random_of(BufferId x);

  Op& append(OpKind kind, std::string name, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
             Attributes attributes = {});

  void set_layer(int layer) { layer_ = layer; }

  Program& program() { return program_; }
  const Buffer& buffer(BufferId id) const { return program_.buffer(id); }
  Program finish() { return std::move(program_); }

 private:
  Program program_;
  std::unordered_map<std::string, BufferId>
      weights_;  // made here, by name: Program::find looks at every buffer
  int layer_ = kNoLayer;
};

}  // namespace snug
