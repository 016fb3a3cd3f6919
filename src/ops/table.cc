// The table itself, and what is derived from it.
#include "ops/table.h"

#include <array>

#include "base/check.h"
#include "ops/rows.h"

namespace snug {

const OpRow& row_of(OpKind kind) {
  static const std::array<const OpRow*, kOpKindCount> kRows = {
      &kEmbeddingRow,
      &kEmbeddingBackwardRow,
      &kRmsNormRow,
      &kRmsNormBackwardRow,
      &kAddRmsNormRow,
      &kHeadNormRow,
      &kHeadNormBackwardRow,
      &kHeadNormRopeRow,
      &kHeadNormRopeBackwardRow,
      &kLinearRow,
      &kLinearBackwardInputRow,
      &kLinearBackwardWeightRow,
      &kLoraUpRow,
      &kLoraUpBackwardRow,
      &kRopeRow,
      &kAttentionRow,
      &kAttentionBackwardRow,
      &kGatedActivationRow,
      &kGatedActivationBackwardRow,
      &kGatedLinearRow,
      &kGatedLinearBackwardRow,
      &kAddRow,
      &kDropoutRow,
      &kLossHeadRow,
      &kLossHeadGradientRow,
      &kSelectRowsRow,
      &kCacheWriteRow,
      &kCopyRow,
      &kFillRow,
      &kScaleLossRow,
      &kGradientNormRow,
      &kCloseStepRow,
      &kAdamwRow,
      &kAdamw8bitRow,
      &kAdafactorRow,
  };
  const OpRow& row = *kRows[static_cast<size_t>(kind)];
  SNUG_CHECK(row.kind == kind, "the op table is not in the order of OpKind");
  return row;
}

void verify_with_shapes(const Program& program) {
  std::string violation = find_violation(program);
  SNUG_CHECK(violation.empty(), "program \"" + program.name + "\": " + violation);
  for (const Op& op : program.ops) {
    const OpRow& row = row_of(op.kind);
    std::string problem = row.find_shape_problem(program, op);
    SNUG_CHECK(problem.empty(), "program \"" + program.name + "\", op \"" + op.name + "\" (" +
                                    std::string(row.name) + "): " + problem);
  }
}

OpCost cost_of(const Program& program, const Op& op) {
  return row_of(op.kind).cost(program, op);
}

}  // namespace snug
