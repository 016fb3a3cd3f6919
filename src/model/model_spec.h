// The shape of a model, as its config.json gives it. No weights, no memory.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "model/dropout.h"
#include "model/layer.h"
#include "model/stored_codes.h"
#include "program/program.h"

namespace snug {

// Positions are relative, so that any length will do.
inline constexpr int64_t kUnlimitedPositions = int64_t{1} << 40;

struct ModelSpec {
  std::string family;        // "llama"
  std::string architecture;  // "LlamaForCausalLM"
  std::string source;        // the config's path, for messages
  int64_t vocabulary = 0;
  int64_t width = 0;           // hidden_size
  std::vector<Layer> encoder;  // none: a decoder-only model
  std::vector<Layer> decoder;
  int64_t max_positions = 0;
  double norm_epsilon = 1e-6;
  double initializer_range = 0.02;  // standard deviation of fresh weights
  bool tied_embeddings = false;
  int64_t decoder_start_id = 0;  // the token before the first of a decoder that follows an encoder
  // Last names of linear layers whose weights stay as they are where others become codes.
  std::vector<std::string> uncoded_modules;
  std::optional<StoredCodes> stored_codes;  // of a checkpoint that is quantised itself
  DropoutRates dropout;
  std::optional<DType> dtype;  // what the weights were saved as

  bool has_encoder() const { return !encoder.empty(); }
  int64_t all_layers() const { return std::ssize(encoder) + std::ssize(decoder); }
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
  bool counts_hits = false;       // of targets; not while it is trained
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
