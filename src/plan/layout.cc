// Layouts: from a plan, to JSON and back, and verified.
#include "plan/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/bytes.h"
#include "base/error.h"
#include "ops/effects.h"

namespace snug {
namespace {

template <typename Name>
Name parse_name(const std::string& text, int count, const std::string& place) {
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<Name>(i)) == text) {
      return static_cast<Name>(i);
    }
  }
  throw bad_input(fmt::format("{}: nothing is called \"{}\" here", place, text));
}

Json buffer_to_json(const PlacedBuffer& buffer) {
  return {{"name", buffer.name},         {"role", name_of(buffer.role)}, {"home", name_of(buffer.home)},
          {"persists", buffer.persists}, {"offset", buffer.offset},      {"bytes", buffer.bytes},
          {"first_op", buffer.first_op}, {"last_op", buffer.last_op}};
}

PlacedBuffer buffer_from_json(const Json& json, const std::string& place) {
  PlacedBuffer buffer;
  buffer.name = json_string(json, "name", "", place);
  std::string own_place = fmt::format("{}, buffer \"{}\"", place, buffer.name);
  buffer.role = parse_name<Role>(json_string(json, "role", "", own_place), kRoleCount, own_place);
  buffer.home = parse_name<Home>(json_string(json, "home", "", own_place), kHomeCount, own_place);
  buffer.persists = json_bool(json, "persists", false, own_place);
  buffer.offset = json_integer(json, "offset", own_place);
  buffer.bytes = json_integer(json, "bytes", own_place);
  buffer.first_op = static_cast<int>(json_integer(json, "first_op", own_place));
  buffer.last_op = static_cast<int>(json_integer(json, "last_op", own_place));
  return buffer;
}

const Json& list_of(const Json& json, const char* key, const std::string& place) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_array()) {
    throw bad_input(fmt::format("{}: has no list \"{}\"", place, key));
  }
  return json[key];
}

// An op may write its output where its input was: they meet at that op alone.
bool takes_over(const PlacedBuffer& a, const PlacedBuffer& b) {
  bool meets = a.last_op == b.first_op || b.last_op == a.first_op;
  return meets && a.offset == b.offset && a.bytes == b.bytes;
}

bool are_live_at_once(const PlacedBuffer& a, const PlacedBuffer& b) {
  return a.first_op <= b.last_op && b.first_op <= a.last_op;
}

std::string find_overlap(const std::vector<const PlacedBuffer*>& by_offset) {
  for (size_t i = 0; i < by_offset.size(); ++i) {
    const PlacedBuffer& lower = *by_offset[i];
    for (size_t j = i + 1; j < by_offset.size() && by_offset[j]->offset < lower.offset + lower.bytes; ++j) {
      if (are_live_at_once(lower, *by_offset[j]) && !takes_over(lower, *by_offset[j])) {
        return fmt::format("\"{}\" and \"{}\" hold bytes in one place at once", lower.name,
                           by_offset[j]->name);
      }
    }
  }
  return "";
}

// Of one phase on one arena; `end` becomes the end of what lies highest.
std::string find_problem(const PhaseLayout& phase, Home home, int64_t arena_bytes, int64_t& end) {
  std::vector<const PlacedBuffer*> by_offset;
  int last_op = std::max(0, static_cast<int>(phase.ops.size()) - 1);
  for (const PlacedBuffer& buffer : phase.buffers) {
    if (buffer.home != home) {
      continue;
    }
    bool inside = buffer.offset >= 0 && buffer.bytes >= 0 && buffer.bytes <= arena_bytes - buffer.offset;
    if (!inside) {
      return fmt::format("\"{}\" lies outside the arena of {} bytes", buffer.name, arena_bytes);
    }
    if (buffer.first_op < 0 || buffer.last_op < buffer.first_op || buffer.last_op > last_op) {
      return fmt::format("\"{}\" lives from op {} to op {} of {}", buffer.name, buffer.first_op,
                         buffer.last_op, phase.ops.size());
    }
    end = std::max(end, buffer.offset + buffer.bytes);
    by_offset.push_back(&buffer);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const PlacedBuffer* a, const PlacedBuffer* b) { return a->offset < b->offset; });
  return find_overlap(by_offset);
}

std::string find_moving(const Layout& layout) {
  std::map<std::string, const PlacedBuffer*> known;
  for (const PhaseLayout& phase : layout.phases) {
    for (const PlacedBuffer& buffer : phase.buffers) {
      if (!buffer.persists) {
        continue;
      }
      const PlacedBuffer& first = *known.try_emplace(buffer.name, &buffer).first->second;
      if (first.offset != buffer.offset || first.bytes != buffer.bytes || first.home != buffer.home) {
        return fmt::format("phase {}: \"{}\" persists, but lies elsewhere than before", phase.name,
                           buffer.name);
      }
    }
  }
  return "";
}

}  // namespace

PhaseLayout layout_of(const PhasePlan& phase) {
  PhaseLayout layout{.name = phase.name(), .ops = {}, .buffers = {}};
  for (const Op& op : phase.program.ops) {
    layout.ops.push_back(op.name);
  }
  int last_op = std::max(0, static_cast<int>(layout.ops.size()) - 1);
  std::vector<Interval> intervals = lifetimes(phase.program);
  for (size_t id = 0; id < phase.program.buffers.size(); ++id) {
    const Buffer& buffer = phase.program.buffers[id];
    if (phase.offsets[id] < 0) {
      continue;
    }
    bool persists = buffer.lifetime == Lifetime::persistent;
    Interval lives = persists ? Interval{0, last_op} : intervals[id];
    layout.buffers.push_back({.name = buffer.name,
                              .role = buffer.role,
                              .home = buffer.home,
                              .persists = persists,
                              .offset = phase.offsets[id],
                              .bytes = align_up(buffer.max_bytes()),
                              .first_op = lives.first,
                              .last_op = lives.last});
  }
  return layout;
}

Layout layout_of(const Plan& plan) {
  Layout layout{.arena_bytes = plan.arena_bytes, .context_bytes = plan.context_bytes, .phases = {}};
  for (const PhasePlan& phase : plan.phases) {
    layout.phases.push_back(layout_of(phase));
  }
  return layout;
}

std::vector<int64_t> live_bytes(const PhaseLayout& phase) {
  size_t ops = std::max<size_t>(1, phase.ops.size());
  std::vector<int64_t> changes(ops + 1, 0);
  std::set<std::tuple<int, int64_t, int64_t>> ends;  // op, offset and bytes
  for (const PlacedBuffer& buffer : phase.buffers) {
    if (buffer.home == Home::device && !buffer.persists) {
      changes[static_cast<size_t>(buffer.first_op)] += buffer.bytes;
      changes[static_cast<size_t>(buffer.last_op) + 1] -= buffer.bytes;
      if (buffer.first_op < buffer.last_op) {
        ends.emplace(buffer.last_op, buffer.offset, buffer.bytes);
      }
    }
  }
  std::vector<int64_t> live(ops, 0);
  int64_t sum = 0;
  for (size_t op = 0; op < ops; ++op) {
    sum += changes[op];
    live[op] = sum;
  }
  for (const PlacedBuffer& buffer : phase.buffers) {
    bool counts = buffer.home == Home::device && !buffer.persists;
    if (counts && ends.contains({buffer.first_op, buffer.offset, buffer.bytes})) {
      live[static_cast<size_t>(buffer.first_op)] -= buffer.bytes;
    }
  }
  return live;
}

int64_t persistent_bytes(const PhaseLayout& phase) {
  int64_t end = 0;
  for (const PlacedBuffer& buffer : phase.buffers) {
    bool counts = buffer.home == Home::device && buffer.persists;
    end = std::max(end, counts ? buffer.offset + buffer.bytes : 0);
  }
  return end;
}

int64_t persistent_bytes(const Layout& layout) {
  int64_t end = 0;
  for (const PhaseLayout& phase : layout.phases) {
    end = std::max(end, persistent_bytes(phase));
  }
  return end;
}

Json layout_to_json(const Layout& layout) {
  Json arenas = Json::object();
  for (int home = 0; home < kHomeCount; ++home) {
    arenas[std::string(name_of(static_cast<Home>(home)))] = layout.arena_bytes[static_cast<size_t>(home)];
  }
  Json phases = Json::array();
  for (const PhaseLayout& phase : layout.phases) {
    Json buffers = Json::array();
    for (const PlacedBuffer& buffer : phase.buffers) {
      buffers.push_back(buffer_to_json(buffer));
    }
    phases.push_back({{"name", phase.name}, {"ops", phase.ops}, {"buffers", std::move(buffers)}});
  }
  return {{"arena_bytes", arenas}, {"context_bytes", layout.context_bytes}, {"phases", std::move(phases)}};
}

Layout layout_from_json(const Json& json, const std::string& path) {
  Layout layout;
  layout.context_bytes = json_integer(json, "context_bytes", path);
  if (!json.contains("arena_bytes") || !json["arena_bytes"].is_object()) {
    throw bad_input(fmt::format("{}: has no \"arena_bytes\"", path));
  }
  for (int home = 0; home < kHomeCount; ++home) {
    layout.arena_bytes[static_cast<size_t>(home)] =
        json_integer(json["arena_bytes"], name_of(static_cast<Home>(home)), path);
  }
  for (const Json& one : list_of(json, "phases", path)) {
    PhaseLayout phase;
    phase.name = json_string(one, "name", "", path);
    std::string place = fmt::format("{}, phase \"{}\"", path, phase.name);
    for (const Json& op : list_of(one, "ops", place)) {
      if (!op.is_string()) {
        throw bad_input(fmt::format("{}: \"ops\" holds something else than names", place));
      }
      phase.ops.push_back(op.get<std::string>());
    }
    for (const Json& buffer : list_of(one, "buffers", place)) {
      phase.buffers.push_back(buffer_from_json(buffer, place));
    }
    layout.phases.push_back(std::move(phase));
  }
  return layout;
}

std::string find_layout_problem(const Layout& layout) {
  for (int home = 0; home < kHomeCount; ++home) {
    int64_t arena_bytes = layout.arena_bytes[static_cast<size_t>(home)];
    int64_t end = 0;
    for (const PhaseLayout& phase : layout.phases) {
      std::string problem = find_problem(phase, static_cast<Home>(home), arena_bytes, end);
      if (!problem.empty()) {
        return fmt::format("phase {}: {}", phase.name, problem);
      }
    }
    // Of the host's, a part is for the copies that checkpoints are written from.
    if (static_cast<Home>(home) == Home::device && end != arena_bytes) {
      return fmt::format("the device's arena has {} bytes, but what lies in it ends at {}", arena_bytes, end);
    }
  }
  return find_moving(layout);
}

}  // namespace snug
