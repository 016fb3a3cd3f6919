// Timing the probes (backend/cuda_plan/probes.h) on the card.
#pragma once

#include "backend/cuda/kernels.h"
#include "backend/cuda_plan/probes.h"

namespace snug::cuda {

// The device memory that it takes while it measures.
int64_t measuring_bytes(DType dtype);

// Some tenths of a second each, by the card's own clock. Everything that it takes is given back.
ProbeSeconds measure_probes(const Queue& queue, DType dtype);

}  // namespace snug::cuda
