// Being one of several processes that a launcher started.
#pragma once

namespace snug {

// Throws bad_input if torchrun, accelerate, srun or mpirun started more than one of this program: each would
// train the same thing, into the same folder.
void refuse_several_ranks();

}  // namespace snug
