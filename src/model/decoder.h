// The forward program of decoder-only models.
#pragma once

#include "model/model_spec.h"

namespace snug {

Program build_decoder(const ModelSpec& spec, const ForwardOptions& options);

}  // namespace snug
