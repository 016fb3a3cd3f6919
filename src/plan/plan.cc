// Placement of persistent buffers first, of each phase's own buffers above them.
#include "plan/plan.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/bytes.h"
#include "base/check.h"
#include "base/sizes.h"
#include "ops/effects.h"
#include "ops/table.h"
#include "plan/items.h"
#include "plan/lower.h"
#include "plan/placement.h"
#include "program/code_layout.h"

namespace snug {
namespace {

// A buffer of codes shows in several rows of the report; its padding goes with the codes.
void add_to_rows(const Buffer& buffer, std::array<int64_t, kRoleCount>& role_bytes) {
  int64_t bytes = padded_bytes(buffer);
  if (buffer.format.is_coded()) {
    CodeLayout layout = code_layout(buffer);
    Role scales = buffer.role == Role::optimizer_states ? Role::state_scales : Role::weight_scales;
    role_bytes[static_cast<size_t>(scales)] += layout.scale_bytes;
    role_bytes[static_cast<size_t>(Role::weight_maps)] += layout.map_bytes;
    bytes -= layout.scale_bytes + layout.map_bytes;
  }
  role_bytes[static_cast<size_t>(buffer.role)] += bytes;
}

// All offsets and sums of a plan are below the sum of everything, so that one is checked and no other.
void require_countable_bytes(const std::vector<Program>& programs) {
  int64_t total = 0;
  for (const Program& program : programs) {
    for (const Buffer& buffer : program.buffers) {
      total = add_sizes(total, padded_bytes(buffer), "the run's buffers together");
    }
  }
}

// Persistent buffers, in the order of their roles, each at one offset in all phases.
class PersistentLayout {
 public:
  explicit PersistentLayout(const std::vector<const Program*>& programs) { add(programs); }

  // Buffers that are not known yet come behind all that are.
  void add(const std::vector<const Program*>& programs) {
    auto known = static_cast<std::ptrdiff_t>(order_.size());
    for (const Program* program : programs) {
      for (const Buffer& buffer : program->buffers) {
        if (buffer.lifetime == Lifetime::persistent) {
          add(buffer);
        }
      }
    }
    std::stable_sort(order_.begin() + known, order_.end(),
                     [](const Buffer* a, const Buffer* b) { return a->role < b->role; });
    for (auto place = order_.begin() + known; place != order_.end(); ++place) {
      const Buffer* buffer = *place;
      int64_t& end = end_[static_cast<size_t>(buffer->home)];
      offsets_[buffer->name] = end;
      end += padded_bytes(*buffer);
    }
  }

  int64_t offset(const std::string& name) const {
    auto found = offsets_.find(name);
    SNUG_CHECK(found != offsets_.end(), "no phase has the persistent buffer " + name);
    return found->second;
  }
  int64_t end(Home home) const { return end_[static_cast<size_t>(home)]; }
  const std::vector<const Buffer*>& buffers() const { return order_; }

 private:
  void add(const Buffer& buffer) {
    auto [known, is_new] = known_.try_emplace(buffer.name, &buffer);
    if (is_new) {
      order_.push_back(&buffer);
      return;
    }
    bool same = known->second->format == buffer.format && known->second->dims == buffer.dims &&
                known->second->home == buffer.home;
    SNUG_CHECK(same, "two phases disagree on the persistent buffer " + buffer.name);
  }

  std::unordered_map<std::string_view, const Buffer*> known_;
  std::vector<const Buffer*> order_;
  std::unordered_map<std::string_view, int64_t> offsets_;
  std::array<int64_t, kHomeCount> end_{};
};

void place_on_arena(PhasePlan& phase, Home home, int64_t base, const std::vector<Interval>& intervals) {
  const Program& program = phase.program;
  auto [items, item_of] = items_on(program, home, intervals);
  Placement placement = place(items);
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    if (item_of[id] >= 0 && program.buffers[id].home == home) {
      phase.offsets[id] = base + placement.offsets[static_cast<size_t>(item_of[id])];
    }
  }
  phase.arenas[static_cast<size_t>(home)] = {base + placement.bytes, base + placement.lower_bound_bytes};
  if (home != Home::device) {
    return;
  }
  if (!program.ops.empty()) {
    phase.peak_op = program.ops[static_cast<size_t>(placement.peak_index)].name;
  }
  std::vector<bool> counted(items.size(), false);
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    bool live = item_of[id] >= 0 && intervals[id].first <= placement.peak_index &&
                placement.peak_index <= intervals[id].last;
    if (live && !counted[static_cast<size_t>(item_of[id])]) {
      counted[static_cast<size_t>(item_of[id])] = true;
      phase.live_at_peak.push_back(static_cast<BufferId>(id));
      add_to_rows(program.buffers[id], phase.role_bytes);
    }
  }
  std::stable_sort(phase.live_at_peak.begin(), phase.live_at_peak.end(), [&](BufferId a, BufferId b) {
    return padded_bytes(program.buffer(a)) > padded_bytes(program.buffer(b));
  });
}

PhasePlan place(Program program, const PersistentLayout& persistent) {
  PhasePlan phase;
  phase.program = std::move(program);
  phase.offsets.assign(phase.program.buffers.size(), -1);
  for (size_t id = 0; id < phase.program.buffers.size(); ++id) {
    const Buffer& buffer = phase.program.buffers[id];
    if (buffer.lifetime == Lifetime::persistent) {
      phase.offsets[id] = persistent.offset(buffer.name);
    }
  }
  std::vector<Interval> intervals = lifetimes(phase.program);
  for (int home = 0; home < kHomeCount; ++home) {
    place_on_arena(phase, static_cast<Home>(home), persistent.end(static_cast<Home>(home)), intervals);
  }
  for (const Buffer* buffer : persistent.buffers()) {
    if (buffer->home == Home::device) {
      add_to_rows(*buffer, phase.role_bytes);
    }
  }
  phase.placement_loss_bytes = phase.device().peak_bytes -
                               std::accumulate(phase.role_bytes.begin(), phase.role_bytes.end(), int64_t{0});
  return phase;
}

}  // namespace

int64_t Plan::all_bytes() const {
  return std::accumulate(arena_bytes.begin(), arena_bytes.end(), int64_t{0});
}

const PhasePlan& Plan::phase(std::string_view name) const {
  auto found =
      std::find_if(phases.begin(), phases.end(), [&](const PhasePlan& p) { return p.name() == name; });
  SNUG_CHECK(found != phases.end(), "no phase is named " + std::string(name));
  return *found;
}

const PhasePlan& Plan::largest_phase() const {
  return *std::max_element(phases.begin(), phases.end(), [](const PhasePlan& a, const PhasePlan& b) {
    return a.device().peak_bytes < b.device().peak_bytes;
  });
}

std::vector<PhasePlan> plan_phases(const Plan& plan, std::vector<Program> programs, const Device& device) {
  std::vector<const Program*> known;
  for (const PhasePlan& phase : plan.phases) {
    known.push_back(&phase.program);
  }
  std::vector<const Program*> further;
  for (Program& program : programs) {
    program = lower(std::move(program), device);
    further.push_back(&program);
  }
  PersistentLayout persistent(known);
  persistent.add(further);
  std::vector<PhasePlan> phases;
  for (Program& program : programs) {  // its buffers stay where they are, which is what `persistent` knows
    phases.push_back(place(std::move(program), persistent));
  }
  return phases;
}

void insert_phase(Plan& plan, PhasePlan phase, std::string_view before) {
  for (size_t home = 0; home < plan.arena_bytes.size(); ++home) {
    plan.arena_bytes[home] = std::max(plan.arena_bytes[home], phase.arenas[home].peak_bytes);
  }
  auto place = std::find_if(plan.phases.begin(), plan.phases.end(),
                            [&](const PhasePlan& one) { return one.name() == before; });
  plan.phases.insert(place, std::move(phase));
}

Plan make_plan(std::vector<Program> programs, const Device& device, std::optional<int64_t> limit_bytes) {
  Plan plan;
  plan.backend = device.name();
  plan.threads = device.threads();
  plan.context_bytes = device.context_bytes();
  plan.limit_bytes = limit_bytes;
  for (Program& program : programs) {
    program = lower(std::move(program), device);
  }
  require_countable_bytes(programs);
  std::vector<const Program*> all;
  for (const Program& program : programs) {
    all.push_back(&program);
  }
  PersistentLayout persistent(all);
  for (const Buffer* buffer : persistent.buffers()) {
    plan.parameters += is_model_parameter(*buffer) ? buffer->max_elements() : 0;
    plan.trainable_parameters += buffer->trainable ? buffer->max_elements() : 0;
  }
  for (Program& program : programs) {
    insert_phase(plan, place(std::move(program), persistent), "");
  }
  return plan;
}

}  // namespace snug
