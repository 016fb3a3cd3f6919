// Prompts that a run's evaluations answer for people to read, encoded as the run's data is.
#pragma once

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/questions.h"
#include "recipe/recipe.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

struct DataModel;

struct SamplePrompt {
  std::string text;       // as a person reads it
  std::string reference;  // "" for none
  Question question;      // its answer is the reference's, or stands for one
};

// The recipe's, or those of its file. `template_name` is the chat template that the data was encoded by, ""
// for none. Throws bad_input, naming the prompt, for one that cannot be asked.
std::vector<SamplePrompt> load_samples(const Recipe& recipe, const DataModel& model,
                                       const Tokenizer& tokenizer, const std::string& template_name);

// What the model reads of them, for those who plan.
Dataset prompts_of(const std::vector<SamplePrompt>& samples);

}  // namespace snug
