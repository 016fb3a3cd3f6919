// Appending buffers and ops.
#include "program/builder.h"

#include "base/check.h"
#include "program/names.h"

namespace snug {

BufferId Builder::input(std::string name, DType dtype, Dims dims) {
  return program_.add_buffer({.name = std::move(name),
                              .format = dtype,
                              .dims = std::move(dims),
                              .role = Role::batch,
                              .lifetime = Lifetime::input});
}

BufferId Builder::weight(std::string name, DType dtype, Dims dims, std::vector<TensorPart> parts) {
  if (auto known = weights_.find(name); known != weights_.end()) {
    SNUG_CHECK(buffer(known->second).dims == dims, "weight " + name + " is asked for with two shapes");
    return known->second;
  }
  BufferId id = persistent(std::move(name), dtype, std::move(dims), Role::base_weights, Origin::file);
  program_.buffer(id).parts = std::move(parts);
  weights_.emplace(program_.buffer(id).name, id);
  return id;
}

BufferId Builder::persistent(std::string name, Format format, Dims dims, Role role, Origin origin) {
  return program_.add_buffer({.name = std::move(name),
                              .format = format,
                              .dims = std::move(dims),
                              .role = role,
                              .lifetime = Lifetime::persistent,
                              .origin = origin});
}

BufferId Builder::temporary(std::string name, DType dtype, Dims dims, Role role) {
  return program_.add_buffer(
      {.name = std::move(name), .format = dtype, .dims = std::move(dims), .role = role});
}

BufferId Builder::random_of(BufferId x) {
  const char* name = buffer(x).dims[0].extent == Extent::source_tokens ? kSourceRandom : kRandom;
  BufferId known = program_.find(name);
  return known != kNoBuffer ? known : input(name, DType::i64, {fixed(3)});
}

Op& Builder::append(OpKind kind, std::string name, std::vector<BufferId> inputs,
                    std::vector<BufferId> outputs, Attributes attributes) {
  program_.ops.push_back({.kind = kind,
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs),
                          .attributes = std::move(attributes),
                          .name = std::move(name),
                          .layer = layer_});
  return program_.ops.back();
}

}  // namespace snug
