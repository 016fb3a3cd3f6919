// Reading config.json: published shapes, the ways keys are spelt, and refusals that help.
#include "model/model_spec.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/json.h"

namespace snug {
namespace {

Json llama_config() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 32000},
          {"hidden_size", 4096},
          {"num_hidden_layers", 32},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 32},
          {"intermediate_size", 11008},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},
          {"torch_dtype", "float16"},
          {"tie_word_embeddings", false}};
}

ModelSpec parse(const Json& config) {
  return parse_model_config(config.dump(), "config.json");
}

int64_t parameters_of(const Json& config) {
  return count_parameters(build_forward(parse(config), {.max_tokens = 1, .max_sequences = 1}));
}

std::string refusal(const Json& config) {
  try {
    parse(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "accepted";
}

void expect_refusal(const Json& config, const std::vector<std::string>& words) {
  std::string text = refusal(config);
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
  }
}

TEST(ModelSpec, PublishedParameterCounts) {
  Json llama2_7b = llama_config();
  EXPECT_EQ(parameters_of(llama2_7b), 6'738'415'616);

  Json deepseek_7b = llama_config();
  deepseek_7b["vocab_size"] = 102400;
  deepseek_7b["num_hidden_layers"] = 30;
  EXPECT_EQ(parameters_of(deepseek_7b), 6'910'365'696);

  Json tiny_llama = llama_config();
  tiny_llama.update({{"hidden_size", 2048},
                     {"num_hidden_layers", 22},
                     {"num_key_value_heads", 4},
                     {"intermediate_size", 5632}});
  EXPECT_EQ(parameters_of(tiny_llama), 1'100'048'384);

  Json llama32_1b = llama_config();
  llama32_1b.update({{"vocab_size", 128256},
                     {"hidden_size", 2048},
                     {"num_hidden_layers", 16},
                     {"num_key_value_heads", 8},
                     {"head_dim", 64},
                     {"intermediate_size", 8192},
                     {"tie_word_embeddings", true}});
  EXPECT_EQ(parameters_of(llama32_1b), 1'235'814'400);
}

Attention attention_of(const ModelSpec& spec) {
  return first_of<Attention>(spec.decoder);
}

std::vector<int64_t> windows_of(const ModelSpec& spec) {
  std::vector<int64_t> windows;
  for (const Layer& layer : spec.decoder) {
    windows.push_back(first_of<Attention>({layer}).window);
  }
  return windows;
}

TEST(ModelSpec, DefaultsAndSpellings) {
  Json config = llama_config();
  config.erase("num_key_value_heads");
  config.erase("torch_dtype");
  config["dtype"] = "bfloat16";
  config["rope_parameters"] = {{"rope_theta", 500000.0}, {"rope_type", "default"}};
  ModelSpec spec = parse(config);
  EXPECT_EQ(attention_of(spec).kv_heads, 32);
  EXPECT_EQ(attention_of(spec).head_dim, 128);
  EXPECT_EQ(spec.dtype, DType::bf16);
  EXPECT_EQ(attention_of(spec).rope->theta, 500000.0);
}

Json minimal(const char* model_type, const Json& more = Json::object()) {
  Json config = {{"model_type", model_type}, {"hidden_size", 64}, {"num_hidden_layers", 3}};
  config.update(more);
  return config;
}

// As the config classes of transformers 5 have them.
TEST(ModelSpec, KeysThatAreLeftOutAreHuggingFaces) {
  ModelSpec mistral = parse(minimal("mistral"));
  EXPECT_EQ(mistral.architecture, "MistralForCausalLM");
  EXPECT_EQ(attention_of(mistral).heads, 32);
  EXPECT_EQ(attention_of(mistral).kv_heads, 8);
  EXPECT_EQ(first_of<GatedMlp>(mistral.decoder).inner_width, 14336);
  EXPECT_EQ(mistral.max_positions, 131072);
  EXPECT_EQ(windows_of(mistral), std::vector<int64_t>(3, 4096));
  // A key that is there and null is none that was left out.
  EXPECT_EQ(windows_of(parse(minimal("mistral", {{"sliding_window", nullptr}}))), std::vector<int64_t>(3, 0));
  EXPECT_EQ(attention_of(parse(minimal("mistral", {{"num_key_value_heads", nullptr}}))).kv_heads, 32);

  EXPECT_EQ(parse(minimal("phi3")).norm_epsilon, 1e-5);
  EXPECT_EQ(parse(minimal("phi3")).vocabulary, 32064);
  EXPECT_EQ(parse(minimal("llama")).norm_epsilon, 1e-6);
  EXPECT_EQ(attention_of(parse(minimal("llama"))).kv_heads, 32);
  EXPECT_EQ(parse(minimal("llama")).max_positions, 2048);
  EXPECT_EQ(parse(minimal("qwen2")).max_positions, 32768);
  EXPECT_EQ(attention_of(parse(minimal("qwen3"))).head_dim, 128);
  EXPECT_EQ(parse({{"model_type", "llama"}}).width, 4096);

  ModelSpec mt5 = parse({{"model_type", "mt5"}});
  EXPECT_EQ(mt5.vocabulary, 250112);
  EXPECT_EQ(mt5.decoder.size(), 8U);
  EXPECT_TRUE(mt5.tied_embeddings);
}

TEST(ModelSpec, LlamasScalingBeginsAtTheModelsPositions) {
  Json config = llama_config();
  config["rope_scaling"] = {
      {"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  EXPECT_EQ(attention_of(parse(config)).rope->scaling.original_positions, 4096);
  config["rope_scaling"].erase("factor");
  expect_refusal(config, {"factor"});
}

TEST(ModelSpec, LayersMayAlternateBetweenWindowsAndAllThereIs) {
  Json config = minimal("mistral", {{"sliding_window", 7}});
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(windows_of(parse(config)), (std::vector<int64_t>{0, 7, 0}));
  config["sliding_window"] = nullptr;
  expect_refusal(config, {"layer_types", "sliding_window"});
  config["layer_types"] = {"full_attention"};
  expect_refusal(config, {"layer_types", "3"});
  config["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  expect_refusal(config, {"layer_types", "linear_attention"});
}

TEST(ModelSpec, ArchitectureAndModelTypeAgree) {
  EXPECT_EQ(parse(minimal("qwen3", {{"architectures", nullptr}})).family, "qwen3");
  expect_refusal(minimal("gpt2"), {"architectures", "gpt2", "LlamaForCausalLM"});
  expect_refusal(Json::object(), {"architectures", "model_type"});
  expect_refusal(minimal("qwen2", {{"architectures", {"LlamaForCausalLM"}}}), {"LlamaForCausalLM", "qwen2"});
  expect_refusal(minimal("llama", {{"architectures", {"LlamaForSequenceClassification"}}}),
                 {"LlamaForSequenceClassification"});
}

TEST(ModelSpec, SizesThatNobodyCanCount) {
  Json config = llama_config();
  config["head_dim"] = 1024;
  config["num_attention_heads"] = config["num_key_value_heads"] = config["hidden_size"] = int64_t{1} << 24;
  try {
    parameters_of(config);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(std::string(error.what()).find("2^56"), std::string::npos) << error.what();
  }
  config = llama_config();
  config["num_hidden_layers"] = 1 << 20;
  expect_refusal(config, {"num_hidden_layers", "16384"});
}

TEST(ModelSpec, Refusals) {
  Json config = llama_config();
  config["architectures"] = {"MambaForCausalLM"};
  expect_refusal(config, {"MambaForCausalLM", "LlamaForCausalLM"});

  config = llama_config();
  config["hidden_size"] = "4096";
  expect_refusal(config, {"hidden_size", "4096"});

  config = llama_config();
  config["num_hidden_layers"] = -1;
  expect_refusal(config, {"num_hidden_layers", "-1"});

  config = llama_config();
  config["num_key_value_heads"] = 5;
  expect_refusal(config, {"num_key_value_heads", "multiple"});

  config = llama_config();
  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  expect_refusal(config, {"rope_scaling", "yarn"});

  for (const char* method : {"gptq", "awq", "fp8", "mxfp4", "compressed-tensors"}) {
    config = llama_config();
    config["quantization_config"] = {{"quant_method", method}};
    expect_refusal(config, {"quantization_config", method, "unquantised", "model.quantization"});
  }

  for (const char* key : {"torch_dtype", "dtype"}) {
    for (const char* name : {"float64", "uint8", "int8", "int32", "float8_e4m3fn", "auto"}) {
      config = llama_config();
      config.erase("torch_dtype");
      config[key] = name;
      expect_refusal(config, {key, name, "float32, bfloat16 or float16"});
    }
  }

  config = llama_config();
  config["hidden_act"] = "relu";
  expect_refusal(config, {"hidden_act", "relu"});
}

}  // namespace
}  // namespace snug
