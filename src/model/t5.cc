// The T5 family (v1.1, FLAN-T5, mT5): an encoder, and a decoder that attends to it; relative positions in
// buckets whose biases all layers of a stack share; attention without scaling.
#include <fmt/format.h>

#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "model/config_keys.h"
#include "model/family.h"
#include "model/stack_builder.h"
#include "ops/table.h"
#include "program/names.h"

namespace snug {
namespace {

void require_gated_gelu(const Json& config, const std::string& path) {
  std::string kind = json_string(config, "feed_forward_proj", "relu", path);
  if (kind != "gated-gelu") {
    throw bad_input(
        fmt::format("{}: \"feed_forward_proj\" is \"{}\", as in the first T5; supported is \"gated-gelu\": "
                    "T5 v1.1, FLAN-T5 "
                    "and mT5 have it (google/t5-v1_1-base or google/flan-t5-base are the same sizes)",
                    path, kind));
  }
}

// The first T5 scales what its head reads. Configs written by transformers 5 say "tie_word_embeddings": true
// for all, and tell the two apart by another key; mT5 never scales.
void require_unscaled_head(const Json& config, const std::string& path) {
  bool tied = json_bool(config, "tie_word_embeddings", true, path);
  if (config["model_type"] != "mt5" && json_bool(config, "scale_decoder_outputs", tied, path)) {
    throw bad_input(
        fmt::format("{}: the head reads scaled values, as in the first T5 (\"tie_word_embeddings\" is not "
                    "false, and there "
                    "is no \"scale_decoder_outputs\": false); supported are T5 v1.1, FLAN-T5 and mT5",
                    path));
  }
}

RelativePositions read_positions(const Json& config, const std::string& path) {
  RelativePositions relative{.buckets = size_key(config, "relative_attention_num_buckets", path),
                             .max_distance = size_key(config, "relative_attention_max_distance", path)};
  if (relative.buckets < 4 || relative.buckets % 2 != 0 || relative.max_distance <= relative.buckets / 2) {
    throw bad_input(
        fmt::format("{}: {} relative buckets up to distance {} cannot be laid out: expected an even number "
                    "of at least 4, "
                    "and a distance of more than half of it",
                    path, relative.buckets, relative.max_distance));
  }
  return relative;
}

// The files number the parts of a block.
Block numbered(size_t number, std::variant<Attention, GatedMlp> part) {
  std::visit([&](auto& one) { one.module = fmt::format("{}.{}", number, one.module); }, part);
  return {.norm_before = fmt::format("{}.layer_norm", number), .part = std::move(part)};
}

std::vector<Layer> list_layers(const char* stack, int64_t count,
                               const std::vector<std::variant<Attention, GatedMlp>>& parts) {
  std::vector<Layer> layers;
  for (int64_t i = 0; i < count; ++i) {
    Layer layer{.module = fmt::format("{}.block.{}.layer.", stack, i)};
    for (size_t number = 0; number < parts.size(); ++number) {
      layer.blocks.push_back(numbered(number, parts[number]));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

void read_layers(const Json& config, const std::string& path, ModelSpec& spec) {
  Attention around{.sees = Sees::all,
                   .heads = size_key(config, "num_heads", path),
                   .head_dim = size_key(config, "d_kv", path),
                   .relative = read_positions(config, path),
                   .module = "SelfAttention",
                   .qkv = {"q", "k", "v"},
                   .out = "o"};
  around.kv_heads = around.heads;
  Attention before = around;
  before.sees = Sees::before;
  Attention across = around;
  across.sees = Sees::source;
  across.relative.reset();
  across.module = "EncDecAttention";
  GatedMlp mlp{.inner_width = size_key(config, "d_ff", path),
               .activation = Activation::gelu_tanh,
               .module = "DenseReluDense",
               .gate_and_up = {"wi_0", "wi_1"},
               .down = "wo"};
  int64_t layers = layers_key(config, "num_layers", path);
  int64_t decoder_layers =
      config["num_decoder_layers"].is_null() ? layers : layers_key(config, "num_decoder_layers", path);
  spec.encoder = list_layers("encoder", layers, {around, mlp});
  spec.decoder = list_layers("decoder", decoder_layers, {before, across, mlp});
}

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  require_gated_gelu(config, path);
  require_unscaled_head(config, path);
  spec.vocabulary = size_key(config, "vocab_size", path);
  spec.width = size_key(config, "d_model", path);
  read_layers(config, path, spec);
  spec.norm_epsilon = positive_key(config, "layer_norm_epsilon", path);
  spec.tied_embeddings = json_bool(config, "tie_word_embeddings", true, path);
  spec.uncoded_modules = {"wo"};  // Hugging Face keeps it: its inputs are large
  double rate = dropout_key(config, "dropout_rate", 0.1, path);
  spec.dropout = {rate, rate, rate, rate, rate};
  spec.max_positions = kUnlimitedPositions;
  spec.decoder_start_id =
      json_integer(config, "decoder_start_token_id", json_integer(config, "pad_token_id", 0, path), path);
  if (spec.decoder_start_id < 0 || spec.decoder_start_id >= spec.vocabulary) {
    throw bad_input(fmt::format("{}: \"decoder_start_token_id\" is {}, outside the vocabulary of {}", path,
                                spec.decoder_start_id, spec.vocabulary));
  }
}

class T5Builder : StackBuilder {
 public:
  using StackBuilder::StackBuilder;

  Program build() {
    Dim source_tokens{Extent::source_tokens, options_.max_source_tokens};
    BufferId source_ids = builder_.input(kSourceIds, DType::i32, {source_tokens});
    StackInputs encoder{.name = "encoder"};
    encoder.offsets = builder_.input(kSourceOffsets, DType::i32, {offsets_});
    BufferId ids = builder_.input(kIds, DType::i32, {tokens_});
    StackInputs decoder{.name = "decoder"};
    decoder.offsets = builder_.input(kOffsets, DType::i32, {offsets_});
    Dims vocabulary_dims = {fixed(spec_.vocabulary), fixed(spec_.width)};
    std::vector<std::string> other_names = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    if (spec_.tied_embeddings) {
      other_names.emplace_back("lm_head.weight");
    }
    BufferId table = weight("shared.weight", vocabulary_dims, std::move(other_names));

    decoder.source = run(encoder, embed(table, source_ids, "encoder.embedding"), spec_.encoder);
    decoder.source_offsets = encoder.offsets;
    BufferId decoded = run(decoder, embed(table, ids, "decoder.embedding"), spec_.decoder);
    append_goal(decoded, spec_.tied_embeddings ? table : weight("lm_head.weight", vocabulary_dims));
    Program program = builder_.finish();
    verify_with_shapes(program);
    return program;
  }

 private:
  BufferId run(StackInputs& stack, BufferId x, const std::vector<Layer>& layers) {
    const auto& first = first_of<Attention>(layers);
    stack.relative_bias = weight(stack.name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                                 {fixed(first.relative->buckets), fixed(first.heads)});
    x = dropped(x, options_.dropout.embedding);
    x = append_layers(layers, stack, x);
    BufferId normed = norm(x, stack.name + ".final_norm", stack.name + ".final_layer_norm.weight");
    return dropped(normed, options_.dropout.output);
  }
};

Program build_t5(const ModelSpec& spec, const ForwardOptions& options) {
  if (options.dtype == DType::f16) {
    throw bad_input(fmt::format(
        "{}: T5's activations exceed what fp16 can hold, and training turns to NaN; set model.dtype to bf16 "
        "(or fp32 where the card has no bf16)",
        spec.source));
  }
  return T5Builder(spec, options).build();
}

}  // namespace

const Family kT5Family = {"t5",
                          {{"T5ForConditionalGeneration", "t5"}, {"MT5ForConditionalGeneration", "mt5"}},
                          read_config,
                          build_t5};

}  // namespace snug
