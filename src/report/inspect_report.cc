// Inspecting a model without its weights.
#include "report/inspect_report.h"

#include <fmt/format.h>

#include <array>

#include "base/bytes.h"
#include "compile/adapters.h"
#include "compile/coded_weights.h"
#include "recipe/choices.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr std::array<DType, 3> kDtypes = {DType::f32, DType::bf16, DType::f16};

int64_t weight_bytes(const Program& program) {
  int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    bytes += is_model_parameter(buffer) ? buffer.max_bytes() : 0;
  }
  return bytes;
}

}  // namespace

Inspection inspect(const ModelSpec& spec, int64_t rank) {
  // One token is enough: weights do not depend on the batch.
  ForwardOptions options{.program_name = "inspect", .dtype = DType::f32, .max_tokens = 1, .max_sequences = 1};
  Program forward = build_forward(spec, options);
  Inspection inspection{spec, count_parameters(forward), rank, 0};
  options.dtype = DType::bf16;
  Program narrow = build_forward(spec, options);
  if (spec.stored_codes) {
    int64_t bytes = weight_bytes(code_weights(narrow, weight_format(Quantization::none, spec), spec));
    inspection.coded_bytes.emplace_back(name_of(spec.stored_codes->format), bytes);
  } else {
    for (const auto& [name, quantization] : kQuantizations) {
      if (quantization != Quantization::none) {
        inspection.coded_bytes.emplace_back(
            name, weight_bytes(code_weights(narrow, weight_format(quantization, spec), spec)));
      }
    }
  }
  LoraSection lora;
  lora.r = rank;
  inspection.lora_parameters = count_trainable(add_adapters(std::move(forward), lora, false));
  return inspection;
}

Json inspection_json(const Inspection& inspection) {
  const ModelSpec& spec = inspection.spec;
  const auto& attention = first_of<Attention>(spec.decoder);
  bool unlimited = spec.max_positions == kUnlimitedPositions;
  Json bytes = Json::object();
  for (DType dtype : kDtypes) {
    bytes[std::string(name_of(dtype))] = inspection.parameters * size_of(dtype);
  }
  for (const auto& [name, coded] : inspection.coded_bytes) {
    bytes[name] = coded;
  }
  Json dropout = Json::object();
  for_each_place(spec.dropout, [&](std::string_view place, const std::optional<double>& rate) {
    if (rate) {
      dropout[std::string(place)] = *rate;
    }
  });
  return {{"family", spec.family},
          {"architecture", spec.architecture},
          {"parameters", inspection.parameters},
          {"rank", inspection.rank},
          {"lora_parameters", inspection.lora_parameters},
          {"bytes", bytes},
          {"dtype", spec.dtype ? Json(name_of(*spec.dtype)) : Json(nullptr)},
          {"quantization", spec.stored_codes ? Json(name_of(spec.stored_codes->format)) : Json(nullptr)},
          {"vocabulary", spec.vocabulary},
          {"hidden_size", spec.width},
          {"layers", spec.decoder.size()},
          {"encoder_layers", spec.encoder.size()},
          {"heads", attention.heads},
          {"kv_heads", attention.kv_heads},
          {"head_dim", attention.head_dim},
          {"intermediate_size", first_of<GatedMlp>(spec.decoder).inner_width},
          {"max_positions", unlimited ? Json(nullptr) : Json(spec.max_positions)},
          {"tied_embeddings", spec.tied_embeddings},
          {"dropout", dropout}};
}

std::string inspection_text(const Inspection& inspection, const Style& style) {
  const ModelSpec& spec = inspection.spec;
  const auto& attention = first_of<Attention>(spec.decoder);
  const std::string as_saved = style.dim("  (as saved)");
  std::string text = fmt::format("  {}  {} ({})\n", style.bold(spec.source), spec.family, spec.architecture);
  std::string layers =
      spec.has_encoder() ? fmt::format("{} encoder and {} decoder", spec.encoder.size(), spec.decoder.size())
                         : fmt::format("{}", spec.decoder.size());
  std::string positions = spec.max_positions == kUnlimitedPositions
                              ? "relative positions"
                              : fmt::format("up to {} positions", format_count(spec.max_positions));
  text += fmt::format("  {} layers, width {}, {} heads ({} for keys and values) of {}, inner width {}\n",
                      layers, spec.width, attention.heads, attention.kv_heads, attention.head_dim,
                      first_of<GatedMlp>(spec.decoder).inner_width);
  text += fmt::format("  vocabulary {}, {} embeddings, {}\n", format_count(spec.vocabulary),
                      spec.tied_embeddings ? "tied" : "separate", positions);
  if (std::string dropout = describe(spec.dropout); !dropout.empty()) {
    text += fmt::format("  drops {} while training\n", dropout);
  }
  text += "\n";
  text += fmt::format("  {} parameters\n", style.bold(format_count(inspection.parameters)));
  for (DType dtype : kDtypes) {
    int64_t bytes = inspection.parameters * size_of(dtype);
    bool stored = spec.dtype == dtype && !spec.stored_codes;
    text += fmt::format("    {:<10}  {}  {} bytes{}\n", name_of(dtype), pad_left(format_bytes(bytes), 10),
                        format_count(bytes), stored ? as_saved : "");
  }
  for (const auto& [name, bytes] : inspection.coded_bytes) {
    text += fmt::format("    {:<10}  {}  {} bytes{}\n", name, pad_left(format_bytes(bytes), 10),
                        format_count(bytes), spec.stored_codes ? as_saved : "");
  }
  text += style.dim(fmt::format("    ({}: linear layers; embeddings, head and norms in 16 bits)\n",
                                spec.stored_codes ? "bitsandbytes" : "model.quantization"));
  double share = 100.0 * static_cast<double>(inspection.lora_parameters) /
                 static_cast<double>(inspection.parameters + inspection.lora_parameters);
  text += fmt::format("\n  LoRA r={} on all linear layers trains {} parameters ({:.2f}%)\n", inspection.rank,
                      style.bold(format_count(inspection.lora_parameters)), share);
  return fit_lines(text, style);
}

}  // namespace snug
