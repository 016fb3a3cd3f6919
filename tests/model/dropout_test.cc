// Rates of dropout: what each family reads from config.json, what a recipe may change, and how it is told.
#include "model/dropout.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/catalogue.h"
#include "model/model_spec.h"

namespace snug {
namespace {

DropoutRates rates_of(const char* hub_id, const Json& changes = Json::object()) {
  Json config = *catalogue_config(hub_id);
  config.update(changes);
  return parse_model_config(config.dump(), "config.json").dropout;
}

TEST(DropoutRates, EachFamilyHasTheKeysThatTransformersAppliesInTraining) {
  for (const char* hub_id :
       {"meta-llama/Llama-3.2-1B", "mistralai/Mistral-7B-v0.1", "Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-0.6B"}) {
    EXPECT_EQ(describe(rates_of(hub_id)), "") << hub_id;
    EXPECT_EQ(describe(rates_of(hub_id, {{"attention_dropout", 0.25}, {"resid_pdrop", 0.5}})),
              "0.25 (attention)")
        << hub_id;
  }
  // transformers reads Phi-3's embd_pdrop, and never applies it.
  EXPECT_EQ(describe(rates_of("microsoft/phi-4",
                              {{"attention_dropout", 0.25}, {"resid_pdrop", 0.5}, {"embd_pdrop", 0.125}})),
            "0.25 (attention), 0.5 (residual)");
  EXPECT_EQ(describe(rates_of("google/flan-t5-small")), "0.1 (embedding, attention, mlp, residual, output)");
  EXPECT_EQ(describe(rates_of("google/flan-t5-small", {{"dropout_rate", 0.05}})),
            "0.05 (embedding, attention, mlp, residual, output)");
  EXPECT_EQ(describe(rates_of("google/flan-t5-small", {{"dropout_rate", 0}})), "");
}

TEST(DropoutRates, AFileWithoutTheKeyMeansTransformersDefault) {
  Json config = *catalogue_config("google/flan-t5-small");
  config.erase("dropout_rate");
  EXPECT_EQ(parse_model_config(config.dump(), "config.json").dropout.residual, 0.1);
  config = *catalogue_config("Qwen/Qwen3-0.6B");
  config.erase("attention_dropout");
  EXPECT_EQ(parse_model_config(config.dump(), "config.json").dropout.attention, 0.0);
}

TEST(DropoutRates, ARecipesRateIsForThePlacesThatTheFamilyHas) {
  EXPECT_EQ(describe(with_rate(rates_of("Qwen/Qwen3-0.6B"), 0.3)), "0.3 (attention)");
  EXPECT_EQ(describe(with_rate(rates_of("microsoft/phi-4"), 0.3)), "0.3 (attention, residual)");
  EXPECT_EQ(describe(with_rate(rates_of("google/flan-t5-small"), 0)), "");
  EXPECT_EQ(with_rate(rates_of("google/flan-t5-small"), std::nullopt).inner, 0.1);
  EXPECT_EQ(with_rate(rates_of("Qwen/Qwen3-0.6B"), 0.3).residual, std::nullopt);
}

TEST(DropoutRates, NoShareIsRefusedByKey) {
  for (const Json& rate : {Json(1.0), Json(-0.1), Json("a lot")}) {
    try {
      rates_of("google/flan-t5-small", {{"dropout_rate", rate}});
      FAIL() << rate << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("dropout_rate"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace snug
