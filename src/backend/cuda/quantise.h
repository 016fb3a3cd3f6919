// Values to codes on the card.
#pragma once

#include <cuda_runtime_api.h>

#include "backend/backend.h"

namespace snug::cuda {

// The codes and scales that the host would make of the piece, to the bit.
void quantise(cudaStream_t stream, const CodePiece& piece);

}  // namespace snug::cuda
