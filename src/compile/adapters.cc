// LoRA with PEFT's semantics and names.
#include "compile/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/names.h"
#include "ops/table.h"
#include "program/builder.h"

namespace snug {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr std::string_view kWeightSuffix = ".weight";

std::string module_of(const TensorPart& part) {
  const std::string& name = part.names.front();
  return name.ends_with(kWeightSuffix) ? name.substr(0, name.size() - kWeightSuffix.size()) : name;
}

std::string last_component(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

// Linear layers inside the model's blocks; the output head is not one of them, as in PEFT's "all-linear".
bool is_adaptable(const Program& program, const Op& op) {
  return op.kind == OpKind::linear && op.layer != kNoLayer && !program.buffer(op.inputs[1]).parts.empty();
}

bool selects(const std::string& target, const std::string& module) {
  return target == kAllLinear || module == target || module.ends_with("." + target);
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
    if (std::any_of(modules.begin(), modules.end(),
                    [&](const std::string& module) { return selects(target, module); })) {
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

// Writes the adapters of one linear op behind it.
class AdapterWriter {
 public:
  AdapterWriter(Builder& builder, const AdapterOptions& options) : builder_(builder), options_(options) {}

  void write(const Op& linear) {
    const Buffer weight = builder_.buffer(linear.inputs[1]);
    LoraAttributes attributes{lora_scale(options_.lora), options_.lora.r, {}};
    std::vector<TensorPart> a_parts;
    std::vector<TensorPart> b_parts;
    int64_t b_rows = 0;
    for (const TensorPart& part : weight.parts) {
      std::string module = module_of(part);
      if (!selected(module)) {
        continue;
      }
      auto index = static_cast<int64_t>(attributes.parts.size());
      attributes.parts.push_back({part.row_begin, b_rows, part.rows});
      std::string prefix = "base_model.model." + module;
      a_parts.push_back({{prefix + ".lora_A.weight"}, index * attributes.rank, attributes.rank});
      b_parts.push_back({{prefix + ".lora_B.weight"}, b_rows, part.rows});
      b_rows += part.rows;
    }
    if (attributes.parts.empty()) {
      return;
    }
    const Buffer x = builder_.buffer(linear.inputs[0]);
    Dim stacked = fixed(static_cast<int64_t>(attributes.parts.size()) * attributes.rank);
    BufferId a = adapter(weight.name + ".lora_A", x.dtype, {stacked, x.dims[1]}, std::move(a_parts));
    BufferId b = adapter(weight.name + ".lora_B", x.dtype, {fixed(b_rows), fixed(attributes.rank)},
                         std::move(b_parts));
    BufferId down = builder_.temporary(linear.name + ".lora_down", x.dtype, {x.dims[0], stacked});
    append(linear, OpKind::linear, ".lora_down", {dropped(linear), a}, down, LinearAttributes{});
    append(linear, OpKind::lora_up, ".lora_up", {down, b}, linear.outputs[0], attributes).accumulates = 1;
  }

 private:
  bool selected(const std::string& module) const {
    return std::any_of(options_.lora.target_modules.begin(), options_.lora.target_modules.end(),
                       [&](const std::string& target) { return selects(target, module); });
  }

  BufferId adapter(std::string name, DType dtype, Dims dims, std::vector<TensorPart> parts) {
    BufferId id = builder_.persistent(std::move(name), dtype, std::move(dims), Role::adapters);
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

  Op& append(const Op& linear, OpKind kind, const char* suffix, std::vector<BufferId> inputs, BufferId output,
             Attributes attributes) {
    Op& op = builder_.append(kind, linear.name + suffix, std::move(inputs), {output}, std::move(attributes));
    op.layer = linear.layer;
    return op;
  }

  Builder& builder_;
  const AdapterOptions& options_;
  uint64_t stream_ = 1;
};

}  // namespace

float lora_scale(const LoraSection& lora) {
  auto r = static_cast<double>(lora.r);
  return static_cast<float>(lora.lora_alpha / (lora.use_rslora ? std::sqrt(r) : r));
}

std::vector<std::string> adapted_modules(const Program& forward, const std::vector<std::string>& targets) {
  require_known_targets(forward, targets);
  std::vector<std::string> modules;
  for (const Op& op : forward.ops) {
    if (!is_adaptable(forward, op)) {
      continue;
    }
    for (const TensorPart& part : forward.buffer(op.inputs[1]).parts) {
      std::string module = module_of(part);
      if (std::any_of(targets.begin(), targets.end(),
                      [&](const std::string& target) { return selects(target, module); })) {
        modules.push_back(module);
      }
    }
  }
  return modules;
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
  Program program = builder.finish();
  verify_with_shapes(program);
  return program;
}

}  // namespace snug
