// The kv-cache.
#include "compile/kv_cache.h"

#include "base/check.h"
#include "program/builder.h"
#include "program/names.h"
#include "program/operands.h"

namespace snug {

Program add_kv_cache(Program forward, int64_t max_cached_tokens) {
  using In = AttentionInput;
  std::vector<Op> ops = std::move(forward.ops);
  forward.ops.clear();
  Builder builder(std::move(forward));
  const Dims token_dims = builder.buffer(builder.program().find(kIds)).dims;
  BufferId slots = builder.input(kSlots, DType::i32, token_dims);
  BufferId cached_offsets = builder.input(kCachedOffsets, DType::i32, {{Extent::offsets, 2}});
  for (Op& op : ops) {
    if (op.kind != OpKind::attention || op.inputs[In::q] != op.inputs[In::kv]) {
      builder.program().ops.push_back(std::move(op));
      continue;
    }
    AttentionAttributes attributes = attributes_of<AttentionAttributes>(op);
    int64_t kv_width = attributes.kv_heads * attributes.head_dim;
    SNUG_CHECK(attributes.v_column == attributes.k_column + kv_width,
               "values follow keys in the fused buffer");
    BufferId cache = builder.program().add_buffer(
        {.name = op.name + ".cache",
         .format = builder.buffer(op.inputs[In::kv]).format,
         .dims = {{Extent::cached_tokens, max_cached_tokens}, fixed(2 * kv_width)},
         .role = Role::kv_cache,
         .lifetime = Lifetime::phase});
    Op& write = builder.append(OpKind::cache_write, op.name + ".cache", {op.inputs[In::kv], slots}, {cache},
                               CacheAttributes{attributes.k_column});
    write.layer = op.layer;
    attributes.k_column = 0;
    attributes.v_column = kv_width;
    op.inputs[In::kv] = cache;
    op.inputs[In::kv_offsets] = cached_offsets;
    op.attributes = attributes;
    builder.program().ops.push_back(std::move(op));
  }
  return builder.finish();
}

}  // namespace snug
