// An update with moments in 8 bits, for tests on the CPU and on the card.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/dynamic_map.h"
#include "base/rng.h"
#include "program/builder.h"
#include "program/code_layout.h"
#include "support/split_values.h"
#include "support/updated_tensors.h"

namespace snug {

// One op: gradients g0, g1, ..., parameters p0, ..., moments m0, ... and v0, ... A copy dtype other than fp32
// adds compute copies c0, ...
inline Program update_8bit_program(const std::vector<UpdatedTensors>& tensors, DType parameters = DType::f32,
                                   DType copies = DType::f32) {
  Builder builder("update");
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  AdamwAttributes attributes{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8F, .weight_decay = {}};
  auto add = [&](const char* stem, const Format& format, std::vector<BufferId>& list) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      BufferId id = builder.persistent(stem + std::to_string(i), format,
                                       {fixed(tensors[i].all_rows()), fixed(tensors[i].columns)},
                                       Role::optimizer_states);
      int64_t begin = 0;
      for (int64_t rows : tensors[i].rows) {
        builder.program().buffer(id).parts.push_back({{}, begin, rows});
        begin += rows;
      }
      list.push_back(id);
    }
  };
  for (const UpdatedTensors& one : tensors) {
    attributes.weight_decay.push_back(one.weight_decay);
  }
  attributes.beside = beside_of(copies);
  add("g", DType::f32, inputs);
  add("p", parameters, outputs);
  add("m", kFirstMoment8bit, outputs);
  add("v", kSecondMoment8bit, outputs);
  if (attributes.beside != Beside::nothing) {
    add("c", copies, outputs);
  }
  inputs.push_back(builder.input("scalars", DType::f32, {fixed(4)}));
  inputs.push_back(builder.input("norm", DType::f32, {fixed(1)}));
  inputs.push_back(builder.input("random", DType::i64, {fixed(2)}));
  inputs.push_back(builder.input("maps", DType::f32, {fixed(2), fixed(kDynamicMapEntries)}));
  builder.append(OpKind::adamw_8bit, "adamw_8bit", inputs, outputs, attributes);
  return builder.finish();
}

// `Runner` has set, set_ints and set_bytes. Moments begin as zeros.
template <typename Runner>
void begin_8bit_update(Runner& runner, const Program& program) {
  std::vector<float> maps;
  for (bool is_signed : {true, false}) {
    DynamicMap map = dynamic_map(is_signed);
    maps.insert(maps.end(), map.begin(), map.end());
  }
  runner.set("maps", maps);
  runner.set("norm", {1.0F});
  runner.set_ints("random", {42, 0});
  for (const Buffer& buffer : program.buffers) {
    if (buffer.format.is_coded()) {
      std::vector<std::byte> zeros(static_cast<size_t>(buffer.max_bytes()));
      runner.set_bytes(buffer.name, zeros);
    }
  }
}

// The codes and scales of one tensor's moments, out of the bytes of their buffer.
struct Moments8bit {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> plain;  // in place of both where the tensor is small
};
inline Moments8bit moments_of(const std::vector<std::byte>& bytes, const Buffer& buffer, size_t part) {
  CodeLayout layout = code_layout(buffer);
  const CodedPart& place = layout.parts[part];
  auto elements = static_cast<size_t>(place.rows * layout.columns);
  Moments8bit moments;
  if (place.plain) {
    moments.plain.resize(elements);
    std::memcpy(moments.plain.data(), bytes.data() + place.codes, 4 * elements);
    return moments;
  }
  moments.codes.resize(elements);
  moments.scales.resize(static_cast<size_t>(scale_count(buffer.format, place.rows, layout.columns)));
  std::memcpy(moments.codes.data(), bytes.data() + place.codes, elements);
  std::memcpy(moments.scales.data(), bytes.data() + place.scales, 4 * moments.scales.size());
  return moments;
}

// Parameters (step 0) and gradients of tools/make_state_references.py.
inline const std::vector<UpdatedTensors> kReferenceTensors = {
    {1, {4096}, 0.01F}, {1, {4355}, 0}, {1, {5000}, 0.1F}, {1, {1000}, 0.01F}};
inline constexpr int kReferenceSteps = 50;

inline std::vector<float> reference_values(size_t tensor, int step) {
  std::vector<float> values;
  auto elements = static_cast<uint64_t>(kReferenceTensors[tensor].elements());
  for (uint64_t i = 0; i < elements; ++i) {
    uint64_t place = (static_cast<uint64_t>(tensor) << 50) + i;
    uint64_t number = mix(place + (static_cast<uint64_t>(step) << 32)) >> 40;
    auto exponent = static_cast<int>(mix(place + (uint64_t{1} << 60)) % 8);
    float value = std::ldexp(static_cast<float>(number) * 0x1p-23F - 1.0F, -exponent);
    values.push_back(tensor == 1 && step > 0 && i < 300 ? 0.0F : value);
  }
  return values;
}

inline std::vector<float> reference_scalars(int step) {
  auto correction = [&](double beta) { return static_cast<float>(1 - std::pow(beta, step)); };
  return {static_cast<float>(1e-3 * (1 - (step - 1) / 64.0)), correction(0.9), correction(0.999), 1.0F};
}

}  // namespace snug
