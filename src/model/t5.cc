// The T5 family (v1.1, FLAN-T5, mT5): an encoder, and a decoder that attends to it; relative positions in
// buckets whose biases all layers of a stack share; attention without scaling.
#include <fmt/format.h>

#include "base/error.h"
#include "model/config_keys.h"
#include "model/family.h"
#include "model/forward_builder.h"
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

void read_config(const Json& config, const std::string& path, ModelSpec& spec) {
  require_gated_gelu(config, path);
  require_unscaled_head(config, path);
  spec.vocabulary = size_key(config, "vocab_size", path);
  spec.width = size_key(config, "d_model", path);
  spec.head_dim = size_key(config, "d_kv", path);
  spec.heads = size_key(config, "num_heads", path);
  spec.kv_heads = spec.heads;
  spec.inner_width = size_key(config, "d_ff", path);
  spec.encoder_layers = layers_key(config, "num_layers", path);
  spec.layers = config["num_decoder_layers"].is_null() ? spec.encoder_layers
                                                       : layers_key(config, "num_decoder_layers", path);
  spec.norm_epsilon = positive_key(config, "layer_norm_epsilon", path);
  spec.relative_buckets = size_key(config, "relative_attention_num_buckets", path);
  spec.relative_max_distance = size_key(config, "relative_attention_max_distance", path);
  spec.tied_embeddings = json_bool(config, "tie_word_embeddings", true, path);
  if (spec.relative_buckets < 4 || spec.relative_buckets % 2 != 0 ||
      spec.relative_max_distance <= spec.relative_buckets / 2) {
    throw bad_input(
        fmt::format("{}: {} relative buckets up to distance {} cannot be laid out: expected an even number "
                    "of at least 4, "
                    "and a distance of more than half of it",
                    path, spec.relative_buckets, spec.relative_max_distance));
  }
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

// What differs between the two stacks.
struct Stack {
  std::string name;  // "encoder" or "decoder", in the files as well
  BufferId offsets = kNoBuffer;
  bool causal = false;
};

class T5Builder : ForwardBuilder {
 public:
  using ForwardBuilder::ForwardBuilder;

  Program build() {
    Dim source_tokens{Extent::source_tokens, options_.max_source_tokens};
    BufferId source_ids = builder_.input(kSourceIds, DType::i32, {source_tokens});
    source_offsets_ = builder_.input(kSourceOffsets, DType::i32, {offsets_});
    BufferId ids = builder_.input(kIds, DType::i32, {tokens_});
    BufferId target_offsets = builder_.input(kOffsets, DType::i32, {offsets_});
    Dims vocabulary_dims = {fixed(spec_.vocabulary), fixed(spec_.width)};
    std::vector<std::string> other_names = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    if (spec_.tied_embeddings) {
      other_names.emplace_back("lm_head.weight");
    }
    BufferId table = weight("shared.weight", vocabulary_dims, std::move(other_names));

    Stack encoder{"encoder", source_offsets_, false};
    encoded_ = run(encoder, embed(table, source_ids, "encoder.embedding"), spec_.encoder_layers);
    Stack decoder{"decoder", target_offsets, true};
    BufferId decoded = run(decoder, embed(table, ids, "decoder.embedding"), spec_.layers);
    append_goal(decoded, spec_.tied_embeddings ? table : weight("lm_head.weight", vocabulary_dims));
    Program program = builder_.finish();
    verify_with_shapes(program);
    return program;
  }

 private:
  int64_t attention_width() const { return spec_.heads * spec_.head_dim; }

  BufferId run(const Stack& stack, BufferId x, int64_t layers) {
    BufferId bias = weight(stack.name + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                           {fixed(spec_.relative_buckets), fixed(spec_.heads)});
    x = dropped(x, options_.dropout.embedding);
    for (int64_t layer = 0; layer < layers; ++layer) {
      builder_.set_layer(next_layer_++);
      x = block(stack, x, bias, layer);
    }
    builder_.set_layer(kNoLayer);
    BufferId normed = norm(x, stack.name + ".final_norm", stack.name + ".final_layer_norm.weight");
    return dropped(normed, options_.dropout.output);
  }

  BufferId block(const Stack& stack, BufferId x, BufferId bias, int64_t layer) {
    std::string name = fmt::format("{}.{}.", stack.name, layer);
    std::string block_file = fmt::format("{}.block.{}.layer.", stack.name, layer);
    int part = 0;  // the files number the parts of a block
    auto next_part = [&] { return fmt::format("{}{}.", block_file, part++); };

    std::string file = next_part();
    BufferId normed = norm(x, name + "attention_norm", file + "layer_norm.weight");
    BufferId mixed = self_attention(stack, normed, bias, name, file + "SelfAttention.");
    x = add(x, dropped(mixed, options_.dropout.residual), name + "attention_sum");
    if (stack.causal) {
      file = next_part();
      normed = norm(x, name + "cross_norm", file + "layer_norm.weight");
      mixed = cross_attention(stack, normed, name, file + "EncDecAttention.");
      x = add(x, dropped(mixed, options_.dropout.residual), name + "cross_sum");
    }
    file = next_part();
    normed = norm(x, name + "mlp_norm", file + "layer_norm.weight");
    file += "DenseReluDense.";
    BufferId changed =
        gated_mlp(normed, name, {{file + "wi_0", spec_.inner_width}, {file + "wi_1", spec_.inner_width}},
                  {file + "wo", spec_.width}, Activation::gelu_tanh);
    return add(x, dropped(changed, options_.dropout.residual), name + "mlp_sum");
  }

  BufferId self_attention(const Stack& stack, BufferId x, BufferId bias, const std::string& name,
                          const std::string& file) {
    int64_t width = attention_width();
    BufferId qkv = linear(x, name + "qkv", {{file + "q", width}, {file + "k", width}, {file + "v", width}});
    AttentionAttributes attributes{.heads = spec_.heads,
                                   .kv_heads = spec_.heads,
                                   .head_dim = spec_.head_dim,
                                   .k_column = width,
                                   .v_column = 2 * width,
                                   .causal = stack.causal,
                                   .relative_buckets = spec_.relative_buckets,
                                   .relative_max_distance = spec_.relative_max_distance,
                                   .bidirectional_buckets = !stack.causal};
    BufferId mixed =
        attention({qkv, qkv, stack.offsets, stack.offsets, bias}, name + "attention", attributes);
    return linear(mixed, name + "attention_out", {{file + "o", spec_.width}});
  }

  BufferId cross_attention(const Stack& stack, BufferId x, const std::string& name, const std::string& file) {
    int64_t width = attention_width();
    BufferId q = linear(x, name + "cross_q", {{file + "q", width}});
    BufferId kv = linear(encoded_, name + "cross_kv", {{file + "k", width}, {file + "v", width}});
    AttentionAttributes attributes{.heads = spec_.heads,
                                   .kv_heads = spec_.heads,
                                   .head_dim = spec_.head_dim,
                                   .v_column = width,
                                   .causal = false};
    BufferId mixed = attention({q, kv, stack.offsets, source_offsets_}, name + "cross_attention", attributes);
    return linear(mixed, name + "cross_out", {{file + "o", spec_.width}});
  }

  BufferId source_offsets_ = kNoBuffer;
  BufferId encoded_ = kNoBuffer;
  int next_layer_ = 0;
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
