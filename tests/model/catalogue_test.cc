// Exact counts from the catalogue alone, and where models are looked for.
#include "model/catalogue.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/error.h"
#include "io/atomic_file.h"
#include "model/locate.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

int64_t parameters_of(const std::string& hub_id) {
  ModelSpec spec = parse_model_config(catalogue_config(hub_id)->dump(), hub_id);
  return count_parameters(build_forward(spec, {.max_tokens = 1, .max_sequences = 1, .max_length_tokens = 1}));
}

// As the models' own pages and weight files count them.
TEST(Catalogue, CountsParametersExactly) {
  const std::vector<std::pair<std::string, int64_t>> published = {
      {"Qwen/Qwen2.5-0.5B", 494'032'768},
      {"Qwen/Qwen2.5-1.5B-Instruct", 1'543'714'304},
      {"Qwen/Qwen2.5-3B", 3'085'938'688},
      {"Qwen/Qwen2.5-7B-Instruct", 7'615'616'512},
      {"Qwen/Qwen2.5-14B", 14'770'033'664},
      {"Qwen/Qwen2.5-32B", 32'763'876'352},
      {"Qwen/Qwen2.5-72B", 72'706'203'648},
      {"Qwen/Qwen3-0.6B", 596'049'920},
      {"Qwen/Qwen3-1.7B", 1'720'574'976},
      {"Qwen/Qwen3-4B", 4'022'468'096},
      {"Qwen/Qwen3-8B", 8'190'735'360},
      {"Qwen/Qwen3-14B", 14'768'307'200},
      {"Qwen/Qwen3-32B", 32'762'123'264},
      {"meta-llama/Llama-2-7b-hf", 6'738'415'616},
      {"meta-llama/Llama-2-13b-chat-hf", 13'015'864'320},
      {"meta-llama/Llama-2-70b-hf", 68'976'648'192},
      {"meta-llama/Meta-Llama-3-8B", 8'030'261'248},
      {"meta-llama/Llama-3.1-8B-Instruct", 8'030'261'248},
      {"meta-llama/Llama-3.1-70B", 70'553'706'496},
      {"meta-llama/Llama-3.2-1B", 1'235'814'400},
      {"meta-llama/Llama-3.2-3B", 3'212'749'824},
      {"mistralai/Mistral-7B-v0.1", 7'241'732'096},
      {"mistralai/Mistral-7B-Instruct-v0.3", 7'248'023'552},
      {"mistralai/Mistral-Nemo-Base-2407", 12'247'782'400},
      {"deepseek-ai/deepseek-llm-7b-base", 6'910'365'696},
      {"TinyLlama/TinyLlama-1.1B-Chat-v1.0", 1'100'048'384},
      {"microsoft/Phi-3-mini-4k-instruct", 3'821'079'552},
      {"microsoft/phi-4", 14'659'507'200},
      {"google/flan-t5-small", 76'961'152},
      {"google/flan-t5-base", 247'577'856},
      {"google/flan-t5-large", 783'150'080},
      {"google/flan-t5-xl", 2'849'757'184},
      {"google/flan-t5-xxl", 11'135'332'352},
      {"HuggingFaceTB/SmolLM2-135M", 134'515'008},
      {"HuggingFaceTB/SmolLM2-360M", 361'821'120},
      {"HuggingFaceTB/SmolLM2-1.7B-Instruct", 1'711'376'384},
  };
  for (const auto& [hub_id, count] : published) {
    ASSERT_TRUE(catalogue_config(hub_id)) << hub_id;
    EXPECT_EQ(parameters_of(hub_id), count) << hub_id;
  }
}

TEST(Catalogue, EveryEntryIsAValidConfigAndIdsAreUnique) {
  std::set<std::string> seen;
  for (const std::string& id : catalogue_ids()) {
    EXPECT_TRUE(seen.insert(id).second) << id;
    EXPECT_NO_THROW(parse_model_config(catalogue_config(id)->dump(), id)) << id;
  }
  EXPECT_FALSE(catalogue_config("Qwen/Qwen2.5-7C"));
}

TEST(Locate, AFolderWinsThenTheHubCacheThenTheCatalogue) {
  const std::string id = "Qwen/Qwen2.5-7B";
  TemporaryFolder cache;
  setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  EXPECT_EQ(locate_model(id).folder, "");
  EXPECT_THROW(locate_model_files(id), Error);

  std::filesystem::path repository = cache / "models--Qwen--Qwen2.5-7B";
  std::filesystem::path snapshot = repository / "snapshots/abc123";
  Json config = *catalogue_config(id);
  config["num_hidden_layers"] = 2;
  write_file_atomically(repository / "refs/main", "abc123\n");
  write_file_atomically(snapshot / "config.json", config.dump());
  EXPECT_EQ(locate_model(id).folder, snapshot.string());
  EXPECT_EQ(locate_model(id).spec.all_layers(), 2);

  config["num_hidden_layers"] = 3;
  write_file_atomically(cache / "folder/config.json", config.dump());
  EXPECT_EQ(locate_model((cache / "folder").string()).spec.all_layers(), 3);
  unsetenv("HF_HUB_CACHE");
}

TEST(Locate, SaysWhatWasMeant) {
  try {
    locate_model("Qwen/Qwen2.5-7B-Instrct");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean \"Qwen/Qwen2.5-7B-Instruct\""), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace snug
