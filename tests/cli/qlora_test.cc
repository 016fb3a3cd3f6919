// LoRA on quantised weights as a user runs it: quantised while they are read, and by bitsandbytes already.
#include <gtest/gtest.h>

#include "support/run_snug.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class QloraRun : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  CommandResult train(const std::string& run, const std::vector<std::string>& settings) const {
    std::vector<std::string> all = {"train", source_path("recipes/ship_log.yml"), "--json"};
    std::vector<std::string> common = {"output_dir=" + path(run).string(),
                                       "data.cache_dir=" + path("cache").string(),
                                       "data.max_samples=48",
                                       "logging.logging_steps=1",
                                       "training.max_steps=4",
                                       "training.eval_steps=2"};
    for (const std::vector<std::string>& list : {common, settings}) {
      for (const std::string& setting : list) {
        all.insert(all.end(), {"--set", setting});
      }
    }
    return run_snug(all);
  }

  // A checkpoint that bitsandbytes quantised, with a tokenizer.
  std::string quantised_model() const {
    fs::path stored = source_path("tests/goldens/bitsandbytes/bytes_nf4_double");
    fs::create_directory(path("model"));
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy_file(stored / file, path("model") / file);
    }
    EXPECT_EQ(run_snug({"synth", path("model").string(), path("plain").string()}).exit_code, 0);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      fs::copy_file(path("plain") / file, path("model") / file);
    }
    return path("model").string();
  }

  TemporaryFolder folder_;
};

// With packing, dropout and evaluation; and the model card says what the base was.
TEST_F(QloraRun, EveryMemoryPolicyGivesTheSameBits) {
  std::string first;
  for (const std::string policy : {"none", "selective", "full"}) {
    CommandResult result = train(policy, {"model.quantization=nf4_double", "data.packing=true",
                                          "lora.lora_dropout=0.1", "memory.recompute=" + policy});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    std::string adapter = read_text_file(path(policy) / "adapter_model.safetensors");
    first = first.empty() ? adapter : first;
    EXPECT_EQ(adapter, first) << policy;
  }
  std::string card = read_text_file(path("full") / "README.md");
  EXPECT_EQ(
      card.rfind("---\nbase_model: \"" + source_path("models/tiny-story") + "\"\nlibrary_name: peft\n---\n",
                 0),
      0U)
      << card;
  EXPECT_NE(card.find("## Base model\n\n"
                      "The adapter was trained on linear layers in bitsandbytes' formats:\n\n"
                      "- quant_method: bitsandbytes\n- load_in_4bit: true\n- load_in_8bit: false\n"
                      "- bnb_4bit_quant_type: nf4\n- bnb_4bit_use_double_quant: true\n"
                      "- bnb_4bit_compute_dtype: bfloat16\n\n"
                      "Give them to transformers' BitsAndBytesConfig to load the base in the same way.\n"),
            std::string::npos)
      << card;
}

TEST_F(QloraRun, Fp8IsSaidToBeForTheMlps) {
  CommandResult result = train("run", {"model.compute=fp8"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  CommandResult plan = run_snug({"plan", source_path("recipes/ship_log.yml"), "--set", "model.compute=fp8"});
  EXPECT_NE(plan.output.find("bf16, MLPs but the last in fp8"), std::string::npos) << plan.output;
  std::string card = read_text_file(path("run") / "README.md");
  EXPECT_NE(card.find("trained on MLPs, but the last layer's, in 8-bit floating-point numbers"),
            std::string::npos)
      << card;
}

TEST_F(QloraRun, ACheckpointOfBitsandbytes) {
  std::string model = quantised_model();
  Json inspection = json_output(run_snug({"inspect", model, "--json"}));
  EXPECT_EQ(inspection["quantization"], "nf4_double");
  EXPECT_TRUE(inspection["bytes"].contains("nf4_double"));
  EXPECT_FALSE(inspection["bytes"].contains("int8"));
  CommandResult result = train("run", {"model.path=" + model, "data.max_length=256"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  std::string card = read_text_file(path("run") / "README.md");
  EXPECT_NE(card.find("transformers loads them as they are"), std::string::npos) << card;
  CommandResult generated = run_snug(
      {"generate", model, "--adapter", path("run").string(), "--prompt", "Log", "--max-new-tokens", "3"});
  EXPECT_EQ(generated.exit_code, 0) << generated.errors;
  CommandResult refused = train("other", {"model.path=" + model, "model.quantization=int8"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("model.quantization is int8, but the weights are nf4_double already"),
            std::string::npos)
      << refused.errors;
  CommandResult whole = train("other", {"model.path=" + model, "lora=null"});
  EXPECT_EQ(whole.exit_code, 2);
  EXPECT_NE(whole.errors.find("take the original, unquantised model"), std::string::npos) << whole.errors;
}

// An adapter on the base that it was trained on, quantised while it is read.
TEST_F(QloraRun, GeneratesOnTheQuantisedBase) {
  CommandResult result = train("run", {"model.quantization=nf4_double"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  CommandResult generated =
      run_snug({"generate", source_path("models/tiny-story"), "--adapter", path("run").string(),
                "--quantization", "nf4_double", "--prompt", "The ship", "--max-new-tokens", "4"});
  EXPECT_EQ(generated.exit_code, 0) << generated.errors;
  EXPECT_FALSE(generated.output.empty());
}

}  // namespace
}  // namespace snug
