// What a policy of recomputation costs a layer, read off a program in which all layers have it.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "model/model_spec.h"
#include "program/program.h"

namespace snug {

struct LayerProfile {
  int64_t kept_bytes = 0;  // that its backward ops read, from its forward ops on
  int64_t live_bytes =
      0;               // at most while it is computed, forward or backward, less what layers before it keep
  double seconds = 0;  // of a step
};

struct PolicyProfile {
  std::vector<LayerProfile> layers;
  // At most at ops of no layer, less what layers keep; by how many of the first layers keep theirs then.
  std::vector<int64_t> live_beside;
};

// `program` trains on one micro-batch, as the device runs it; `step` tells of how many a step is made.
PolicyProfile profile_layers(const Program& program, int64_t layers, const StepCut& step,
                             const DeviceRates& rates);

// A model with one layer for all that are alike: it costs as much to look at, however deep the model is.
struct FewLayers {
  ModelSpec spec;
  std::vector<size_t> layer_of;  // by layer of the whole model: the one that stands for it
};
// `program` is the whole model's; layers are alike if their ops and the sizes of what they make are.
FewLayers few_layers(const ModelSpec& spec, const Program& program);
// The whole model's profile, from the profile of the few.
PolicyProfile of_all_layers(const PolicyProfile& profile, const FewLayers& few, const ModelSpec& spec);

}  // namespace snug
