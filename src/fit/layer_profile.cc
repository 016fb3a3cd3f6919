// Live bytes op by op, and who keeps them.
#include "fit/layer_profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ops/effects.h"
#include "plan/items.h"
#include "plan/speed.h"

namespace snug {
namespace {

// Bytes that are live at each op.
std::vector<int64_t> live_at_ops(const Program& program, const std::vector<PlacementItem>& items) {
  std::vector<int64_t> change(program.ops.size() + 1, 0);
  for (const PlacementItem& item : items) {
    change[static_cast<size_t>(item.interval.first)] += item.bytes;
    change[static_cast<size_t>(item.interval.last) + 1] -= item.bytes;
  }
  int64_t live = 0;
  for (int64_t& bytes : change) {
    live += bytes;
    bytes = live;
  }
  change.pop_back();
  return change;
}

// By op: how many of the first layers have begun and still wait for their backward ops to end.
std::vector<size_t> waiting_layers(const Program& program) {
  std::vector<size_t> waiting(program.ops.size());
  size_t now = 0;
  for (size_t index = 0; index < program.ops.size(); ++index) {  // forward: all up to the last that began
    const Op& op = program.ops[index];
    now = op.layer == kNoLayer || op.is_backward ? now : static_cast<size_t>(op.layer) + 1;
    waiting[index] = now;
  }
  now = 0;
  for (size_t index = program.ops.size(); index-- > 0;) {  // backward: all up to the one that comes next
    const Op& op = program.ops[index];
    now = op.layer == kNoLayer || !op.is_backward ? now : static_cast<size_t>(op.layer) + 1;
    waiting[index] = op.is_backward ? now : waiting[index];
  }
  return waiting;
}

}  // namespace

PolicyProfile profile_layers(const Program& program, int64_t layers, const StepCut& step,
                             const DeviceRates& rates) {
  PolicyProfile profile;
  profile.layers.resize(static_cast<size_t>(layers));
  profile.live_beside.assign(static_cast<size_t>(layers) + 1, 0);
  std::vector<PlacementItem> items = items_on(program, Home::device, lifetimes(program)).items;
  for (const PlacementItem& item : items) {
    const Op& first = program.ops[static_cast<size_t>(item.interval.first)];
    const Op& last = program.ops[static_cast<size_t>(item.interval.last)];
    if (!first.is_backward && last.is_backward && last.layer != kNoLayer) {
      profile.layers[static_cast<size_t>(last.layer)].kept_bytes += item.bytes;
    }
  }
  std::vector<int64_t> kept_before = {0};
  for (const LayerProfile& layer : profile.layers) {
    kept_before.push_back(kept_before.back() + layer.kept_bytes);
  }
  std::vector<int64_t> live = live_at_ops(program, items);
  std::vector<size_t> waiting = waiting_layers(program);
  Program expected = buffers_at_expected_size(program, step);
  double times = expected_micro_batches(step);
  for (size_t index = 0; index < program.ops.size(); ++index) {
    const Op& op = program.ops[index];
    if (op.layer == kNoLayer) {
      int64_t& most = profile.live_beside[waiting[index]];
      most = std::max(most, live[index] - kept_before[waiting[index]]);
      continue;
    }
    LayerProfile& layer = profile.layers[static_cast<size_t>(op.layer)];
    layer.live_bytes = std::max(layer.live_bytes, live[index] - kept_before[static_cast<size_t>(op.layer)]);
    layer.seconds += times * op_seconds(expected, op, rates);
  }
  return profile;
}

FewLayers few_layers(const ModelSpec& spec, const Program& program) {
  using Signature = std::vector<std::pair<OpKind, int64_t>>;
  std::vector<Signature> signatures(static_cast<size_t>(spec.all_layers()));
  for (const Op& op : program.ops) {
    for (BufferId id : op.outputs) {
      if (op.layer != kNoLayer && id != kNoBuffer) {
        signatures[static_cast<size_t>(op.layer)].emplace_back(op.kind, program.buffer(id).max_bytes());
      }
    }
  }
  FewLayers few{.spec = spec, .layer_of = {}};
  few.spec.encoder.clear();
  few.spec.decoder.clear();
  std::map<Signature, size_t> known;
  for (size_t layer = 0; layer < signatures.size(); ++layer) {
    auto [place, is_new] = known.try_emplace(signatures[layer], known.size());
    few.layer_of.push_back(place->second);
    if (is_new) {
      bool is_encoder = layer < spec.encoder.size();
      (is_encoder ? few.spec.encoder : few.spec.decoder)
          .push_back(is_encoder ? spec.encoder[layer] : spec.decoder[layer - spec.encoder.size()]);
    }
  }
  return few;
}

PolicyProfile of_all_layers(const PolicyProfile& profile, const FewLayers& few, const ModelSpec& spec) {
  PolicyProfile all{.layers = {}, .live_beside = std::vector<int64_t>(few.layer_of.size() + 1, 0)};
  for (size_t layer : few.layer_of) {
    all.layers.push_back(profile.layers[layer]);
  }
  // Ops of no layer stand before, between and behind the stacks.
  all.live_beside.front() = profile.live_beside.front();
  all.live_beside[spec.encoder.size()] = profile.live_beside[few.spec.encoder.size()];
  all.live_beside.back() = profile.live_beside.back();
  return all;
}

}  // namespace snug
