// LoRA with PEFT's semantics and names.
#include "compile/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/names.h"
#include "compile/module_names.h"
#include "ops/table.h"
#include "program/builder.h"

namespace snug {
namespace {

constexpr const char* kTargets = "lora.target_modules";

std::string last_component(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

// Linear layers inside the model's blocks; the output head is not one of them, as in PEFT's "all-linear".
bool is_adaptable(const Program& program, const Op& op) {
  return op.kind == OpKind::linear && op.layer != kNoLayer &&
         is_model_parameter(program.buffer(op.inputs[1]));
}

void require_known_targets(const Program& program, const std::vector<std::string>& targets) {
  std::vector<std::string> modules;
  std::set<std::string> short_names;
  for (const Op& op : program.ops) {
    if (is_adaptable(program, op)) {
      for (const TensorPart& part : program.buffer(op.inputs[1]).parts) {
        modules.push_back(module_of(part));
        short_names.insert(last_component(modules.back()));
      }
    }
  }
  for (const std::string& target : targets) {
    const std::vector<std::string> one = {target};
    ModuleNames selected(is_expression(targets) ? targets : one, kTargets);
    if (std::any_of(modules.begin(), modules.end(),
                    [&](const std::string& module) { return selected.contains(module); })) {
      continue;
    }
    std::vector<std::string> known(short_names.begin(), short_names.end());
    std::string nearest = nearest_name(target, known);
    throw bad_input(
        fmt::format("lora.target_modules: \"{}\" names no linear layer of this model{}; it has {}, or "
                    "use all-linear",
                    target, nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest),
                    fmt::join(known, ", ")));
  }
}

// Layers within one product whose adapters have one rank and scale.
struct AdapterGroup {
  LoraAttributes attributes;
  std::vector<TensorPart> a_parts = {};
  std::vector<TensorPart> b_parts = {};
  int64_t b_rows = 0;

  void add(const TensorPart& part) {
    auto index = static_cast<int64_t>(attributes.parts.size());
    attributes.parts.push_back({part.row_begin, b_rows, part.rows});
    std::string prefix = "base_model.model." + module_of(part);
    a_parts.push_back({{prefix + ".lora_A.weight"}, index * attributes.rank, attributes.rank});
    b_parts.push_back({{prefix + ".lora_B.weight"}, b_rows, part.rows});
    b_rows += part.rows;
  }
};

// Writes the adapters of one linear op behind it.
class AdapterWriter {
 public:
  AdapterWriter(Builder& builder, const AdapterOptions& options)
      : builder_(builder),
        options_(options),
        targets_(options.lora.target_modules, kTargets),
        excluded_(options.lora.exclude_modules, "lora.exclude_modules"),
        ranks_(options.lora.rank_pattern, "lora.rank_pattern"),
        alphas_(options.lora.alpha_pattern, "lora.alpha_pattern") {}

  void write(const Op& linear) {
    const Buffer weight = builder_.buffer(linear.inputs[1]);
    std::vector<AdapterGroup> groups;
    size_t selected = 0;
    for (const TensorPart& part : weight.parts) {
      std::string module = module_of(part);
      if (targets_.contains(module) && !excluded_.contains(module)) {
        group_of(module, groups).add(part);
        ++selected;
      }
    }
    BufferId x = kNoBuffer;  // behind the dropout that the groups share
    for (size_t i = 0; i < groups.size(); ++i) {
      write_group(linear, weight.name, groups[i], i == 0 ? "" : fmt::format(".{}", i), x);
    }
    wrote_any_ = wrote_any_ || !groups.empty();
    mark_bias(linear, selected);
  }

  bool wrote_any() const { return wrote_any_; }

 private:
  AdapterGroup& group_of(const std::string& module, std::vector<AdapterGroup>& groups) const {
    const LoraSection& lora = options_.lora;
    int64_t rank = ranks_.of(module, lora.r);
    float scale = lora_scale(alphas_.of(module, lora.lora_alpha), rank, lora.use_rslora);
    auto found = std::find_if(groups.begin(), groups.end(), [&](const AdapterGroup& group) {
      return group.attributes.rank == rank && group.attributes.scale == scale;
    });
    return found != groups.end() ? *found : groups.emplace_back(AdapterGroup{{scale, rank, {}}});
  }

  void write_group(const Op& linear, const std::string& weight_name, AdapterGroup& group,
                   const std::string& suffix, BufferId& dropped_x) {
    const Buffer x = builder_.buffer(linear.inputs[0]);
    const LoraAttributes& attributes = group.attributes;
    Dim stacked = fixed(static_cast<int64_t>(attributes.parts.size()) * attributes.rank);
    BufferId a =
        adapter(weight_name + ".lora_A" + suffix, x.dtype, {stacked, x.dims[1]}, std::move(group.a_parts));
    BufferId b = adapter(weight_name + ".lora_B" + suffix, x.dtype,
                         {fixed(group.b_rows), fixed(attributes.rank)}, std::move(group.b_parts));
    BufferId down = builder_.temporary(linear.name + ".lora_down" + suffix, x.dtype, {x.dims[0], stacked});
    dropped_x = dropped_x == kNoBuffer ? dropped(linear) : dropped_x;
    append(linear, OpKind::linear, ".lora_down" + suffix, {dropped_x, a}, down, LinearAttributes{});
    append(linear, OpKind::lora_up, ".lora_up" + suffix, {down, b}, linear.outputs[0], attributes)
        .accumulates = 1;
  }

  void mark_bias(const Op& linear, size_t selected) {
    if (linear.inputs.size() < 3 || linear.inputs[2] == kNoBuffer || options_.lora.bias == LoraBias::none) {
      return;
    }
    Buffer& bias = builder_.program().buffer(linear.inputs[2]);
    if (options_.lora.bias == LoraBias::lora_only && selected != 0 && selected != bias.parts.size()) {
      throw bad_input(fmt::format(
          "lora.bias: lora_only trains the biases of {} out of {} layers that share one buffer ({}): "
          "adapt all of them, or set lora.bias to all or none",
          selected, bias.parts.size(), bias.name));
    }
    bias.trainable = options_.lora.bias == LoraBias::all || selected != 0;
  }

  BufferId adapter(std::string name, DType dtype, Dims dims, std::vector<TensorPart> parts) {
    BufferId id = builder_.persistent(std::move(name), dtype, std::move(dims), Role::adapters, Origin::file);
    builder_.program().buffer(id).parts = std::move(parts);
    builder_.program().buffer(id).trainable = true;
    return id;
  }

  BufferId dropped(const Op& linear) {
    auto probability = static_cast<float>(options_.lora.lora_dropout);
    BufferId x = linear.inputs[0];
    if (!options_.training || probability <= 0) {
      return x;
    }
    const Buffer shape = builder_.buffer(x);
    BufferId random = builder_.random_of(x);
    BufferId y = builder_.temporary(linear.name + ".lora_dropout", shape.dtype, shape.dims);
    append(linear, OpKind::dropout, ".lora_dropout", {x, random}, y,
           DropoutAttributes{probability, stream_++});
    return y;
  }

  Op& append(const Op& linear, OpKind kind, const std::string& suffix, std::vector<BufferId> inputs,
             BufferId output, Attributes attributes) {
    Op& op = builder_.append(kind, linear.name + suffix, std::move(inputs), {output}, std::move(attributes));
    op.layer = linear.layer;
    return op;
  }

  Builder& builder_;
  const AdapterOptions& options_;
  ModuleNames targets_;
  ModuleNames excluded_;
  ModuleValues<int64_t> ranks_;
  ModuleValues<double> alphas_;
  uint64_t stream_ = 1;
  bool wrote_any_ = false;
};

}  // namespace

float lora_scale(double alpha, int64_t rank, bool use_rslora) {
  auto r = static_cast<double>(rank);
  return static_cast<float>(alpha / (use_rslora ? std::sqrt(r) : r));
}

std::string module_of(const TensorPart& part) {
  const std::string& name = part.names.front();
  return name.substr(0, name.rfind('.'));
}

Program add_adapters(Program forward, const AdapterOptions& options) {
  require_known_targets(forward, options.lora.target_modules);
  std::vector<Op> ops = std::move(forward.ops);
  forward.ops.clear();
  for (Buffer& buffer : forward.buffers) {
    buffer.trainable = false;
  }
  Builder builder(std::move(forward));
  AdapterWriter writer(builder, options);
  for (const Op& op : ops) {
    builder.program().ops.push_back(op);
    if (is_adaptable(builder.program(), op)) {
      writer.write(op);
    }
  }
  if (!writer.wrote_any()) {
    throw bad_input("lora.exclude_modules leaves no layer to adapt: name fewer");
  }
  Program program = builder.finish();
  verify_with_shapes(program);
  return program;
}

}  // namespace snug
