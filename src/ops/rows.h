// The rows of the op table, by the file that defines them.
#pragma once

#include "ops/table.h"

namespace snug {

extern const OpRow kEmbeddingRow;
extern const OpRow kEmbeddingBackwardRow;
extern const OpRow kRmsNormRow;
extern const OpRow kRmsNormBackwardRow;
extern const OpRow kAddRmsNormRow;
extern const OpRow kHeadNormRow;
extern const OpRow kHeadNormBackwardRow;
extern const OpRow kHeadNormRopeRow;
extern const OpRow kHeadNormRopeBackwardRow;
extern const OpRow kLinearRow;
extern const OpRow kLinearBackwardInputRow;
extern const OpRow kLinearBackwardWeightRow;
extern const OpRow kLoraUpRow;
extern const OpRow kLoraUpBackwardRow;
extern const OpRow kRopeRow;
extern const OpRow kAttentionRow;
extern const OpRow kAttentionBackwardRow;
extern const OpRow kGatedActivationRow;
extern const OpRow kGatedActivationBackwardRow;
extern const OpRow kGatedLinearRow;
extern const OpRow kGatedLinearBackwardRow;
extern const OpRow kAddRow;
extern const OpRow kDropoutRow;
extern const OpRow kLossHeadRow;
extern const OpRow kLossHeadGradientRow;
extern const OpRow kSelectRowsRow;
extern const OpRow kCacheWriteRow;
extern const OpRow kCopyRow;
extern const OpRow kFillRow;
extern const OpRow kScaleLossRow;
extern const OpRow kGradientNormRow;
extern const OpRow kCloseStepRow;
extern const OpRow kAdamwRow;
extern const OpRow kAdamw8bitRow;
extern const OpRow kAdafactorRow;

}  // namespace snug
