// attention: dropout(softmax(scale * q k^T + bias)) v over sequences of any length, a block of queries at a
// time. Keys come in blocks as well, with a running maximum and sum, so that scores never take more than one
// block.
#include <cmath>
#include <limits>

#include "backend/cpu/attention_blocks.h"
#include "backend/cpu/fast_math.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "base/threads.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

using In = AttentionInput;

// What one thread works in. Copies of queries, keys and values exist only for bf16.
struct Block {
  float* scores = nullptr;   // [kQueryBlock, kKeyBlock]
  float* output = nullptr;   // [kQueryBlock, head_dim], not yet divided by the sum
  float* maximum = nullptr;  // [kQueryBlock]
  float* sum = nullptr;      // [kQueryBlock]
  float* bias = nullptr;     // [kBlockDistances]
  float* query = nullptr;    // [kQueryBlock, head_dim]
  float* key = nullptr;      // [kKeyBlock, head_dim]
  float* value = nullptr;    // [kKeyBlock, head_dim]
};

int64_t block_bytes(int64_t head_dim, DType dtype) {
  int64_t bytes = padded_bytes_of<float>(kQueryBlock * kKeyBlock) +
                  padded_bytes_of<float>(kQueryBlock * head_dim) + 2 * padded_bytes_of<float>(kQueryBlock) +
                  padded_bytes_of<float>(kBlockDistances);
  if (dtype != DType::f32) {
    bytes +=
        padded_bytes_of<float>(kQueryBlock * head_dim) + 2 * padded_bytes_of<float>(kKeyBlock * head_dim);
  }
  return bytes;
}

Block take_block(Scratch scratch, int64_t head_dim, DType dtype) {
  Block block;
  block.scores = scratch.take<float>(kQueryBlock * kKeyBlock);
  block.output = scratch.take<float>(kQueryBlock * head_dim);
  block.maximum = scratch.take<float>(kQueryBlock);
  block.sum = scratch.take<float>(kQueryBlock);
  block.bias = scratch.take<float>(kBlockDistances);
  if (dtype != DType::f32) {
    block.query = scratch.take<float>(kQueryBlock * head_dim);
    block.key = scratch.take<float>(kKeyBlock * head_dim);
    block.value = scratch.take<float>(kKeyBlock * head_dim);
  }
  return block;
}

// One unit of work: some queries of one sequence and head.
struct Item {
  SequenceRows rows;
  int64_t head = 0;
  int64_t first = 0;  // query within the sequence
  int64_t count = 0;
};

int64_t query_blocks(int64_t queries) {
  return (queries + kQueryBlock - 1) / kQueryBlock;
}

int64_t count_query_blocks(const Tensor& query_offsets) {
  const int32_t* offsets = query_offsets.as<int32_t>();
  int64_t blocks = 0;
  for (int64_t s = 0; s + 1 < query_offsets.rows(); ++s) {
    blocks += query_blocks(offsets[s + 1] - offsets[s]);
  }
  return blocks;
}

Item find_item(const KernelCall& call, int64_t index) {
  int64_t heads = attributes_of<AttentionAttributes>(call.op).heads;
  int64_t block = index / heads;
  for (int64_t s = 0;; ++s) {
    SequenceRows rows =
        sequence_rows(call.inputs[In::q_offsets].as<int32_t>(), call.inputs[In::kv_offsets].as<int32_t>(), s);
    int64_t blocks = query_blocks(rows.queries);
    if (block < blocks) {
      int64_t first = block * kQueryBlock;
      return {rows, index % heads, first, std::min(kQueryBlock, rows.queries - first)};
    }
    block -= blocks;
  }
}

// One row of scores, of which [visible.first, visible.last) count: exponentials in their place, zero
// elsewhere; the row's output so far is brought to the new maximum.
void add_to_softmax(float* scores, int64_t keys, KeyRange visible, const Block& block, int64_t row,
                    int64_t head_dim) {
  std::fill_n(scores, visible.first, 0.0F);
  std::fill_n(scores + visible.last, keys - visible.last, 0.0F);
  if (visible.first == visible.last) {
    return;
  }
  float largest = block.maximum[row];
#pragma omp simd reduction(max : largest)
  for (int64_t j = visible.first; j < visible.last; ++j) {
    largest = std::max(largest, scores[j]);
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = visible.first; j < visible.last; ++j) {
    float value = fast_exp(scores[j] - largest);
    scores[j] = value;
    sum += value;
  }
  float correction = fast_exp(block.maximum[row] - largest);
  block.sum[row] = block.sum[row] * correction + sum;
  block.maximum[row] = largest;
  if (correction != 1.0F) {
    float* output = block.output + row * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) {
      output[d] *= correction;
    }
  }
}

// The sum is that of all weights, as dropout follows the softmax; only values are weighted by what is kept.
void drop_weights(const Item& item, int64_t begin, int64_t count, WeightMask& mask, float* weights) {
  for (int64_t i = 0; i < item.count; ++i) {
    const float* factors = mask.row(item.rows.query + item.first + i, item.head, begin, count);
    float* row = weights + i * kKeyBlock;
#pragma omp simd
    for (int64_t j = 0; j < count; ++j) {
      row[j] *= factors[j];
    }
  }
}

// output [queries, head_dim] += scores [queries, keys] value [keys, head_dim].
void add_values(const Item& item, const Block& block, const MatrixView& value) {
  if (item.count > 4) {
    Gemm product;
    product.a = {block.scores, DType::f32, item.count, value.rows, kKeyBlock};
    product.b = value;
    product.c = {block.output, DType::f32, item.count, value.columns, value.columns};
    product.accumulate = true;
    gemm(product, {});
    return;
  }
  for (int64_t i = 0; i < item.count; ++i) {
    float* output = block.output + i * value.columns;
    for (int64_t j = 0; j < value.rows; ++j) {
      float weight = block.scores[i * kKeyBlock + j];
      const float* row = static_cast<const float*>(value.at(j, 0));
      for (int64_t d = 0; d < value.columns; ++d) {
        output[d] += weight * row[d];
      }
    }
  }
}

// o [queries, head_dim] = output / sum, and the log-sum-exp; a query that saw no key gives 0 and -inf.
void finish(const KernelCall& call, const Item& item, const Block& block) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t head_dim = attributes.head_dim;
  float* lse = call.outputs[1].as<float>() + (item.rows.query + item.first) * attributes.heads + item.head;
  for (int64_t i = 0; i < item.count; ++i) {
    bool sees_nothing = block.sum[i] == 0.0F;
    float factor = sees_nothing ? 0.0F : 1.0F / block.sum[i];
    float* output = block.output + i * head_dim;
    for (int64_t d = 0; d < head_dim; ++d) {
      output[d] *= factor;
    }
    lse[i * attributes.heads] =
        sees_nothing ? -std::numeric_limits<float>::infinity() : block.maximum[i] + std::log(block.sum[i]);
  }
  MatrixView o = matrix(call.outputs[0]);
  store_block(block.output, head_dim,
              o.block(item.rows.query + item.first, item.head * head_dim, item.count, head_dim));
}

void run_item(const KernelCall& call, const Item& item, const Block& block, WeightMask& mask) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t head_dim = attributes.head_dim;
  int64_t kv_head = item.head / (attributes.heads / attributes.kv_heads);
  MatrixView query = as_floats(matrix(call.inputs[In::q])
                                   .block(item.rows.query + item.first,
                                          attributes.q_column + item.head * head_dim, item.count, head_dim),
                               block.query);
  MatrixView keys = matrix(call.inputs[In::kv]);
  std::fill_n(block.output, item.count * head_dim, 0.0F);
  std::fill_n(block.sum, item.count, 0.0F);
  std::fill_n(block.maximum, item.count, -std::numeric_limits<float>::infinity());
  KeyRange range = visible_keys_of_block(attributes, item.rows, item.first, item.count);
  for (int64_t begin = range.first; begin < range.last; begin += kKeyBlock) {
    int64_t count = std::min(kKeyBlock, range.last - begin);
    int64_t row = item.rows.key + begin;
    MatrixView key =
        as_floats(keys.block(row, attributes.k_column + kv_head * head_dim, count, head_dim), block.key);
    MatrixView value =
        as_floats(keys.block(row, attributes.v_column + kv_head * head_dim, count, head_dim), block.value);
    Gemm product;
    product.a = query;
    product.b = key;
    product.c = {block.scores, DType::f32, item.count, count, kKeyBlock};
    product.transpose_b = true;
    product.alpha = attributes.scale;
    gemm(product, {});
    if (attributes.relative_buckets > 0) {
      load_bias(attributes, call.inputs[In::bias], item.head, first_distance(item.rows, item.first, begin),
                block.bias);
      add_bias(block.bias, item.count, count, block.scores);
    }
    for (int64_t i = 0; i < item.count; ++i) {
      KeyRange visible = within_block(visible_keys(attributes, item.rows, item.first + i), begin, count);
      add_to_softmax(block.scores + i * kKeyBlock, count, visible, block, i, head_dim);
    }
    if (mask.drops()) {
      drop_weights(item, begin, count, mask, block.scores);
    }
    add_values(item, block, value);
  }
  finish(call, item, block);
}

}  // namespace

// q [T,Cq], kv [Tk,Ckv] -> o [T,H*hd], lse [T,H], both written. Each thread takes the next block of queries;
// a block's result depends on its own sequence only, so the order does not matter.
void attention(const KernelCall& call) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  int64_t items = count_query_blocks(call.inputs[In::q_offsets]) * attributes.heads;
  DType dtype = call.inputs[In::q].dtype;
  auto share = static_cast<size_t>(block_bytes(attributes.head_dim, dtype));
  int slots = scratch_slots(thread_count(), block_bytes(attributes.head_dim, dtype));
  parallel_items(items, slots, [&](int slot) {
    Scratch scratch(call.workspace.subspan(static_cast<size_t>(slot) * share, share));
    return [&call, block = take_block(scratch, attributes.head_dim, dtype),
            mask = WeightMask(attributes, call.inputs, In::random)](int64_t index) mutable {
      run_item(call, find_item(call, index), block, mask);
    };
  });
}

int64_t attention_workspace(const Program& program, const Op& op, int threads) {
  int64_t share =
      block_bytes(attributes_of<AttentionAttributes>(op).head_dim, program.buffer(op.inputs[In::q]).dtype());
  return scratch_slots(threads, share) * share;
}

}  // namespace snug::cpu
