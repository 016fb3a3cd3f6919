// Every usual remedy alone, also those that help nobody: what it saves, what it costs, what it changes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "fit/remedies.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

struct TriedRemedy {
  std::string remedy;       // a "--set" argument, or what people say
  int64_t saved_bytes = 0;  // less than 0: it takes more
  double slower = 0;        // the time for a sequence: 0.1 is a tenth more
  Sameness changes = Sameness::bits;
  bool fits = false;  // with it alone
};

struct WhatIf {
  int64_t peak_bytes = 0;  // of the recipe as it is written
  std::vector<TriedRemedy> tried;
};

// What the recipe leaves open is as large as it may become in all of them: nothing computed again, and the
// largest micro-batches.
WhatIf try_remedies(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                    const LimitsOf& limits = {});

}  // namespace snug
