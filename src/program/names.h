// The names on which those who write programs, plan them and run them agree. A name that only one of them
// knows stays with it.
#pragma once

#include <string>

namespace snug {

// Phases, which are the names of their programs.
inline constexpr const char* kLoadPhase = "load";
inline constexpr const char* kTrainPhase = "train";
inline constexpr const char* kUpdatePhase = "update";
inline constexpr const char* kEvaluatePhase = "evaluate";
inline constexpr const char* kSavePhase = "save";
inline constexpr const char* kEncodePhase = "encode";
inline constexpr const char* kGeneratePhase = "generate";

// A micro-batch, filled by the host. With an encoder, its tokens are the source and the others the decoder's.
inline constexpr const char* kIds = "ids";
inline constexpr const char* kPositions = "positions";
inline constexpr const char* kOffsets = "offsets";
inline constexpr const char* kTargets = "targets";
inline constexpr const char* kTargetRows = "target_rows";  // the tokens that have them
inline constexpr const char* kSourceIds = "source_ids";
inline constexpr const char* kSourceOffsets = "source_offsets";
// What the loss is multiplied with for its gradient; where losses are scaled for fp16, the scale is made of
// the share, which is then the host's.
inline constexpr const char* kScale = "scale";
inline constexpr const char* kShare = "share";
// Seed, step and first token of the dropout masks (backend/dropout_mask.h): the decoder's and the encoder's.
inline constexpr const char* kRandom = "random";
inline constexpr const char* kSourceRandom = "source_random";

// An update: what the host gives it, and what steps leave behind (program/step_clock.h).
inline constexpr const char* kLearningRates = "learning_rates";
inline constexpr const char* kStateMaps = "optimizer.state_maps";
inline constexpr const char* kRoundingRandom = "rounding_random";  // seed, step
inline constexpr const char* kClock = "step.clock";
inline constexpr const char* kHistory = "step.history";
inline constexpr const char* kLossSum = "metrics.loss_sum";
inline constexpr const char* kHits = "metrics.hits";  // targets that an evaluated model would have chosen
inline constexpr const char* kGradientNorm = "metrics.gradient_norm";

// Generation: the cache row of each new token, {0, tokens in the cache}, the row of each sequence's last
// token, and what comes out.
inline constexpr const char* kSlots = "slots";
inline constexpr const char* kCachedOffsets = "cached_offsets";
inline constexpr const char* kLastRows = "last_rows";
inline constexpr const char* kLogits = "logits";

// Files stream through it, in and out.
inline constexpr const char* kStaging = "staging";
inline constexpr const char* kScaleStaging = "staging.scales";  // of one tensor, until they are codes
// The host's copy of what persists, which a checkpoint is written from.
inline constexpr const char* kSnapshot = "snapshot";

// What goes with a trained buffer, by that buffer's name.
inline std::string gradient_name(const std::string& parameter) {
  return parameter + ".grad";
}
// What makes a trained buffer of 16 bits exact: an fp32 master from which it is rounded, or the rest of an
// fp32 number of which it is the upper half.
inline std::string master_name(const std::string& parameter) {
  return parameter + ".master";
}
inline std::string rest_name(const std::string& parameter) {
  return parameter + ".rest";
}
inline std::string first_moment_name(const std::string& parameter) {
  return parameter + ".m";
}
inline std::string second_moment_name(const std::string& parameter) {
  return parameter + ".v";
}

}  // namespace snug
