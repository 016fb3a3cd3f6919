// LoRA with PEFT's semantics and names.
#include "compile/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/names.h"
#include "compile/module_names.h"
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

struct AdapterKind {
  Role role = Role::adapters;
  const char* name = "";  // in the names of buffers and ops
  float dropout = 0;
};

// Rank 0: the module has no adapter.
struct AdapterShape {
  int64_t rank = 0;
  float scale = 1;
};
using ShapeOf = std::function<AdapterShape(const std::string& module)>;

// Writes adapters of one kind behind linear ops.
class AdapterWriter {
 public:
  AdapterWriter(Builder& builder, const AdapterKind& kind, const ShapeOf& shape_of)
      : builder_(builder), kind_(kind), shape_of_(shape_of) {}

  // Returns how many of the layers in the product got one.
  size_t write(const Op& linear) {
    const Buffer weight = builder_.buffer(linear.inputs[1]);
    std::vector<AdapterGroup> groups;
    size_t selected = 0;
    for (const TensorPart& part : weight.parts) {
      AdapterShape shape = shape_of_(module_of(part));
      if (shape.rank > 0) {
        group_of(shape, groups).add(part);
        ++selected;
      }
    }
    BufferId x = kNoBuffer;  // behind the dropout that the groups share
    for (size_t i = 0; i < groups.size(); ++i) {
      write_group(linear, weight.name, groups[i], i == 0 ? "" : fmt::format(".{}", i), x);
    }
    return selected;
  }

 private:
  static AdapterGroup& group_of(const AdapterShape& shape, std::vector<AdapterGroup>& groups) {
    auto found = std::find_if(groups.begin(), groups.end(), [&](const AdapterGroup& group) {
      return group.attributes.rank == shape.rank && group.attributes.scale == shape.scale;
    });
    return found != groups.end() ? *found : groups.emplace_back(AdapterGroup{{shape.scale, shape.rank, {}}});
  }

  std::string name(const char* what, const std::string& suffix) const { return kind_.name + (what + suffix); }

  void write_group(const Op& linear, const std::string& weight_name, AdapterGroup& group,
                   const std::string& suffix, BufferId& dropped_x) {
    const Buffer x = builder_.buffer(linear.inputs[0]);
    const LoraAttributes& attributes = group.attributes;
    Dim stacked = fixed(static_cast<int64_t>(attributes.parts.size()) * attributes.rank);
    BufferId a =
        adapter(weight_name + name("A", suffix), x.dtype(), {stacked, x.dims[1]}, std::move(group.a_parts));
    BufferId b = adapter(weight_name + name("B", suffix), x.dtype(),
                         {fixed(group.b_rows), fixed(attributes.rank)}, std::move(group.b_parts));
    BufferId down = builder_.temporary(linear.name + name("down", suffix), x.dtype(), {x.dims[0], stacked});
    dropped_x = dropped_x == kNoBuffer ? dropped(linear) : dropped_x;
    append(linear, OpKind::linear, name("down", suffix), {dropped_x, a}, down, LinearAttributes{});
    append(linear, OpKind::lora_up, name("up", suffix), {down, b}, linear.outputs[0], attributes)
        .accumulates = 1;
  }

  BufferId adapter(std::string name, DType dtype, Dims dims, std::vector<TensorPart> parts) {
    BufferId id = builder_.persistent(std::move(name), dtype, std::move(dims), kind_.role, Origin::file);
    builder_.program().buffer(id).parts = std::move(parts);
    builder_.program().buffer(id).trainable = kind_.role == Role::adapters;
    return id;
  }

  BufferId dropped(const Op& linear) {
    BufferId x = linear.inputs[0];
    if (kind_.dropout <= 0) {
      return x;
    }
    const Buffer shape = builder_.buffer(x);
    BufferId random = builder_.random_of(x);
    BufferId y = builder_.temporary(linear.name + ".lora_dropout", shape.dtype(), shape.dims);
    append(linear, OpKind::dropout, ".lora_dropout", {x, random}, y,
           DropoutAttributes{kind_.dropout, stream_++});
    return y;
  }

  Op& append(const Op& linear, OpKind kind, const std::string& suffix, std::vector<BufferId> inputs,
             BufferId output, Attributes attributes) {
    Op& op = builder_.append(kind, linear.name + suffix, std::move(inputs), {output}, std::move(attributes));
    op.layer = linear.layer;
    return op;
  }

  Builder& builder_;
  const AdapterKind& kind_;
  const ShapeOf& shape_of_;
  uint64_t stream_ = 1;
};

// Which of the biases beside adapted layers are trained.
void mark_bias(Program& program, const Op& linear, LoraBias trained, size_t selected) {
  if (linear.inputs.size() < 3 || linear.inputs[2] == kNoBuffer || trained == LoraBias::none) {
    return;
  }
  Buffer& bias = program.buffer(linear.inputs[2]);
  if (trained == LoraBias::lora_only && selected != 0 && selected != bias.parts.size()) {
    throw bad_input(fmt::format(
        "lora.bias: lora_only trains the biases of {} out of {} layers that share one buffer ({}): "
        "adapt all of them, or set lora.bias to all or none",
        selected, bias.parts.size(), bias.name));
  }
  bias.trainable = trained == LoraBias::all || selected != 0;
}

// `wrote` is told of each linear product and how many of its layers got an adapter.
using Wrote = std::function<void(Program& program, const Op& linear, size_t selected)>;

Program with_adapters(Program forward, const AdapterKind& kind, const ShapeOf& shape_of, const Wrote& wrote) {
  std::vector<Op> ops = std::move(forward.ops);
  forward.ops.clear();
  for (Buffer& buffer : forward.buffers) {
    buffer.trainable = false;
  }
  Builder builder(std::move(forward));
  AdapterWriter writer(builder, kind, shape_of);
  for (const Op& op : ops) {
    builder.program().ops.push_back(op);
    if (is_adaptable(builder.program(), op)) {
      wrote(builder.program(), op, writer.write(op));
    }
  }
  return builder.finish();
}

}  // namespace

float lora_scale(double alpha, int64_t rank, bool use_rslora) {
  auto r = static_cast<double>(rank);
  return static_cast<float>(alpha / (use_rslora ? std::sqrt(r) : r));
}

std::string module_of(const TensorPart& part) {
  const std::string& name = part.names.front();
  return name.substr(0, name.rfind('.'));
}

AdapterShapes::AdapterShapes(const LoraSection& lora)
    : lora_(lora),
      targets_(lora.target_modules, kTargets),
      excluded_(lora.exclude_modules, "lora.exclude_modules"),
      ranks_(lora.rank_pattern, "lora.rank_pattern"),
      alphas_(lora.alpha_pattern, "lora.alpha_pattern") {}

bool AdapterShapes::adapts(const std::string& module) const {
  return targets_.contains(module) && !excluded_.contains(module);
}

int64_t AdapterShapes::rank_of(const std::string& module) const {
  return ranks_.of(module, lora_.r);
}

float AdapterShapes::scale_of(const std::string& module) const {
  return lora_scale(alphas_.of(module, lora_.lora_alpha), rank_of(module), lora_.use_rslora);
}

Program add_adapters(Program forward, const LoraSection& lora, bool training) {
  require_known_targets(forward, lora.target_modules);
  AdapterShapes shapes(lora);
  auto shape_of = [&](const std::string& module) {
    return shapes.adapts(module) ? AdapterShape{shapes.rank_of(module), shapes.scale_of(module)}
                                 : AdapterShape{};
  };
  bool wrote_any = false;
  AdapterKind kind{.role = Role::adapters,
                   .name = ".lora_",
                   .dropout = training ? static_cast<float>(lora.lora_dropout) : 0};
  Program result = with_adapters(std::move(forward), kind, shape_of,
                                 [&](Program& program, const Op& linear, size_t selected) {
                                   wrote_any = wrote_any || selected > 0;
                                   mark_bias(program, linear, lora.bias, selected);
                                 });
  if (!wrote_any) {
    throw bad_input("lora.exclude_modules leaves no layer to adapt: name fewer");
  }
  return result;
}

Program add_frozen_adapters(Program forward, const std::vector<LoraSection>& stacked) {
  std::vector<AdapterShapes> all(stacked.begin(), stacked.end());
  auto shape_of = [&](const std::string& module) {
    AdapterShape sum;
    for (const AdapterShapes& one : all) {
      sum.rank += one.adapts(module) ? one.rank_of(module) : 0;
    }
    if (all.size() == 1 && sum.rank > 0) {
      sum.scale = all.front().scale_of(module);
    }
    return sum;
  };
  AdapterKind kind{.role = Role::frozen_adapters, .name = ".frozen_"};
  return with_adapters(std::move(forward), kind, shape_of, [](Program&, const Op&, size_t) {});
}

}  // namespace snug
