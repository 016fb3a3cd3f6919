// The memory of transformers + PEFT. All figures are bytes a token unless they say otherwise; "kept" is what
// autograd saves for the backward pass.
#include "explain/python_stack.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compile/batch_limits.h"
#include "compile/coded_weights.h"
#include "compile/phases.h"
#include "recipe/effective_batch.h"

namespace snug {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
// The context, cuBLAS's workspaces and the kernels that PyTorch loads.
constexpr double kContextBytes = 1.05 * kGiB;
// Holes where the 16-bit weights were while they were quantised.
constexpr double kQuantisingHoles = 0.8 * kGiB;
// Logits in 16 bits, in fp32, their log-softmax and its gradient.
constexpr double kLossBytesOfLogit = 2 + 4 + 4 + 4;
constexpr double kNarrow = 2;  // of an element in 16 bits
constexpr double kWide = 4;

struct Shape {
  bool lora = false;
  bool coded = false;
  bool liger = false;
  bool is_t5 = false;
  double width = 0;
  double rank = 0;
  double keys = 0;          // that a query of this stack sees
  double source_keys = 0;   // that it sees of the encoder
  double source_ratio = 0;  // tokens of the encoder for each of its own
};

// PEFT casts the input of each adapted layer by itself, but for the 4-bit ones, which pass it on as it is;
// without adapters a layer keeps its input, which neighbours share.
bool copies_inputs(const Shape& shape) {
  return shape.lora && !shape.coded;
}

// The input in fp32, T5's as it was beside it; and what a trained scale is multiplied with.
double kept_of_norm(const Shape& shape) {
  double input = (shape.liger ? kNarrow : kWide) * shape.width;
  double as_it_was = shape.is_t5 ? kNarrow * shape.width : 0;
  return input + as_it_was + (shape.lora ? 0 : kNarrow * shape.width);
}

double kept_of(const Attention& attention, const Shape& shape) {
  auto q = static_cast<double>(attention.q_width());
  auto kv = static_cast<double>(attention.kv_width());
  auto heads = static_cast<double>(attention.heads);
  auto linears = static_cast<double>(attention.qkv.size());
  double kept = kNarrow * shape.width * (copies_inputs(shape) ? linears : 1);
  kept += shape.lora ? kNarrow * shape.rank * (linears + 1) : 0;
  if (attention.relative) {  // a trained bias: PyTorch's plain attention, in fp32, scores and all
    bool from_source = attention.sees == Sees::source;
    kept += kWide * q + 2 * kWide * kv * (from_source ? shape.source_ratio : 1);
    kept += kWide * heads * (from_source ? shape.source_keys : shape.keys);
    kept += kNarrow * q;
  } else {
    kept += 2 * kNarrow * q + 2 * kNarrow * kv + kWide * heads;  // q, k, v, the output and its sums
  }
  return kept + (copies_inputs(shape) ? kNarrow * q : 0);
}

double kept_of(const GatedMlp& mlp, const Shape& shape) {
  auto inner = static_cast<double>(mlp.inner_width);
  auto linears = static_cast<double>(mlp.gate_and_up.size());
  double kept = kNarrow * shape.width * (copies_inputs(shape) ? linears : 1) + kNarrow * inner;
  kept += shape.lora ? kNarrow * shape.rank * (linears + 1) : 0;
  // Gate, up and what the activation made of the gate; GELU is written out, and keeps each term.
  double kept_inner = mlp.activation == Activation::silu ? (shape.liger ? 2 : 3) : 6;
  return kept + kept_inner * kNarrow * inner;
}

double kept_of(const Layer& layer, const Shape& shape) {
  double kept = 0;
  for (const Block& block : layer.blocks) {
    kept += std::visit([&](const auto& part) { return kept_of(part, shape); }, block.part);
    kept += block.norm_before.empty() ? 0 : kept_of_norm(shape);
    kept += block.norm_after.empty() ? 0 : kept_of_norm(shape);
  }
  return kept;
}

// Of the linear layers of all blocks, which is what is quantised.
double linear_elements(const std::vector<Layer>& layers, double width) {
  double elements = 0;
  for (const Layer& layer : layers) {
    for (const Block& block : layer.blocks) {
      if (const auto* attention = std::get_if<Attention>(&block.part)) {
        elements += 2.0 * width * static_cast<double>(attention->q_width() + attention->kv_width());
      } else {
        elements += 3.0 * width * static_cast<double>(std::get<GatedMlp>(block.part).inner_width);
      }
    }
  }
  return elements;
}

// On the average, without what stands once a tensor.
double bytes_of_coded_element(const Format& format) {
  double scale = format.nested ? 1 + kWide / static_cast<double>(kNestedBlock) : kWide;
  double scales = format.block == 0 ? 0 : scale / format.block;
  return static_cast<double>(code_bits(format.coding)) / 8 + scales;
}

// Liger computes so many rows of logits at a time that they take no more than the hidden states.
double liger_loss_bytes(double tokens, double width, double vocabulary) {
  auto chunks = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(std::ceil(vocabulary / width))));
  return tokens * 2 * kNarrow * width + std::ceil(tokens / chunks) * vocabulary * (kNarrow + kWide);
}

// One stack of layers: how much is kept, and what the largest layer takes when it is computed again.
struct StackBytes {
  double kept = 0;
  double largest_layer = 0;

  void add(const std::vector<Layer>& layers, double tokens, const Shape& shape, bool checkpointing) {
    for (const Layer& layer : layers) {
      double all = tokens * kept_of(layer, shape);
      kept += checkpointing ? tokens * kNarrow * shape.width : all;
      largest_layer = std::max(largest_layer, all);
    }
  }
};

}  // namespace

std::string PythonStack::name() const {
  std::string text = checkpointing ? "gradient checkpointing" : "activations kept";
  text += liger ? ", Liger" : "";
  return text + (fp32_weights ? ", loaded in fp32" : "");
}

PythonStackUse python_stack_use(const Recipe& recipe, const ModelSpec& spec, const Plan& plan,
                                const PythonStack& stack) {
  Format format = weight_format(recipe.model.quantization, spec);
  bool lora = recipe.lora.has_value();
  auto width = static_cast<double>(spec.width);
  auto vocabulary = static_cast<double>(spec.vocabulary);
  auto sequences = static_cast<double>(
      recipe.training.per_device_train_batch_size.value_or(effective_batch(recipe.training)));
  auto length = static_cast<double>(decoder_length(recipe, spec.has_encoder()));
  auto source_length = static_cast<double>(spec.has_encoder() ? recipe.data.max_length : 0);
  double tokens = sequences * length;

  Shape shape{.lora = lora,
              .coded = format.is_coded(),
              .liger = stack.liger,
              .is_t5 = spec.has_encoder(),
              .width = width,
              .rank = lora ? static_cast<double>(recipe.lora->r) : 0,
              .keys = length,
              .source_keys = source_length,
              .source_ratio = source_length / length};
  StackBytes layers;
  layers.add(spec.decoder, tokens, shape, stack.checkpointing);
  shape.keys = source_length;
  layers.add(spec.encoder, sequences * source_length, shape, stack.checkpointing);

  auto parameters = static_cast<double>(plan.parameters);
  auto trained = static_cast<double>(plan.trainable_parameters);
  double coded =
      format.is_coded() ? linear_elements(spec.decoder, width) + linear_elements(spec.encoder, width) : 0;
  double weight_bytes = stack.fp32_weights ? kWide : kNarrow;
  double weights =
      (parameters - coded) * weight_bytes + coded * (format.is_coded() ? bytes_of_coded_element(format) : 0);
  // PEFT's adapters are fp32; what is trained itself has moments and gradients like its weights.
  double state_bytes = lora ? 3 * kWide : 2 * weight_bytes;
  double gradients = trained * (lora ? kWide : weight_bytes);

  double loss =
      stack.liger ? liger_loss_bytes(tokens, width, vocabulary) : tokens * vocabulary * kLossBytesOfLogit;
  // In the backward pass, a layer at a time is computed again, beside gradients on their way through its MLP.
  auto inner = static_cast<double>(first_of<GatedMlp>(spec.decoder).inner_width);
  double through = std::max(tokens, sequences * source_length) * (3 * kNarrow * inner + 2 * kWide * width);
  double again = stack.checkpointing ? layers.largest_layer : 0;
  double done_gradients = stack.checkpointing || !lora ? gradients : 0;
  bool loss_is_peak =
      layers.kept + loss >= (stack.checkpointing ? layers.kept : 0) + again + through + done_gradients;
  bool keeps_all_at_end = stack.checkpointing || loss_is_peak;

  PythonStackUse use{.stack = stack};
  use.weights = static_cast<int64_t>(weights);
  use.states = static_cast<int64_t>(trained * state_bytes);
  use.overhead = static_cast<int64_t>(kContextBytes + (format.is_coded() ? kQuantisingHoles : 0));
  use.activations =
      static_cast<int64_t>((keeps_all_at_end ? layers.kept : 0) + (loss_is_peak ? 0 : again + through));
  use.loss = static_cast<int64_t>(loss_is_peak ? loss : 0);
  use.gradients = static_cast<int64_t>(loss_is_peak ? 0 : done_gradients);
  return use;
}

std::vector<PythonStackUse> usual_python_stacks(const Recipe& recipe, const ModelSpec& spec,
                                                const Plan& plan) {
  std::vector<PythonStackUse> uses;
  for (bool checkpointing : {false, true}) {
    for (bool liger : {false, true}) {
      if (!liger || !spec.has_encoder()) {
        uses.push_back(python_stack_use(recipe, spec, plan, {checkpointing, liger, false}));
      }
    }
  }
  if (!weight_format(recipe.model.quantization, spec).is_coded()) {
    uses.push_back(python_stack_use(recipe, spec, plan, {true, false, true}));
  }
  return uses;
}

}  // namespace snug
