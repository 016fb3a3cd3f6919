// Pass: joins neighbouring ops into one pass over memory.
#pragma once

#include "program/program.h"

namespace snug {

// add followed by the rms_norm of its sum becomes add_rms_norm: the same arithmetic, one pass.
Program fuse_additions(Program program);

}  // namespace snug
