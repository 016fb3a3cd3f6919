// Where every buffer of a plan lies, and when: what plan.json keeps, and what pictures of memory are drawn
// from. Plain data without programs, so that a file can be read back and verified by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "plan/plan.h"

namespace snug {

struct PlacedBuffer {
  std::string name;
  Role role = Role::activations;
  Home home = Home::device;
  bool persists = false;  // through all phases
  int64_t offset = 0;     // within the arena of its home
  int64_t bytes = 0;      // as planned, with padding
  int first_op = 0;       // both inclusive
  int last_op = 0;

  bool operator==(const PlacedBuffer&) const = default;
};

struct PhaseLayout {
  std::string name;
  std::vector<std::string> ops;  // in the order in which they run
  std::vector<PlacedBuffer> buffers;

  bool operator==(const PhaseLayout&) const = default;
};

struct Layout {
  std::array<int64_t, kHomeCount> arena_bytes{};
  int64_t context_bytes = 0;
  std::vector<PhaseLayout> phases;

  bool operator==(const Layout&) const = default;
};

PhaseLayout layout_of(const PhasePlan& phase);
Layout layout_of(const Plan& plan);

// Device bytes of a phase that are live at each op, beside what persists. What an op takes over from its
// input counts once.
std::vector<int64_t> live_bytes(const PhaseLayout& phase);
// Where what persists ends on the device.
int64_t persistent_bytes(const PhaseLayout& phase);
int64_t persistent_bytes(const Layout& layout);

Json layout_to_json(const Layout& layout);
// Throws bad_input naming `path`, the phase and the buffer.
Layout layout_from_json(const Json& json, const std::string& path);

// What is wrong with it: two buffers that hold bytes at once in one place (but for one that an op takes over
// from the other), one that lies outside its arena, an arena that nobody fills, one that persists and moves.
// "" if nothing is.
std::string find_layout_problem(const Layout& layout);

}  // namespace snug
