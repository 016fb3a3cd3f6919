// attention_backward: the probabilities are made again from the kept log-sum-exp, block by block.
//   P = exp(scale * q k^T + bias - lse), dv = (M * P)^T do, dP = M * do v^T, dS = P * (dP - rowsum(do * o)),
//   with the factors M of the dropout, or 1,
//   dq = scale * dS k, dk = scale * dS^T q, dbias[bucket] = sum of dS at the bucket's distances
#include "backend/cpu/attention_blocks.h"
#include "backend/cpu/fast_math.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "base/threads.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

using In = AttentionBackwardInput;
using Out = AttentionBackwardOutput;

// What one thread works in. Copies of inputs exist only for bf16.
struct Block {
  float* probabilities = nullptr;  // [kQueryBlock, kKeyBlock]
  float* dscores = nullptr;        // [kQueryBlock, kKeyBlock]
  float* dquery = nullptr;         // [kQueryBlock, head_dim]
  float* delta = nullptr;          // [kQueryBlock]: rowsum(do * o)
  float* bias = nullptr;           // [kBlockDistances], and then its gradient
  float* query = nullptr;          // [kQueryBlock, head_dim]
  float* output = nullptr;         // [kQueryBlock, head_dim]
  float* doutput = nullptr;        // [kQueryBlock, head_dim]
  float* key = nullptr;            // [kKeyBlock, head_dim]
  float* value = nullptr;          // [kKeyBlock, head_dim]
};

int64_t block_bytes(int64_t head_dim, DType dtype) {
  int64_t queries = padded_bytes_of<float>(kQueryBlock * head_dim);
  int64_t bytes = 2 * padded_bytes_of<float>(kQueryBlock * kKeyBlock) + queries +
                  padded_bytes_of<float>(kQueryBlock) + padded_bytes_of<float>(kBlockDistances);
  if (dtype != DType::f32) {
    bytes += 3 * queries + 2 * padded_bytes_of<float>(kKeyBlock * head_dim);
  }
  return bytes;
}

Block take_block(Scratch scratch, int64_t head_dim, DType dtype) {
  Block block;
  block.probabilities = scratch.take<float>(kQueryBlock * kKeyBlock);
  block.dscores = scratch.take<float>(kQueryBlock * kKeyBlock);
  block.dquery = scratch.take<float>(kQueryBlock * head_dim);
  block.delta = scratch.take<float>(kQueryBlock);
  block.bias = scratch.take<float>(kBlockDistances);
  if (dtype != DType::f32) {
    block.query = scratch.take<float>(kQueryBlock * head_dim);
    block.output = scratch.take<float>(kQueryBlock * head_dim);
    block.doutput = scratch.take<float>(kQueryBlock * head_dim);
    block.key = scratch.take<float>(kKeyBlock * head_dim);
    block.value = scratch.take<float>(kKeyBlock * head_dim);
  }
  return block;
}

// The fp32 sums of dk and dv, which only bf16 needs: [keys, head_dim] each, at the rows of the item's
// sequence. Each thread has its own; of more threads than kv heads, all that work on one head share its, as
// their sequences have other rows.
class KeySums {
 public:
  KeySums(const AttentionAttributes& attributes, int64_t keys, int slots)
      : head_dim_(attributes.head_dim),
        keys_(keys),
        by_head_(slots > attributes.kv_heads),
        places_(std::min<int64_t>(slots, attributes.kv_heads)) {}

  int64_t floats() const { return 2 * places_ * keys_ * head_dim_; }
  float* dkey(float* sums, int slot, int64_t kv_head, int64_t row) const {
    int64_t place = by_head_ ? kv_head : slot;
    return sums + (2 * place * keys_ + row) * head_dim_;
  }
  float* dvalue(float* sums, int slot, int64_t kv_head, int64_t row) const {
    return dkey(sums, slot, kv_head, row) + keys_ * head_dim_;
  }

 private:
  int64_t head_dim_;
  int64_t keys_;
  bool by_head_;
  int64_t places_;
};

// What a block of scores is made with beside the call: the thread's own memory and mask.
struct Thread {
  int slot = 0;
  Block block;
  WeightMask mask;
};

// Where the sums of a call lie.
struct Sums {
  float* bias = nullptr;  // [sequences, heads, buckets]
  float* keys = nullptr;  // KeySums
  KeySums places;
};

// One sequence and kv head: where its gradients are summed in fp32 (the outputs themselves if those are
// fp32), [keys, head_dim] each.
struct Item {
  SequenceRows rows;
  int64_t kv_head = 0;
  MatrixView dkey;
  MatrixView dvalue;
  float* dbias = nullptr;  // [heads, buckets] of this sequence; null: not wanted
};

// Some queries of one head, in fp32.
struct Queries {
  int64_t first = 0;
  int64_t head = 0;
  MatrixView query;
  MatrixView doutput;
  const float* lse = nullptr;  // one every `heads` numbers
};

struct Operand {
  MatrixView view;
  bool transposed = false;
};

void multiply(Operand a, Operand b, const MatrixView& c, float alpha, bool accumulate) {
  Gemm product;
  product.a = a.view;
  product.b = b.view;
  product.c = c;
  product.transpose_a = a.transposed;
  product.transpose_b = b.transposed;
  product.alpha = alpha;
  product.accumulate = accumulate;
  gemm(product, {});
}

void clear(const MatrixView& floats) {
  for (int64_t i = 0; i < floats.rows; ++i) {
    std::fill_n(static_cast<float*>(floats.at(i, 0)), floats.columns, 0.0F);
  }
}

// Scaled scores become probabilities; what the query does not see becomes zero.
void make_probabilities(float* scores, int64_t keys, KeyRange visible, float lse) {
  std::fill_n(scores, visible.first, 0.0F);
  for (int64_t j = visible.first; j < visible.last; ++j) {
    scores[j] = fast_exp(scores[j] - lse);
  }
  std::fill_n(scores + visible.last, keys - visible.last, 0.0F);
}

// Sums dS [queries, keys] by distance, and the distances by bucket.
void add_bias_gradient(const AttentionAttributes& attributes, const Item& item, const Queries& queries,
                       KeyRange keys, const Block& block) {
  int64_t count = keys.last - keys.first;
  std::fill_n(block.bias, kBlockDistances, 0.0F);
  for (int64_t i = 0; i < queries.query.rows; ++i) {
    float* sums = block.bias + kQueryBlock - 1 - i;
    const float* ds = block.dscores + i * kKeyBlock;
    for (int64_t j = 0; j < count; ++j) {
      sums[j] += ds[j];
    }
  }
  int64_t distance = first_distance(item.rows, queries.first, keys.first);
  float* dbias = item.dbias + queries.head * attributes.relative_buckets;
  const RelativeBuckets buckets = buckets_of(attributes);
  for (int64_t place = 0; place < kBlockDistances; ++place) {
    dbias[relative_bucket(buckets, distance + place)] += block.bias[place];
  }
}

// dS in place of dP; where weights are dropped, what is left of P in its place.
void make_dscores(float* p, float* ds, int64_t count, float delta, const float* factors) {
  if (factors == nullptr) {
    for (int64_t j = 0; j < count; ++j) {
      ds[j] = p[j] * (ds[j] - delta);
    }
    return;
  }
  for (int64_t j = 0; j < count; ++j) {
    ds[j] = p[j] * (ds[j] * factors[j] - delta);
    p[j] *= factors[j];
  }
}

// One block of scores: adds to dquery, dkey and dvalue.
void run_key_block(const KernelCall& call, const Item& item, const Queries& queries, KeyRange keys,
                   Thread& thread) {
  const Block& block = thread.block;
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t head_dim = attributes.head_dim;
  int64_t rows = queries.query.rows;
  int64_t count = keys.last - keys.first;
  int64_t kv_column = item.kv_head * head_dim;
  MatrixView kv = matrix(call.inputs[In::kv]).row_block(item.rows.key + keys.first, count);
  MatrixView key = as_floats(kv.column_block(attributes.k_column + kv_column, head_dim), block.key);
  MatrixView value = as_floats(kv.column_block(attributes.v_column + kv_column, head_dim), block.value);
  MatrixView probabilities = {block.probabilities, DType::f32, rows, count, kKeyBlock};
  MatrixView dscores = {block.dscores, DType::f32, rows, count, kKeyBlock};

  multiply({queries.query}, {key, true}, probabilities, attributes.scale, false);
  if (attributes.relative_buckets > 0) {
    load_bias(attributes, call.inputs[In::bias], queries.head,
              first_distance(item.rows, queries.first, keys.first), block.bias);
    add_bias(block.bias, rows, count, block.probabilities);
  }
  multiply({queries.doutput}, {value, true}, dscores, 1.0F, false);
  for (int64_t i = 0; i < rows; ++i) {
    KeyRange visible =
        within_block(visible_keys(attributes, item.rows, queries.first + i), keys.first, count);
    float* p = block.probabilities + i * kKeyBlock;
    float* ds = block.dscores + i * kKeyBlock;
    make_probabilities(p, count, visible, queries.lse[i * attributes.heads]);
    const float* factors = thread.mask.drops() ? thread.mask.row(item.rows.query + queries.first + i,
                                                                 queries.head, keys.first, count)
                                               : nullptr;
    make_dscores(p, ds, count, block.delta[i], factors);
  }
  if (item.dbias != nullptr) {
    add_bias_gradient(attributes, item, queries, keys, block);
  }
  multiply({probabilities, true}, {queries.doutput}, item.dvalue.row_block(keys.first, count), 1.0F, true);
  multiply({dscores, true}, {queries.query}, item.dkey.row_block(keys.first, count), attributes.scale, true);
  multiply({dscores}, {key}, {block.dquery, DType::f32, rows, head_dim, head_dim}, attributes.scale, true);
}

void make_delta(const MatrixView& output, const MatrixView& doutput, float* delta) {
  for (int64_t i = 0; i < output.rows; ++i) {
    const float* o = static_cast<const float*>(output.at(i, 0));
    const float* d = static_cast<const float*>(doutput.at(i, 0));
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < output.columns; ++j) {
      sum += o[j] * d[j];
    }
    delta[i] = sum;
  }
}

void run_query_block(const KernelCall& call, const Item& item, int64_t head, int64_t first, Thread& thread) {
  const Block& block = thread.block;
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t head_dim = attributes.head_dim;
  int64_t count = std::min(kQueryBlock, item.rows.queries - first);
  int64_t row = item.rows.query + first;
  int64_t q_column = attributes.q_column + head * head_dim;
  auto load = [&](size_t input, int64_t column, float* copy) {
    return as_floats(matrix(call.inputs[input]).block(row, column, count, head_dim), copy);
  };
  Queries queries{first, head, load(In::q, q_column, block.query),
                  load(In::dout, head * head_dim, block.doutput),
                  call.inputs[In::lse].as<float>() + row * attributes.heads + head};
  make_delta(load(In::o, head * head_dim, block.output), queries.doutput, block.delta);
  std::fill_n(block.dquery, count * head_dim, 0.0F);
  KeyRange range = visible_keys_of_block(attributes, item.rows, first, count);
  for (int64_t begin = range.first; begin < range.last; begin += kKeyBlock) {
    run_key_block(call, item, queries, {begin, std::min(begin + kKeyBlock, range.last)}, thread);
  }
  store_block(block.dquery, head_dim, matrix(call.outputs[Out::dq]).block(row, q_column, count, head_dim));
}

// The sums of the bias's gradient, one table [heads, buckets] a sequence at the front of the workspace: added
// up in the order of the sequences, they do not depend on which thread made them.
int64_t bias_sums(const AttentionAttributes& attributes, int64_t sequences) {
  return sequences * attributes.heads * attributes.relative_buckets;
}

bool wants_bias_gradient(const KernelCall& call) {
  return call.has_output(Out::dbias);
}

// dbias [buckets, heads] (= or +=) the sums of all sequences.
void finish_bias_gradient(const KernelCall& call, const float* sums, int64_t sequences) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  float* dbias = call.outputs[Out::dbias].as<float>();
  if (!call.op.accumulates_output(Out::dbias)) {
    std::fill_n(dbias, call.outputs[Out::dbias].elements(), 0.0F);
  }
  for (int64_t s = 0; s < sequences; ++s) {
    for (int64_t head = 0; head < attributes.heads; ++head) {
      for (int64_t bucket = 0; bucket < attributes.relative_buckets; ++bucket) {
        dbias[bucket * attributes.heads + head] += *sums++;
      }
    }
  }
}

// `start` has the item's place alone.
void run_item(const KernelCall& call, const Item& start, const Sums& sums, Thread& thread) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t head_dim = attributes.head_dim;
  const SequenceRows& rows = start.rows;
  MatrixView dkv = matrix(call.outputs[Out::dkv]).row_block(rows.key, rows.keys);
  MatrixView dkey = dkv.column_block(attributes.k_column + start.kv_head * head_dim, head_dim);
  MatrixView dvalue = dkv.column_block(attributes.v_column + start.kv_head * head_dim, head_dim);
  bool copies = dkv.dtype != DType::f32;
  Item item = start;
  item.dkey = dkey;
  item.dvalue = dvalue;
  if (copies) {
    float* dkey_sums = sums.places.dkey(sums.keys, thread.slot, item.kv_head, rows.key);
    float* dvalue_sums = sums.places.dvalue(sums.keys, thread.slot, item.kv_head, rows.key);
    item.dkey = {dkey_sums, DType::f32, rows.keys, head_dim, head_dim};
    item.dvalue = {dvalue_sums, DType::f32, rows.keys, head_dim, head_dim};
  }
  clear(item.dkey);
  clear(item.dvalue);
  int64_t group = attributes.heads / attributes.kv_heads;
  for (int64_t head = item.kv_head * group; head < (item.kv_head + 1) * group; ++head) {
    for (int64_t first = 0; first < rows.queries; first += kQueryBlock) {
      run_query_block(call, item, head, first, thread);
    }
  }
  if (copies) {
    store_block(static_cast<float*>(item.dkey.data), head_dim, dkey);
    store_block(static_cast<float*>(item.dvalue.data), head_dim, dvalue);
  }
}

}  // namespace

// q, kv, q_offsets, kv_offsets, o, lse, do, bias?, random? -> dq [T,Cq], dkv [Tk,Ckv], both written; dbias
// = or +=. A thread takes all query heads of one sequence and kv head, in order: sums over the group need no
// locks and always add up alike.
void attention_backward(const KernelCall& call) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t sequences = std::max<int64_t>(call.inputs[In::q_offsets].rows() - 1, 0);
  DType dtype = call.inputs[In::q].dtype;
  int64_t share = block_bytes(attributes.head_dim, dtype);
  int slots = scratch_slots(thread_count(), share);
  Scratch scratch(call.workspace);
  Sums sums{nullptr, nullptr, KeySums(attributes, call.inputs[In::kv].rows(), slots)};
  sums.bias = scratch.take<float>(bias_sums(attributes, sequences));
  std::fill_n(sums.bias, bias_sums(attributes, sequences), 0.0F);
  sums.keys = dtype == DType::f32 ? nullptr : scratch.take<float>(sums.places.floats());
  std::span<std::byte> shares = scratch.rest();
  auto run_index = [&](int64_t index, Thread& thread) {
    int64_t sequence = index / attributes.kv_heads;
    Item item;
    item.rows = sequence_rows(call.inputs[In::q_offsets].as<int32_t>(),
                              call.inputs[In::kv_offsets].as<int32_t>(), sequence);
    item.kv_head = index % attributes.kv_heads;
    item.dbias = wants_bias_gradient(call) ? sums.bias + bias_sums(attributes, sequence) : nullptr;
    run_item(call, item, sums, thread);
  };
  parallel_items(sequences * attributes.kv_heads, slots, [&](int slot) {
    Scratch own(shares.subspan(static_cast<size_t>(slot * share), static_cast<size_t>(share)));
    return [&run_index, thread = Thread{slot, take_block(own, attributes.head_dim, dtype),
                                        WeightMask(attributes, call.inputs, In::random)}](
               int64_t index) mutable { run_index(index, thread); };
  });
  if (wants_bias_gradient(call)) {
    finish_bias_gradient(call, sums.bias, sequences);
  }
}

int64_t attention_backward_workspace(const Program& program, const Op& op, int threads) {
  const auto& attributes = attributes_of<AttentionAttributes>(op);
  int64_t sequences = program.buffer(op.inputs[In::q_offsets]).dims[0].max - 1;
  DType dtype = program.buffer(op.inputs[In::q]).dtype();
  int64_t share = block_bytes(attributes.head_dim, dtype);
  int slots = scratch_slots(threads, share);
  KeySums key_sums(attributes, program.buffer(op.inputs[In::kv]).dims[0].max, slots);
  return padded_bytes_of<float>(bias_sums(attributes, sequences)) +
         (dtype == DType::f32 ? 0 : padded_bytes_of<float>(key_sums.floats())) + slots * share;
}

}  // namespace snug::cpu
