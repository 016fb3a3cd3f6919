// The layers of a model as rows of a list. Families write the list; what is in a row is all that the builder
// of forward programs (model/stack_builder.h) knows of a layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "program/op.h"

namespace snug {

// How the rotary frequencies are stretched beyond the length that the model was first trained for.
struct RopeScaling {
  enum class Kind { none, linear, llama3, dynamic };
  Kind kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;  // llama3
  double high_frequency_factor = 4;
  int64_t original_positions = 0;  // llama3, dynamic

  bool operator==(const RopeScaling&) const = default;
};

struct Rope {
  double theta = 10000;
  RopeScaling scaling = {};

  bool operator==(const Rope&) const = default;
};

// Scores get a bias by distance, in buckets. All layers of a stack share the biases.
struct RelativePositions {
  int64_t buckets = 0;
  int64_t max_distance = 0;
};

// What a position attends to: itself and all before it, all of its own sequence, or all that the encoder
// read.
enum class Sees { before, all, source };

// Names are those of the files, within the layer and the module.
struct Attention {
  Sees sees = Sees::before;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 1;     // of the scores
  int64_t window = 0;  // how far back it sees; 0: to the start
  std::optional<Rope> rope = {};
  std::optional<RelativePositions> relative = {};
  bool qkv_bias = false;
  bool out_bias = false;
  bool head_norms = false;  // each query and key head is normalised before the rotation
  std::string module = {};
  std::vector<std::string> qkv = {};  // one each, or one for all of them
  std::string out = {};

  int64_t q_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
};

struct GatedMlp {
  int64_t inner_width = 0;
  Activation activation = Activation::silu;
  bool bias = false;
  std::string module = {};
  std::vector<std::string> gate_and_up = {};  // one each, or one for both
  std::string down = {};
};

// x becomes x + norm_after(part(norm_before(x))); a norm without a name is none.
struct Block {
  std::string norm_before = {};
  std::string norm_after = {};
  std::variant<Attention, GatedMlp> part = {};
};

struct Layer {
  std::string module = {};  // its name in the files
  std::vector<Block> blocks = {};
};

// The first part of this kind, for what all layers have in common.
template <typename Part>
const Part& first_of(const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    for (const Block& block : layer.blocks) {
      if (const auto* part = std::get_if<Part>(&block.part)) {
        return *part;
      }
    }
  }
  static const Part kNone;
  return kNone;
}

}  // namespace snug
