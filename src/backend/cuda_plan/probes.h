// Small pieces of work by which a card's rates are told: a few ops in 16 bits at the sizes of a 7B model.
// Host code of every build.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "program/program.h"

namespace snug::cuda {

enum class ProbeKind : uint8_t { memory, products, attention, attention_backward, adapter };
inline constexpr size_t kProbeCount = 5;
// What the timed ops of each take.
using ProbeSeconds = std::array<double, kProbeCount>;

struct Probe {
  ProbeKind kind = ProbeKind::memory;
  Program program;
  size_t first_timed = 0;  // ops before it only make what the others read
  double seconds = 0.1;    // that it is kept up for, so that the card is as warm as in a run
};

// In the order of their kinds.
std::vector<Probe> card_probes(DType dtype);

// Sequences of equal length that the offsets of attention say.
inline constexpr int64_t kProbeSequences = 2;
inline constexpr int64_t kProbeTokens = 4096;

// Where the buffers of a probe lie, and behind them the scratch memory of its ops.
struct ProbePlaces {
  std::vector<int64_t> offsets;  // by buffer
  int64_t scratch_offset = 0;
  int64_t bytes = 0;  // of all
};
ProbePlaces places_of(const Program& program);

}  // namespace snug::cuda
