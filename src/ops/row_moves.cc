// Ops of generation that move rows: select_rows, cache_write.
#include "ops/rows.h"

#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_select(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* rows = input_of(program, op, 1);
  if (x == nullptr || rows == nullptr || x->dims.size() != 2 || rows->dims.size() != 1) {
    return "needs x [T,D] and rows [S]";
  }
  return find_mismatch({{"y", output_of(program, op, 0), {rows->dims[0], x->dims[1]}}});
}

std::string check_cache(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* cache = output_of(program, op, 0);
  if (x == nullptr || cache == nullptr || x->dims.size() != 2 || cache->dims.size() != 2) {
    return "needs x [T,C] and a cache [.,Cc]";
  }
  if (attributes_of<CacheAttributes>(op).source_column + columns_of(*cache) > columns_of(*x)) {
    return "the cached columns reach past the row";
  }
  std::string problem = find_mismatch({{"slots", input_of(program, op, 1), {x->dims[0]}}});
  return problem.empty() ? find_dtype_mismatch({x, cache}) : problem;
}

OpCost cost_of_select(const Program& program, const Op& op) {
  return {0, 2.0 * static_cast<double>(program.buffer(op.outputs[0]).max_bytes())};
}

OpCost cost_of_cache(const Program& program, const Op& op) {
  const Buffer& cache = program.buffer(op.outputs[0]);
  double tokens = static_cast<double>(rows_of(program.buffer(op.inputs[0])));
  return {0, 2.0 * tokens * static_cast<double>(columns_of(cache) * size_of(cache.dtype()))};
}

// Rows that are not named stay as they are.
Effect changes_rows(const Op& /*op*/, size_t /*output*/) {
  return Effect::update;
}

}  // namespace

const OpRow kSelectRowsRow = {.kind = OpKind::select_rows,
                              .name = "select_rows",
                              .find_shape_problem = check_select,
                              .cost = cost_of_select};

const OpRow kCacheWriteRow = {.kind = OpKind::cache_write,
                              .name = "cache_write",
                              .find_shape_problem = check_cache,
                              .cost = cost_of_cache,
                              .output_effect = changes_rows};

}  // namespace snug
