// Checkpoints that transformers and bitsandbytes quantised (tools/make_bitsandbytes_references.py): their
// weights to the bit, and their logits.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "backend/quantise.h"
#include "base/error.h"
#include "compile/coded_weights.h"
#include "compile/phases.h"
#include "io/json.h"
#include "model/locate.h"
#include "plan/plan.h"
#include "program/names.h"
#include "support/qlora_case.h"
#include "support/temporary_folder.h"
#include "support/train_fixture.h"
#include "test_paths.h"
#include "train/adapter_files.h"
#include "train/generator.h"
#include "train/weights.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

fs::path case_folder(const std::string& name) {
  return fs::path(SNUG_SOURCE_DIR) / "tests/goldens/bitsandbytes" / name;
}

std::vector<std::string> all_cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(case_folder(""))) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

// Rounded to a dtype on the way.
std::vector<float> floats_of(const SourceTensor& tensor, DType dtype = DType::f32) {
  std::vector<float> stored(static_cast<size_t>(tensor.elements()));
  std::vector<float> values(stored.size());
  tensor.read(0, tensor.elements(), dtype, stored.data());
  convert(dtype, stored.data(), DType::f32, values.data(), tensor.elements());
  return values;
}

// A folder's weights on the CPU, ready to generate.
struct Loaded {
  explicit Loaded(const fs::path& folder, DType dtype = DType::f32, const fs::path& adapter = {})
      : spec(locate_model(folder.string()).spec),
        lora(adapter.empty() ? std::nullopt : std::optional(read_adapter_config(adapter))),
        plan(make_plan(compile_generation(spec, {.dtype = dtype,
                                                 .max_source_tokens = 7,
                                                 .max_prompt_tokens = 1,
                                                 .max_total_tokens = 9,
                                                 .lora = lora ? &*lora : nullptr}),
                       backend, {})),
        executor(plan, backend) {
    load_constants(executor);
    TensorSource files = open_tensors(folder);
    require_tensors(plan, Role::base_weights, files, folder.string());
    load_tensors(executor, Role::base_weights, files);
    if (lora) {
      load_adapter(executor, adapter);
    }
  }

  // How far its logits are from those of a file, by the largest of these.
  double difference_from(const fs::path& file) {
    Json expected = read_json(file);
    Decoding decoding(executor, expected["source"].get<std::vector<int32_t>>());
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < expected["ids"].size(); ++i) {
      auto token = expected["ids"][i].get<int32_t>();
      std::vector<float> logits = decoding.step({&token, 1});
      EXPECT_EQ(logits.size(), expected["logits"][i].size());
      for (size_t j = 0; j < logits.size(); ++j) {
        auto value = expected["logits"][i][j].get<double>();
        largest = std::max(largest, std::abs(value));
        difference = std::max(difference, std::abs(value - static_cast<double>(logits[j])));
      }
    }
    return difference / largest;
  }

  // What the arena holds for a tensor of the file.
  std::vector<float> values(const std::string& name) {
    for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
      for (const TensorPart& part : buffer.parts) {
        if (part.names.front() == name) {
          return values(buffer, part);
        }
      }
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }

  std::vector<float> values(const Buffer& buffer, const TensorPart& part) {
    int64_t columns = buffer.dims[1].max;
    std::vector<float> result(static_cast<size_t>(part.rows * columns));
    const auto* memory = executor.tensor(kLoadPhase, buffer.name).as<std::byte>();
    for (int64_t row = 0; row < part.rows; ++row) {
      float* target = result.data() + row * columns;
      if (buffer.format.is_coded()) {
        dequantise(code_layout(buffer), memory, {part.row_begin + row, 0, columns}, target);
      } else {
        int64_t first = bytes_of(buffer.dtype(), (part.row_begin + row) * columns);
        convert(buffer.dtype(), memory + first, DType::f32, target, columns);
      }
    }
    return result;
  }

  bool is_coded(const std::string& name) const {
    for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
      for (const TensorPart& part : buffer.parts) {
        if (part.names.front() == name) {
          return buffer.format.is_coded();
        }
      }
    }
    return false;
  }

  ModelSpec spec;
  std::optional<LoraSection> lora;
  CpuBackend backend;
  Plan plan;
  Executor executor;
};

TEST(StoredCodes, WeightsToTheBit) {
  for (const std::string& name : all_cases()) {
    SCOPED_TRACE(name);
    TensorSource files = open_tensors(case_folder(name));
    TensorSource expected = open_tensors(case_folder(name) / "dequantised.safetensors");
    ASSERT_FALSE(expected.names().empty());
    DType dtype = expected.find(expected.names().front()).dtype();
    for (const std::string& weight : expected.names()) {
      EXPECT_NE(files.find(weight).coded(), nullptr) << weight;
      EXPECT_EQ(floats_of(files.find(weight), dtype), floats_of(expected.find(weight))) << weight;
    }
    if (dtype == DType::f16) {
      continue;  // which the CPU does not compute in
    }
    Loaded model(case_folder(name), dtype);
    for (const std::string& weight : expected.names()) {
      EXPECT_EQ(model.values(weight), floats_of(expected.find(weight))) << weight;
    }
  }
}

constexpr double kTolerance = 1e-5;

// fp32 sums in another order: 1e-5, or where a model makes more of it, what both have lost.
TEST(StoredCodes, LogitsOfTransformers) {
  for (const std::string& name : all_cases()) {
    auto lost = read_json(case_folder(name) / "logits.json")["fp32_error"].get<double>();
    EXPECT_LT(Loaded(case_folder(name)).difference_from(case_folder(name) / "logits.json"),
              std::max(kTolerance, 2 * lost))
        << name;
  }
}

TEST(StoredCodes, LogitsOfPeftWithAnAdapter) {
  for (const auto& [name, adapter] :
       {std::pair("llama_nf4_double", "llama"), std::pair("phi3_nf4", "phi3")}) {
    Loaded model(case_folder(name), DType::f32, QloraCase(adapter).adapter);
    EXPECT_LT(model.difference_from(case_folder(name) / "adapted.json"), kTolerance) << name;
    EXPECT_GT(Loaded(case_folder(name)).difference_from(case_folder(name) / "adapted.json"), 1e-3) << name;
  }
}

// The curves of peft on the same weights (tools/make_qlora_references.py).
TEST(StoredCodes, TheyAreTrainedOn) {
  for (const auto& [name, trained] :
       {std::pair("llama_nf4_double", "llama"), std::pair("llama_int8", "llama_int8"),
        std::pair("t5_nf4_double", "t5"), std::pair("phi3_nf4", "phi3")}) {
    QloraCase one(trained);
    one.recipe.model.path = case_folder(name);
    one.recipe.model.quantization = Quantization::none;
    TrainFixture fixture(one.recipe, one.adapter);
    EXPECT_LT(largest_difference(losses_of_curve(fixture.runner, one.curve), one.curve), 1e-4) << name;
  }
}

// What the file leaves plain is plain, and what lies beside such a weight is dequantised.
TEST(StoredCodes, ModulesThatTheFileLeavesOut) {
  Loaded model(case_folder("llama_skipped"));
  auto layer = [](int index, const std::string& module) {
    return "model.layers." + std::to_string(index) + "." + module + ".weight";
  };
  for (const char* module : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}) {
    EXPECT_FALSE(model.is_coded(layer(0, module))) << module;
    EXPECT_TRUE(model.is_coded(layer(1, module))) << module;
  }
  for (const char* module : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    EXPECT_TRUE(model.is_coded(layer(0, module))) << module;
    EXPECT_FALSE(model.is_coded(layer(1, module))) << module;
  }
  EXPECT_FALSE(model.is_coded("lm_head.weight"));
}

// Without the weights, the config says what a plan needs.
TEST(StoredCodes, ThePlanNeedsTheConfigAlone) {
  for (const char* name : {"llama_nf4_double", "llama_int8", "t5_nf4_double", "phi3_nf4"}) {
    TemporaryFolder folder;
    fs::copy_file(case_folder(name) / "config.json", folder / "config.json");
    ModelSpec with_weights = locate_model(case_folder(name).string()).spec;
    ModelSpec without = locate_model(folder.path().string()).spec;
    with_weights.tied_embeddings = without.tied_embeddings;
    auto bytes_of_model = [](const ModelSpec& spec) {
      int64_t bytes = 0;
      Program forward = build_forward(spec, {.max_tokens = 1, .max_sequences = 1});
      for (const Buffer& buffer :
           code_weights(std::move(forward), weight_format(Quantization::none, spec), spec).buffers) {
        bytes += is_model_parameter(buffer) ? buffer.max_bytes() : 0;
      }
      return bytes;
    };
    EXPECT_EQ(bytes_of_model(without), bytes_of_model(with_weights)) << name;
  }
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "nothing was refused";
}

TEST(StoredCodes, ARecipeThatContradicts) {
  ModelSpec spec = locate_model(case_folder("llama_nf4_double").string()).spec;
  EXPECT_EQ(weight_format(Quantization::none, spec), kNf4Double);
  EXPECT_EQ(weight_format(Quantization::nf4_double, spec), kNf4Double);
  EXPECT_EQ(
      refusal([&] { weight_format(Quantization::int8, spec); }),
      "model.quantization is int8, but the weights are nf4_double already (\"quantization_config\" in " +
          spec.source + "): leave it out to take them as they are, or take the original, unquantised model");
}

TEST(StoredCodes, AConfigOfAnotherCheckpoint) {
  TemporaryFolder folder;
  auto take = [&](const char* config, const char* weights) {
    constexpr auto kOverwrite = fs::copy_options::overwrite_existing;
    fs::copy_file(config, folder / "config.json", kOverwrite);
    fs::copy_file(weights, folder / "model.safetensors", kOverwrite);
    return refusal([&] { locate_model(folder.path().string()); });
  };
  auto file = [](const char* name, const char* leaf) { return (case_folder(name) / leaf).string(); };
  std::string other = take(file("llama_nf4_bf16", "config.json").c_str(),
                           file("llama_nf4_double", "model.safetensors").c_str());
  EXPECT_NE(other.find("says nf4, but tensor \"model.layers.0.mlp.down_proj.weight\" in"), std::string::npos)
      << other;
  std::string plain = take(file("llama_int8", "config.json").c_str(),
                           file("../references/gqa_untied", "model.safetensors").c_str());
  EXPECT_NE(plain.find("no tensor in"), std::string::npos) << plain;
}

}  // namespace
}  // namespace snug
