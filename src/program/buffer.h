// Buffers: every piece of memory that a program reads or writes, with a name, a shape and a purpose.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/format.h"

namespace snug {

// What a buffer is for: the rows of the memory report.
enum class Role : uint8_t {
  base_weights,   // plain, or the codes of those that are coded
  weight_scales,  // of codes
  weight_maps,    // the values that codes stand for
  adapters,
  frozen_adapters,  // of earlier stages
  master_bits,      // of trainable weights that compute in 16 bits: fp32 masters, or the rests beside them
  gradients,
  optimizer_states,        // plain, or the codes of those that are coded
  state_scales,            // of codes
  state_maps,              // the values that codes stand for, once for all
  kept_activations,        // written in the forward pass, read in the backward pass
  recomputed_activations,  // written again during the backward pass
  activations,             // live for a few ops only
  workspace,
  batch,
  staging,
  kv_cache,
  driver_context,
};
inline constexpr int kRoleCount = 18;
std::string_view name_of(Role role);

// Which memory a buffer lives in. Each has one arena.
enum class Home : uint8_t { device, pinned, host };
inline constexpr int kHomeCount = 3;
std::string_view name_of(Home home);

// When a buffer holds its bytes.
enum class Lifetime : uint8_t {
  temporary,   // from its first write to its last use within one program
  input,       // filled by the host before the first op; until its last use
  output,      // from its first write to the end of the program, for the host to read
  phase,       // throughout its program and across its repeated executions (a kv-cache)
  persistent,  // across programs: all programs that name it share its memory
};

std::string_view name_of(Lifetime lifetime);

// What a buffer holds before an op of its program uses it.
enum class Origin : uint8_t {
  program,   // nothing: an op writes it, or the host before each execution
  zero,      // of what persists: zeros when a run begins
  constant,  // Buffer::constant
  file,      // the tensors of Buffer::parts, or random values where a run begins without a file
};

// Sizes that vary from batch to batch. They are planned at their maximum and run at their actual value.
enum class Extent : uint8_t {
  fixed,
  tokens,         // tokens of the micro-batch (of an encoder-decoder model: the decoder's)
  source_tokens,  // tokens that an encoder reads
  sequences,      // sequences of the micro-batch
  offsets,        // sequences + 1
  cached_tokens,  // positions in the kv-cache
  targets,        // rows of the loss head: the tokens that have a target, and some more
};
inline constexpr int kExtentCount = 7;

struct Dim {
  Extent extent = Extent::fixed;
  int64_t max = 0;

  bool operator==(const Dim&) const = default;
};

// The actual values of the varying extents in one execution.
using Extents = std::array<int64_t, kExtentCount>;

constexpr int64_t actual(const Dim& dim, const Extents& extents) {
  return dim.extent == Extent::fixed ? dim.max : extents[static_cast<size_t>(dim.extent)];
}

using Dims = std::vector<Dim>;

inline Dim fixed(int64_t size) {
  return Dim{Extent::fixed, size};
}

// A tensor of a model file that lies in rows [row_begin, row_begin + rows) of a weight buffer. Weights
// that are multiplied with the same input lie side by side in one buffer, so one product serves them all.
struct TensorPart {
  std::vector<std::string> names;  // the file's name for it first, then other names it is found under
  int64_t row_begin = 0;
  int64_t rows = 0;
};

struct Buffer {
  std::string name;
  Format format = DType::f32;
  Dims dims = {};
  Role role = Role::activations;
  Lifetime lifetime = Lifetime::temporary;
  Home home = Home::device;
  Origin origin = Origin::program;
  std::vector<TensorPart> parts = {};  // which tensors of files lie where in it
  std::vector<float> constant = {};    // contents that come with the program, such as frequencies
  bool trainable = false;

  int64_t max_elements() const;  // throws bad_input where no machine could count them
  int64_t max_bytes() const;
  // The type of its elements. Only for a buffer that holds them as they are.
  DType dtype() const {
    SNUG_CHECK(!format.is_coded(), name + " holds codes, not elements");
    return format.dtype;
  }
};

// Whether it keeps its content from one execution of its program to the next.
constexpr bool outlives_execution(const Buffer& buffer) {
  return buffer.lifetime == Lifetime::persistent || buffer.lifetime == Lifetime::phase;
}

// Whether it holds parameters of the model itself: what is counted as its size, and trained where no adapters
// are.
constexpr bool is_model_parameter(const Buffer& buffer) {
  return buffer.origin == Origin::file && buffer.role == Role::base_weights;
}

}  // namespace snug
