// The pieces of forward programs.
#include "model/forward_builder.h"

#include <algorithm>

#include "ops/table.h"
#include "program/names.h"

namespace snug {
namespace {

// Folders saved from the bare model leave the "model." prefix out.
std::vector<std::string> file_names(const std::string& name) {
  constexpr std::string_view kPrefix = "model.";
  if (name.starts_with(kPrefix)) {
    return {name, name.substr(kPrefix.size())};
  }
  return {name};
}

}  // namespace

ForwardBuilder::ForwardBuilder(const ModelSpec& spec, const ForwardOptions& options)
    : spec_(spec),
      options_(options),
      builder_(options.program_name),
      tokens_{Extent::tokens, options.max_tokens},
      targets_{Extent::targets, options.max_tokens},
      sequences_{Extent::sequences, options.max_sequences},
      offsets_{Extent::offsets, options.max_sequences + 1} {}

BufferId ForwardBuilder::weight(const std::string& name, Dims dims, std::vector<std::string> other_names) {
  std::vector<std::string> names = file_names(name);
  names.insert(names.end(), other_names.begin(), other_names.end());
  int64_t rows = dims[0].max;
  return builder_.weight(name, options_.dtype, std::move(dims), {{std::move(names), 0, rows}});
}

BufferId ForwardBuilder::activation(std::string name, BufferId x, int64_t columns) {
  return builder_.temporary(std::move(name), options_.dtype, {builder_.buffer(x).dims[0], fixed(columns)});
}

BufferId ForwardBuilder::embed(BufferId table, BufferId ids, const std::string& name) {
  BufferId x = activation(name, ids, spec_.width);
  builder_.append(OpKind::embedding, name, {table, ids}, {x});
  return x;
}

BufferId ForwardBuilder::norm(BufferId x, const std::string& name, const std::string& weight_name) {
  BufferId w = weight(weight_name, {fixed(spec_.width)});
  BufferId y = activation(name, x, spec_.width);
  builder_.append(OpKind::rms_norm, name, {x, w}, {y},
                  NormAttributes{static_cast<float>(spec_.norm_epsilon)});
  return y;
}

BufferId ForwardBuilder::linear(BufferId x, const std::string& name,
                                const std::vector<Projection>& projections, bool bias) {
  std::vector<TensorPart> weight_parts;
  std::vector<TensorPart> bias_parts;
  int64_t rows = 0;
  for (const Projection& projection : projections) {
    weight_parts.push_back({file_names(projection.file_name + ".weight"), rows, projection.rows});
    bias_parts.push_back({file_names(projection.file_name + ".bias"), rows, projection.rows});
    rows += projection.rows;
  }
  Dim columns = builder_.buffer(x).dims[1];
  BufferId w =
      builder_.weight(name + ".weight", options_.dtype, {fixed(rows), columns}, std::move(weight_parts));
  std::vector<BufferId> inputs = {x, w};
  if (bias) {
    inputs.push_back(builder_.weight(name + ".bias", options_.dtype, {fixed(rows)}, std::move(bias_parts)));
  }
  BufferId y = activation(name, x, rows);
  builder_.append(OpKind::linear, name, std::move(inputs), {y}, LinearAttributes{});
  return y;
}

BufferId ForwardBuilder::add(BufferId a, BufferId b, const std::string& name) {
  BufferId sum = activation(name, a, spec_.width);
  builder_.append(OpKind::add, name, {a, b}, {sum});
  return sum;
}

// Streams of the adapters' dropout count from 1; the model's own are above them.
DropoutAttributes ForwardBuilder::next_dropout(double rate) {
  constexpr uint64_t kFirstStream = uint64_t{1} << 32;
  return {static_cast<float>(rate), kFirstStream + dropouts_++};
}

BufferId ForwardBuilder::dropped(BufferId x, std::optional<double> rate) {
  if (rate.value_or(0) <= 0) {
    return x;
  }
  std::string name = builder_.buffer(x).name + ".dropout";
  BufferId y = activation(name, x, builder_.buffer(x).dims[1].max);
  builder_.append(OpKind::dropout, name, {x, builder_.random_of(x)}, {y}, next_dropout(*rate));
  return y;
}

BufferId ForwardBuilder::append_attention(const AttentionInputs& inputs, const std::string& name,
                                          AttentionAttributes attributes) {
  BufferId mixed = activation(name, inputs.q, attributes.heads * attributes.head_dim);
  BufferId lse = builder_.temporary(name + ".lse", DType::f32,
                                    {builder_.buffer(inputs.q).dims[0], fixed(attributes.heads)});
  std::vector<BufferId> read = {inputs.q, inputs.kv, inputs.q_offsets, inputs.kv_offsets};
  double rate = options_.dropout.attention.value_or(0);
  if (inputs.bias != kNoBuffer || rate > 0) {
    read.push_back(inputs.bias);
  }
  if (rate > 0) {
    read.push_back(builder_.random_of(inputs.q));
    attributes.dropout = next_dropout(rate);
  }
  builder_.append(OpKind::attention, name, std::move(read), {mixed, lse}, attributes);
  return mixed;
}

void ForwardBuilder::append_goal(BufferId x, BufferId head) {
  if (options_.goal == Goal::loss) {
    append_loss(x, head);
  } else {
    append_logits(x, head);
  }
}

void ForwardBuilder::append_loss(BufferId x, BufferId head) {
  BufferId targets = builder_.input(kTargets, DType::i32, {targets_});
  BufferId rows = builder_.input(kTargetRows, DType::i32, {targets_});
  BufferId scale = builder_.input(kScale, DType::f32, {fixed(1)});
  BufferId loss = builder_.persistent(kLossSum, DType::f64, {fixed(1)}, Role::batch);
  int64_t chunk = std::min(options_.loss_chunk_tokens, options_.max_tokens);
  std::vector<BufferId> sums = {loss};
  if (options_.counts_hits) {
    sums.push_back(builder_.program().add_buffer({.name = kHits,
                                                  .format = DType::f64,
                                                  .dims = {fixed(1)},
                                                  .role = Role::batch,
                                                  .lifetime = Lifetime::phase}));
  }
  uint32_t all = (1U << sums.size()) - 1;
  builder_
      .append(OpKind::loss_head, "head", {x, head, targets, rows, scale}, std::move(sums),
              LossAttributes{chunk})
      .accumulates = all;
}

void ForwardBuilder::append_logits(BufferId x, BufferId head) {
  BufferId rows = builder_.input(kLastRows, DType::i32, {sequences_});
  BufferId last = builder_.temporary("last", options_.dtype, {sequences_, fixed(spec_.width)});
  builder_.append(OpKind::select_rows, "last", {x, rows}, {last});
  BufferId logits = builder_.temporary(kLogits, options_.dtype, {sequences_, fixed(spec_.vocabulary)});
  builder_.program().buffer(logits).lifetime = Lifetime::output;
  builder_.append(OpKind::linear, "head", {last, head}, {logits}, LinearAttributes{});
}

}  // namespace snug
