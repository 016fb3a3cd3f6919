// Ops: what a program does, one after the other. An op says what; the tables say how.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace snug {

using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

// Every kind has one row in the op table (ops/table.h) and one kernel per backend. Operands of ops with more
// than three have names (program/operands.h). Shapes: T tokens, R of them with a target, S sequences, D model
// width, V vocabulary, r rank; "?" marks what may be absent, "+=" what is added to. Matrices are row-major; a
// weight W is [outputs, inputs] as in Hugging Face's files.
enum class OpKind : uint8_t {
  embedding,                  // table[V,D], ids[T] -> y[T,D]
  embedding_backward,         // ids[T], dy[T,D] -> dtable[V,D] +=
  rms_norm,                   // x[T,D], w[D] -> y[T,D]
  rms_norm_backward,          // x[T,D], w[D], dy[T,D] -> dx[T,D] (= or +=)?, dw[D]? +=
  add_rms_norm,               // a[T,D], b[T,D], w[D] -> sum[T,D], y[T,D] = norm(sum)
  head_norm,                  // x[T,C], wq[hd], wk[hd] -> y[T,C]: rms_norm of each query and key head
  head_norm_backward,         // x[T,C], wq[hd], wk[hd], dy[T,C] -> dx[T,C], dwq[hd]? +=, dwk[hd]? +=
  head_norm_rope,             // x[T,C], wq[hd], wk[hd], positions[T], inverse_frequencies[hd/2] -> y[T,C]:
                              //   rope of head_norm
  head_norm_rope_backward,    // x[T,C], wq[hd], wk[hd], dy[T,C], positions[T], inverse_frequencies[hd/2]
                              //   -> dx[T,C], dwq[hd]? +=, dwk[hd]? +=
  linear,                     // x[T,in], W[out,in], bias[out]?, xa[T,parts*r]?, B[out,r]? -> y[T,out]
                              //   (= or +=); xa and B: of an adapter, whose share y begins with
  linear_backward_input,      // dy[T,out], W[out,in], dxa[T,parts*r]?, A[parts*r,in]? -> dx[T,in] (= or +=)
  linear_backward_weight,     // dy[T,out], x[T,in] -> dW[out,in]? +=, dbias[out]? +=
  lora_up,                    // xa[T,parts*r], B[sum of parts' rows,r] -> y[T,out] (= or +=)
  lora_up_backward,           // dy[T,out], xa?, B? -> dxa[T,parts*r]? (= or +=), of B; dB? +=, of xa
  rope,                       // x[T,C], positions[T], inverse_frequencies[head_dim/2] -> y[T,C]
  attention,                  // q[T,Cq], kv[Tk,Ckv], q_offsets[S+1], kv_offsets[S+1], bias[buckets,H]?,
                              //   random[3]? -> o[T,H*hd], lse[T,H]
  attention_backward,         // q, kv, q_offsets, kv_offsets, o, lse, do, bias?, random?
                              //   -> dq[T,Cq], dkv[Tk,Ckv], dbias[buckets,H]? +=
  gated_activation,           // x[T,2F] (gate, then up) -> y[T,F] = f(gate) * up
  gated_activation_backward,  // x[T,2F], dy[T,F] -> dx[T,2F] [, y[T,F]: made again]
  gated_linear,               // the inputs of linear -> xw[T,2F] (= or +=), y[T,F]? = f(gate) * up
  gated_linear_backward,      // x[T,2F], dgated[T,F]? ~, the inputs of linear_backward_input -> dx[T,2F]
                              //   [, y[T,F]: made again]: gated_activation_backward of (dgated +) dy W
  add,                        // a, b -> a + b
  dropout,                    // x[T,C], random[3] = seed, step, first token -> y[T,C] (= or +=)
  loss_head,                  // x[T,D], W[V,D], targets[R], rows[R], scale[1] -> loss_sum[1] +=, hits[1]? +=
  loss_head_gradient,         // x[T,D], W[V,D], targets[R], rows[R], scale[1] -> loss_sum[1] +=, dx[T,D]?,
                              //   dW[V,D]? +=
  select_rows,                // x[T,D], rows[S] -> y[S,D]
  cache_write,                // x[T,C], slots[T] -> cache[.,Cc]: row slots[t] = columns of x[t]
  copy,                       // x -> y, converting the dtype
  fill,                       // -> each output = value
  scale_loss,                 // share[1], clock[4] -> scale[1] = share * the loss scale
  gradient_norm,              // gradients... -> norm[1]
  close_step,                 // learning_rates[steps], norm[1] -> clock[4], scalars[4], loss_sum[1] = 0,
                              //   history[steps,3]: one row is written
  adamw,       // gradients (n), scalars[4], norm[1], random[2]? = seed, step -> parameters (n),
               //   first moments (n), second moments (n), compute copies or rests (n)?
  adamw_8bit,  // gradients (n), scalars[4], norm[1], random[2] = seed, step, maps[2,256] -> parameters (n),
               //   first moments (n) and second moments (n), both codes, compute copies (n)?
  adafactor,  // gradients (n), scalars[4], norm[1], clock[4], random[2]? = seed, step -> parameters (n), mean
              //   squares (n), compute copies or rests (n)?
};
inline constexpr int kOpKindCount = static_cast<int>(OpKind::adafactor) + 1;

// Attributes: the numbers that an op needs beyond its buffers. One struct per family of kinds.
struct NormAttributes {
  float epsilon = 1e-6F;
};

// The first q_heads heads of a row are queries, the next k_heads keys; what follows is copied.
struct HeadNormAttributes {
  int64_t q_heads = 0;
  int64_t k_heads = 0;
  float epsilon = 1e-6F;
  float magnitude = 1.0F;  // of the heads that head_norm_rope rotates: all that it normalises
};

// Columns of y that one adapted linear layer owns, and where its B lies in the stacked B buffer.
struct LoraPart {
  int64_t y_column = 0;
  int64_t b_row = 0;
  int64_t rows = 0;  // outputs of that layer

  bool operator==(const LoraPart&) const = default;
};
struct LoraAttributes {
  float scale = 1.0F;
  int64_t rank = 0;
  std::vector<LoraPart> parts;  // part i reads columns [i * rank, (i + 1) * rank) of the down product
};

struct LinearAttributes {
  float scale = 1.0F;           // y = scale * x W^T (+ bias)
  LoraAttributes adapter = {};  // of the share that y begins with, if it does
};

// Up to here both gradients of an up product may be made of one reading of dy: the bits of one then depend on
// whether the other is made with it. Beyond they do not.
inline constexpr int64_t kSmallRank = 32;

struct RopeAttributes {
  int64_t rotated_heads = 0;  // heads at the front of each row that are rotated (queries, then keys)
  int64_t head_dim = 0;
  float magnitude = 1.0F;  // of the rotated vectors (some long-context scalings change it)
  bool inverse = false;    // the gradient rotates back
};

// Which elements are dropped is said in backend/dropout_mask.h.
struct DropoutAttributes {
  float probability = 0;
  uint64_t stream = 0;  // one per place in the model, so that masks differ
};

struct AttentionAttributes {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t q_column = 0;  // where queries, keys and values start within their buffers' rows
  int64_t k_column = 0;
  int64_t v_column = 0;
  float scale = 1.0F;
  bool causal = true;
  int64_t window = 0;  // a query sees this many keys back, itself included; 0: all
  // With a bias input: a score gets the bias of the bucket into which its key's distance falls
  // (backend/relative_bucket.h).
  int64_t relative_buckets = 0;
  int64_t relative_max_distance = 0;
  bool bidirectional_buckets = false;  // keys before and after the query have buckets of their own
  DropoutAttributes dropout = {};      // of the softmax's weights; with a random input
};

enum class Activation : uint8_t { silu, gelu_tanh, gelu };
struct GateAttributes {
  Activation activation = Activation::silu;
};

// Of a product and the gated activation behind it.
struct GatedLinearAttributes {
  LinearAttributes product = {};
  GateAttributes gate = {};
};

struct LossAttributes {
  int64_t chunk_tokens = 0;  // rows of logits held at once; 0: as the backend likes it
};

struct CacheAttributes {
  int64_t source_column = 0;  // the columns [source_column, source_column + columns of the cache) are kept
};

struct FillAttributes {
  float value = 0;
};

// Loss scaling and the counts that the bias corrections need (program/step_clock.h).
struct StepAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  bool scales_loss = false;
};

// What each parameter of an update has beside it, so that changes too small for 16 bits are not lost.
enum class Beside : uint8_t {
  nothing,       // it is fp32, or bf16 and rounded stochastically
  compute_copy,  // it is fp32, and the copy of 16 bits that is computed with is rounded from it
  rest,  // it is bf16 and computed with; both are the two halves of an fp32 number (base/split_float.h)
};

// Moments in bf16 are rounded stochastically, by random, and so are parameters that have no rest.
struct AdamwAttributes {
  double beta1 = 0.9;
  double beta2 = 0.999;
  float epsilon = 1e-8F;
  float max_norm = 0;               // clip the global gradient norm to this; 0: no clipping
  std::vector<float> weight_decay;  // one per parameter buffer
  Beside beside = Beside::nothing;
};

// One tensor of the file within a parameter of adafactor. Mean squares of a matrix are kept by rows and
// columns, those of a vector element by element.
struct FactoredTensor {
  size_t parameter = 0;
  int64_t first_element = 0;  // within the parameter
  int64_t first_state = 0;    // within its mean squares: rows, and then columns
  int64_t rows = 0;           // of a vector: its elements
  int64_t columns = 0;        // 0: a vector

  constexpr bool is_matrix() const { return columns > 0; }
  constexpr int64_t row_length() const { return columns > 0 ? columns : 1; }
  constexpr int64_t elements() const { return rows * row_length(); }
  constexpr int64_t states() const { return rows + columns; }
};
struct AdafactorAttributes {
  float max_norm = 0;               // clip the global gradient norm to this; 0: no clipping
  std::vector<float> weight_decay;  // one per parameter buffer
  std::vector<FactoredTensor> tensors;
  Beside beside = Beside::nothing;
};

using Attributes = std::variant<std::monostate, NormAttributes, HeadNormAttributes, LinearAttributes,
                                LoraAttributes, RopeAttributes, AttentionAttributes, GateAttributes,
                                GatedLinearAttributes, DropoutAttributes, LossAttributes, CacheAttributes,
                                FillAttributes, StepAttributes, AdamwAttributes, AdafactorAttributes>;

// What an op does with one of its operands. Who checks, places, recomputes, moves or saves buffers lives on
// this one fact; the op table says it (ops/effects.h).
enum class Effect : uint8_t {
  read,    // its content is needed, and stays as it is
  write,   // all of it is written, whatever was there before
  add,     // its content is needed, and added to
  update,  // its content is needed, and some or all of it changed
};
constexpr bool needs_content(Effect effect) {
  return effect != Effect::write;
}
constexpr bool changes(Effect effect) {
  return effect != Effect::read;
}

// The forward layer an op belongs to, for per-layer policies; outside the layers: kNoLayer.
inline constexpr int kNoLayer = -1;

struct Op {
  OpKind kind = OpKind::copy;
  std::vector<BufferId> inputs = {};   // kNoBuffer for an optional input that is absent
  std::vector<BufferId> outputs = {};  // kNoBuffer likewise
  uint32_t accumulates = 0;            // bit i: outputs[i] is added to (+=) instead of written (=)
  uint32_t begins = 0;  // bit i: the first to add to outputs[i], it writes where a step's sums begin
  Attributes attributes = {};
  std::string name = {};  // the place in the model, e.g. "layers.3.mlp.down"
  int layer = kNoLayer;
  bool is_backward = false;  // belongs to the gradient computation (ops made again for it included)
  BufferId workspace = kNoBuffer;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != kNoBuffer; }
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i] != kNoBuffer; }
  bool accumulates_output(size_t i) const { return i < 32 && (accumulates >> i & 1U) != 0; }
};

template <typename T>
const T& attributes_of(const Op& op) {
  return std::get<T>(op.attributes);
}

}  // namespace snug
