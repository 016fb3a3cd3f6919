// The shape of a model, as its config.json gives it. No weights, no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/dropout.h"
#include "program/program.h"

namespace snug {

// How the rotary frequencies are stretched beyond the length that the model was first trained for.
struct RopeScaling {
  enum class Kind { none, linear, llama3, dynamic };
  Kind kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;  // llama3
  double high_frequency_factor = 4;
  int64_t original_positions = 0;  // llama3, dynamic
};

// Positions are relative, so that any length will do.
inline constexpr int64_t kUnlimitedPositions = int64_t{1} << 40;

struct ModelSpec {
  std::string family;        // "llama"
  std::string architecture;  // "LlamaForCausalLM"
  std::string source;        // the config's path, for messages
  int64_t vocabulary = 0;
  int64_t width = 0;           // hidden_size
  int64_t layers = 0;          // of the decoder
  int64_t encoder_layers = 0;  // 0: a decoder-only model
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t inner_width = 0;  // intermediate_size
  int64_t max_positions = 0;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double initializer_range = 0.02;  // standard deviation of fresh weights
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool tied_embeddings = false;
  bool fused_projections = false;  // the files hold q, k, v as one matrix, and gate, up as another
  bool head_norms = false;         // each query and key head is normalised before the rotation
  std::vector<int64_t> windows;    // by layer: how far back attention sees, 0 for all; empty: all of all
  int64_t relative_buckets = 0;    // of the attention bias by distance; 0: none
  int64_t relative_max_distance = 0;
  int64_t decoder_start_id = 0;  // the token before the first of a decoder that follows an encoder
  DropoutRates dropout;
  std::optional<DType> dtype;  // what the weights were saved as

  bool has_encoder() const { return encoder_layers > 0; }
  int64_t all_layers() const { return encoder_layers + layers; }
};

enum class Goal {
  loss,    // cross-entropy of every position against its target
  logits,  // of the last position of each sequence
};

// Sizes of the forward program to build: everything that is not the model itself.
struct ForwardOptions {
  std::string program_name = "forward";
  Goal goal = Goal::loss;
  DType dtype = DType::f32;
  int64_t max_tokens = 0;         // in a micro-batch
  int64_t max_source_tokens = 1;  // in a micro-batch, of the encoder if there is one
  int64_t max_sequences = 0;      // in a micro-batch
  int64_t max_length_tokens = 0;  // of one sequence
  int64_t loss_chunk_tokens = 0;  // 0: chosen
  DropoutRates dropout = {};      // nothing but for training
};

// Reads config.json's text; throws bad_input naming the key, and lists what is supported.
ModelSpec parse_model_config(std::string_view text, const std::string& path);
Program build_forward(const ModelSpec& spec, const ForwardOptions& options);

// Parameters of the model's own weights (constants such as frequencies are none).
int64_t count_parameters(const Program& program);
// Elements of all trainable buffers.
int64_t count_trainable(const Program& program);

}  // namespace snug
