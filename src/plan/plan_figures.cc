// From a plan, by way of its JSON.
#include "plan/plan_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "io/printable.h"
#include "plan/layout.h"
#include "plan/plan_json.h"
#include "program/names.h"

namespace snug {
namespace {

const Json& member(const Json& object, const char* key, Json::value_t type, const std::string& path) {
  auto found = object.is_object() ? object.find(key) : object.end();
  if (!object.is_object() || found == object.end() || found->type() != type) {
    throw bad_input(fmt::format("{}: no {} in it as snug writes them", in_quotes(path), key));
  }
  return *found;
}

// Far above any real plan; keeps sums within 64 bits.
constexpr int64_t kMostBytes = int64_t{1} << 56;

int64_t size_in(const Json& object, std::string_view key, const std::string& path) {
  int64_t size = json_integer(object, key, path);
  if (size < 0 || size > kMostBytes) {
    throw bad_input(fmt::format("{}: {} is {}, which is no size of a plan", in_quotes(path), key, size));
  }
  return size;
}

BytesByName read_roles(const Json& object, const std::string& path) {
  BytesByName roles;
  for (const auto& [name, bytes] : member(object, "roles", Json::value_t::object, path).items()) {
    roles[name] = size_in(object["roles"], name, path);
  }
  return roles;
}

// "layers.12.gate_up" without its number: the same buffer of all layers is one.
std::string without_layer(const std::string& name) {
  constexpr std::string_view kLayers = "layers.";
  size_t at = name.find(kLayers);
  if (at == std::string::npos) {
    return name;
  }
  size_t end = name.find_first_not_of("0123456789", at + kLayers.size());
  return end == std::string::npos || name[end] != '.' ? name : name.substr(0, at) + name.substr(end + 1);
}

// Where the last buffer on the device ends.
int64_t device_end(const Layout& layout) {
  int64_t end = 0;
  for (const PhaseLayout& phase : layout.phases) {
    for (const PlacedBuffer& buffer : phase.buffers) {
      end = std::max(end, buffer.home == Home::device ? buffer.offset + buffer.bytes : 0);
    }
  }
  return end;
}

// By role and name, what is live where the phase with the highest peak has it; what persists for other phases
// lies there too.
std::map<std::string, BytesByName> buffers_at_peak(const Layout& layout, const std::string& peak_phase) {
  std::map<std::string, BytesByName> buffers;
  std::set<std::string> persistent;
  for (const PhaseLayout& phase : layout.phases) {
    std::vector<int64_t> live = live_bytes(phase);
    auto peak = static_cast<int>(std::max_element(live.begin(), live.end()) - live.begin());
    for (const PlacedBuffer& buffer : phase.buffers) {
      bool is_live = buffer.persists
                         ? persistent.insert(buffer.name).second
                         : phase.name == peak_phase && buffer.first_op <= peak && peak <= buffer.last_op;
      if (buffer.home == Home::device && is_live) {
        buffers[std::string(name_of(buffer.role))][without_layer(buffer.name)] += buffer.bytes;
      }
    }
  }
  return buffers;
}

LayerValues layer_values_in(const Layout& layout) {
  LayerValues values;
  for (const PhaseLayout& phase : layout.phases) {
    for (const PlacedBuffer& buffer : phase.buffers) {
      std::optional<LayerValue> value = find_layer_value(buffer.name);
      values = value && phase.name == kTrainPhase ? values.with(*value) : values;
    }
  }
  return values;
}

void add_layout(PlanFigures& figures, const Layout& layout) {
  figures.buffers = buffers_at_peak(layout, figures.peak_phase);
  figures.layer_values = layer_values_in(layout);
}

}  // namespace

PlanFigures figures_of(const Plan& plan) {
  PlanFigures figures = read_plan_figures(plan_to_json(plan), "the plan");
  add_layout(figures, layout_of(plan));
  return figures;
}

PlanFigures read_plan_figures(const Json& plan, const std::string& path) {
  PlanFigures figures;
  const Json& phases = member(plan, "phases", Json::value_t::array, path);
  figures.backend = json_string(plan, "backend", "", path);
  figures.peak_bytes = size_in(plan, "peak_bytes", path);
  if (plan.contains("limit_bytes") && !plan["limit_bytes"].is_null()) {
    figures.limit_bytes = size_in(plan, "limit_bytes", path);
  }
  figures.context_bytes = size_in(plan, "context_bytes", path);
  figures.parameters = size_in(plan, "parameters", path);
  figures.trainable_parameters = size_in(plan, "trainable_parameters", path);
  figures.peak_phase = json_string(plan, "peak_phase", "", path);
  figures.roles = read_roles(plan, path);
  for (const Json& phase : phases) {
    figures.phases.push_back({.name = json_string(phase, "name", "", path),
                              .peak_bytes = size_in(phase, "peak_bytes", path),
                              .roles = read_roles(phase, path)});
  }
  if (plan.contains("layout")) {
    Layout layout = layout_from_json(plan["layout"], path);
    // A stage has the arena of the largest one; what lies in it may end before.
    int64_t& arena_bytes = layout.arena_bytes[static_cast<size_t>(Home::device)];
    arena_bytes = std::min(arena_bytes, device_end(layout));
    if (std::string problem = find_layout_problem(layout); !problem.empty()) {
      throw bad_input(fmt::format("{}: not as snug wrote it: {}", in_quotes(path), problem));
    }
    add_layout(figures, layout);
  }
  return figures;
}

}  // namespace snug
