// The table of shapes.
#include "model/catalogue.h"

#include <algorithm>
#include <array>
#include <functional>

namespace snug {
namespace {

struct Entry {
  std::string_view ids;  // separated by spaces; "{}" stands for each of `variants`, separated likewise
  std::string_view variants;
  std::string_view architecture;
  int64_t vocabulary;
  int64_t width;
  int64_t inner_width;
  int64_t layers;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t positions;
  double rope_theta;
  double norm_epsilon;
  bool tied = false;
  double llama3_factor = 0;    // of the rope scaling; 0: none
  int64_t sliding_window = 0;  // 0: none
};

constexpr std::string_view kLlama = "LlamaForCausalLM";
constexpr std::string_view kMistral = "MistralForCausalLM";
constexpr std::string_view kPhi3 = "Phi3ForCausalLM";
constexpr std::string_view kQwen2 = "Qwen2ForCausalLM";
constexpr std::string_view kQwen3 = "Qwen3ForCausalLM";
// "-" stands for the plain name.
constexpr std::string_view kInstruct = "- -Instruct";

constexpr std::array<Entry, 39> kEntries = {{
    {"Qwen/Qwen2.5-0.5B{}", kInstruct, kQwen2, 151936, 896, 4864, 24, 14, 2, 64, 32768, 1e6, 1e-6, true},
    {"Qwen/Qwen2.5-1.5B{}", kInstruct, kQwen2, 151936, 1536, 8960, 28, 12, 2, 128, 32768, 1e6, 1e-6, true},
    {"Qwen/Qwen2.5-3B{}", kInstruct, kQwen2, 151936, 2048, 11008, 36, 16, 2, 128, 32768, 1e6, 1e-6, true},
    {"Qwen/Qwen2.5-7B{}", kInstruct, kQwen2, 152064, 3584, 18944, 28, 28, 4, 128, 32768, 1e6, 1e-6},
    {"Qwen/Qwen2.5-14B{}", kInstruct, kQwen2, 152064, 5120, 13824, 48, 40, 8, 128, 32768, 1e6, 1e-5},
    {"Qwen/Qwen2.5-32B{}", kInstruct, kQwen2, 152064, 5120, 27648, 64, 40, 8, 128, 32768, 1e6, 1e-5},
    {"Qwen/Qwen2.5-72B{}", kInstruct, kQwen2, 152064, 8192, 29568, 80, 64, 8, 128, 32768, 1e6, 1e-5},
    {"Qwen/Qwen2.5-Coder-1.5B{}", kInstruct, kQwen2, 151936, 1536, 8960, 28, 12, 2, 128, 32768, 1e6, 1e-6,
     true},
    {"Qwen/Qwen2.5-Coder-7B{}", kInstruct, kQwen2, 152064, 3584, 18944, 28, 28, 4, 128, 32768, 1e6, 1e-6},
    {"Qwen/Qwen3-0.6B{}", "- -Base", kQwen3, 151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e6, 1e-6, true},
    {"Qwen/Qwen3-1.7B{}", "- -Base", kQwen3, 151936, 2048, 6144, 28, 16, 8, 128, 40960, 1e6, 1e-6, true},
    {"Qwen/Qwen3-4B{}", "- -Base", kQwen3, 151936, 2560, 9728, 36, 32, 8, 128, 40960, 1e6, 1e-6, true},
    {"Qwen/Qwen3-8B{}", "- -Base", kQwen3, 151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e6, 1e-6},
    {"Qwen/Qwen3-14B{}", "- -Base", kQwen3, 151936, 5120, 17408, 40, 40, 8, 128, 40960, 1e6, 1e-6},
    {"Qwen/Qwen3-32B", "", kQwen3, 151936, 5120, 25600, 64, 64, 8, 128, 40960, 1e6, 1e-6},
    {"meta-llama/Llama-2-7b{}", "-hf -chat-hf", kLlama, 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e4, 1e-5},
    {"meta-llama/Llama-2-13b{}", "-hf -chat-hf", kLlama, 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e4,
     1e-5},
    {"meta-llama/Llama-2-70b{}", "-hf -chat-hf", kLlama, 32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e4, 1e-5},
    {"meta-llama/Meta-Llama-3-8B{}", kInstruct, kLlama, 128256, 4096, 14336, 32, 32, 8, 128, 8192, 5e5, 1e-5},
    {"meta-llama/Meta-Llama-3-70B{}", kInstruct, kLlama, 128256, 8192, 28672, 80, 64, 8, 128, 8192, 5e5,
     1e-5},
    {"meta-llama/Llama-3.1-8B{} meta-llama/Meta-Llama-3.1-8B{}", kInstruct, kLlama, 128256, 4096, 14336, 32,
     32, 8, 128, 131072, 5e5, 1e-5, false, 8},
    {"meta-llama/Llama-3.1-70B{} meta-llama/Meta-Llama-3.1-70B{}", kInstruct, kLlama, 128256, 8192, 28672, 80,
     64, 8, 128, 131072, 5e5, 1e-5, false, 8},
    {"meta-llama/Llama-3.1-405B{} meta-llama/Meta-Llama-3.1-405B{}", kInstruct, kLlama, 128256, 16384, 53248,
     126, 128, 8, 128, 131072, 5e5, 1e-5, false, 8},
    {"meta-llama/Llama-3.2-1B{}", kInstruct, kLlama, 128256, 2048, 8192, 16, 32, 8, 64, 131072, 5e5, 1e-5,
     true, 32},
    {"meta-llama/Llama-3.2-3B{}", kInstruct, kLlama, 128256, 3072, 8192, 28, 24, 8, 128, 131072, 5e5, 1e-5,
     true, 32},
    {"meta-llama/Llama-3.3-70B-Instruct", "", kLlama, 128256, 8192, 28672, 80, 64, 8, 128, 131072, 5e5, 1e-5,
     false, 8},
    {"mistralai/Mistral-7B{}", "-v0.1 -Instruct-v0.1", kMistral, 32000, 4096, 14336, 32, 32, 8, 128, 32768,
     1e4, 1e-5, false, 0, 4096},
    {"mistralai/Mistral-7B-Instruct-v0.2", "", kMistral, 32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e6,
     1e-5},
    {"mistralai/Mistral-7B{}", "-v0.3 -Instruct-v0.3", kMistral, 32768, 4096, 14336, 32, 32, 8, 128, 32768,
     1e6, 1e-5},
    {"mistralai/Mistral-Nemo{}", "-Base-2407 -Instruct-2407", kMistral, 131072, 5120, 14336, 40, 32, 8, 128,
     131072, 1e6, 1e-5},
    {"deepseek-ai/deepseek-llm-7b{}", "-base -chat", kLlama, 102400, 4096, 11008, 30, 32, 32, 128, 4096, 1e4,
     1e-6},
    {"TinyLlama/TinyLlama-1.1B-Chat-v1.0 TinyLlama/TinyLlama_v1.1", "", kLlama, 32000, 2048, 5632, 22, 32, 4,
     64, 2048, 1e4, 1e-5},
    {"HuggingFaceTB/SmolLM2-135M{}", kInstruct, kLlama, 49152, 576, 1536, 30, 9, 3, 64, 8192, 1e5, 1e-5,
     true},
    {"HuggingFaceTB/SmolLM2-360M{}", kInstruct, kLlama, 49152, 960, 2560, 32, 15, 5, 64, 8192, 1e5, 1e-5,
     true},
    {"HuggingFaceTB/SmolLM2-1.7B{}", kInstruct, kLlama, 49152, 2048, 8192, 24, 32, 32, 64, 8192, 1.3e5, 1e-5,
     true},
    {"microsoft/Phi-3-mini-4k-instruct", "", kPhi3, 32064, 3072, 8192, 32, 32, 32, 96, 4096, 1e4, 1e-5, false,
     0, 2047},
    {"microsoft/phi-4", "", kPhi3, 100352, 5120, 17920, 40, 40, 10, 128, 16384, 2.5e5, 1e-5},
    {"huggyllama/llama-7b", "", kLlama, 32000, 4096, 11008, 32, 32, 32, 128, 2048, 1e4, 1e-6},
    {"huggyllama/llama-13b", "", kLlama, 32000, 5120, 13824, 40, 40, 40, 128, 2048, 1e4, 1e-6},
}};

struct EncoderDecoderEntry {
  std::string_view ids;
  int64_t width;
  int64_t inner_width;
  int64_t layers;  // of each stack
  int64_t heads;
};

// All have head size 64, 32 buckets up to distance 128, and a vocabulary of 32128.
constexpr std::array<EncoderDecoderEntry, 5> kEncoderDecoderEntries = {{
    {"google/flan-t5-small google/t5-v1_1-small", 512, 1024, 8, 6},
    {"google/flan-t5-base google/t5-v1_1-base", 768, 2048, 12, 12},
    {"google/flan-t5-large google/t5-v1_1-large", 1024, 2816, 24, 16},
    {"google/flan-t5-xl google/t5-v1_1-xl", 2048, 5120, 24, 32},
    {"google/flan-t5-xxl google/t5-v1_1-xxl", 4096, 10240, 24, 64},
}};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string> ids_of(const Entry& entry) {
  std::vector<std::string> ids;
  for (const std::string& pattern : words_of(entry.ids)) {
    size_t hole = pattern.find("{}");
    if (hole == std::string::npos) {
      ids.push_back(pattern);
      continue;
    }
    for (const std::string& variant : words_of(entry.variants)) {
      ids.push_back(pattern.substr(0, hole) + (variant == "-" ? "" : variant) + pattern.substr(hole + 2));
    }
  }
  return ids;
}

Json config_of(const Entry& entry) {
  Json config = {{"architectures", {entry.architecture}},
                 {"vocab_size", entry.vocabulary},
                 {"hidden_size", entry.width},
                 {"intermediate_size", entry.inner_width},
                 {"num_hidden_layers", entry.layers},
                 {"num_attention_heads", entry.heads},
                 {"num_key_value_heads", entry.kv_heads},
                 {"head_dim", entry.head_dim},
                 {"max_position_embeddings", entry.positions},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", entry.norm_epsilon},
                 {"rope_theta", entry.rope_theta},
                 {"tie_word_embeddings", entry.tied},
                 {"torch_dtype", "bfloat16"}};
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kModelTypes = {
      {{kLlama, "llama"}, {kMistral, "mistral"}, {kPhi3, "phi3"}, {kQwen2, "qwen2"}, {kQwen3, "qwen3"}}};
  for (const auto& [architecture, type] : kModelTypes) {
    if (architecture == entry.architecture) {
      config["model_type"] = type;
    }
  }
  if (entry.llama3_factor > 0) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", entry.llama3_factor},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 8192}};
  }
  if (entry.architecture == kMistral || entry.architecture == kPhi3) {
    config["sliding_window"] = entry.sliding_window > 0 ? Json(entry.sliding_window) : Json(nullptr);
  }
  return config;
}

Json config_of(const EncoderDecoderEntry& entry) {
  return {{"architectures", {"T5ForConditionalGeneration"}},
          {"model_type", "t5"},
          {"vocab_size", 32128},
          {"d_model", entry.width},
          {"d_ff", entry.inner_width},
          {"d_kv", 64},
          {"num_layers", entry.layers},
          {"num_decoder_layers", entry.layers},
          {"num_heads", entry.heads},
          {"feed_forward_proj", "gated-gelu"},
          {"relative_attention_num_buckets", 32},
          {"relative_attention_max_distance", 128},
          {"layer_norm_epsilon", 1e-6},
          {"dropout_rate", 0.1},
          {"is_encoder_decoder", true},
          {"tie_word_embeddings", false},
          {"decoder_start_token_id", 0},
          {"pad_token_id", 0},
          {"eos_token_id", 1},
          {"torch_dtype", "bfloat16"}};
}

// Every published shape: its names, and its config as a function, so that looking for a name makes no config.
struct Published {
  std::vector<std::string> ids;
  std::function<Json()> config;
};

std::vector<Published> all_published() {
  std::vector<Published> all;
  for (const Entry& entry : kEntries) {
    all.push_back({ids_of(entry), [&entry] { return config_of(entry); }});
  }
  for (const EncoderDecoderEntry& entry : kEncoderDecoderEntries) {
    all.push_back({words_of(entry.ids), [&entry] { return config_of(entry); }});
  }
  return all;
}

}  // namespace

std::optional<Json> catalogue_config(std::string_view hub_id) {
  for (const Published& published : all_published()) {
    if (std::find(published.ids.begin(), published.ids.end(), hub_id) != published.ids.end()) {
      return std::make_optional(published.config());
    }
  }
  return std::nullopt;
}

std::vector<std::string> catalogue_ids() {
  std::vector<std::string> all;
  for (const Published& published : all_published()) {
    all.insert(all.end(), published.ids.begin(), published.ids.end());
  }
  return all;
}

}  // namespace snug
