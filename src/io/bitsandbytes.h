// Tensors that bitsandbytes quantised: several tensors of the files make one of the model.
#pragma once

#include "io/tensor_source.h"

namespace snug {

// Puts the pieces of each quantised tensor together: codes, scales, maps and the state that describes them (4
// bits), or codes and the scales of rows (8 bits). All else stays as it is. Throws bad_input for a piece that
// is missing or does not fit the others, naming it.
TensorSource join_bitsandbytes(TensorSource files);

}  // namespace snug
