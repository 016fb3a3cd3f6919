// From the recipe's words to questions.
#include "data/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "data/rows/encoder.h"
#include "data/rows/messages.h"
#include "data/run_data.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "text/chat/chat_template.h"

namespace snug {
namespace {

constexpr const char* kKey = "training.validation_prompts";
constexpr int64_t kLongestFile = 4 << 20;
// Stands where an answer would, so that the row is one that can be learned: what comes before it counts.
constexpr const char* kSomeAnswer = "-";

// {"prompt", "reference" or "completion"} or {"messages", ...}
ValidationPrompt prompt_of_row(const Json& row, const std::string& place) {
  ValidationPrompt prompt;
  if (row.is_string()) {
    prompt.prompt = row.get<std::string>();
    return prompt;
  }
  if (!row.is_object()) {
    throw bad_input(fmt::format("{}: expected an object with \"prompt\" or \"messages\"", place));
  }
  prompt.prompt = json_string(row, "prompt", "", place);
  prompt.reference = json_string(row, "reference", json_string(row, "completion", "", place), place);
  const Json messages = row.value("messages", Json::array());
  if (std::string problem = messages.empty() ? "" : find_message_problem(messages); !problem.empty()) {
    throw bad_input(fmt::format("{}: {}", place, problem));
  }
  for (const Json& message : messages) {
    const Json content = message.value("content", Json(""));
    prompt.messages.push_back(
        {message.value("role", ""), content.is_string() ? content.get<std::string>() : content.dump()});
  }
  if (prompt.prompt.empty() == prompt.messages.empty()) {
    throw bad_input(fmt::format("{}: expected either \"prompt\" or \"messages\"", place));
  }
  return prompt;
}

std::vector<ValidationPrompt> prompts_of_file(const std::string& path) {
  std::istringstream lines(read_text_file(path, kLongestFile));
  bool is_json = path.ends_with(".jsonl");
  std::vector<ValidationPrompt> prompts;
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    std::string place = fmt::format("{} ({}:{})", kKey, path, number);
    prompts.push_back(is_json ? prompt_of_row(parse_json(line, place), place)
                              : ValidationPrompt{.prompt = line.substr(0, line.find('\r'))});
    if (prompts.size() > kMostValidationPrompts) {
      throw bad_input(
          fmt::format("{}: {} has more than {} prompts, and each takes its time at every "
                      "evaluation: keep those that tell most",
                      kKey, path, kMostValidationPrompts));
    }
  }
  if (prompts.empty()) {
    throw bad_input(fmt::format("{}: {} has no prompts", kKey, path));
  }
  return prompts;
}

// A conversation's last answer is its reference.
void take_reference(ValidationPrompt& prompt) {
  if (!prompt.messages.empty() && prompt.messages.back().role == "assistant" && prompt.reference.empty()) {
    prompt.reference = std::move(prompt.messages.back().content);
    prompt.messages.pop_back();
  }
}

std::string text_of(const ValidationPrompt& prompt) {
  std::string text = prompt.prompt;
  for (const PromptMessage& message : prompt.messages) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", message.role, message.content);
  }
  return text;
}

DataRow row_of(const ValidationPrompt& prompt) {
  DataRow row;
  std::string answer = prompt.reference.empty() ? kSomeAnswer : prompt.reference;
  if (prompt.messages.empty()) {
    row.kind = RowKind::pair;
    row.prompt = prompt.prompt;
    row.completion = std::move(answer);
    return row;
  }
  row.kind = RowKind::conversation;
  row.messages = Json::array();
  for (const PromptMessage& message : prompt.messages) {
    row.messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  row.messages.push_back({{"role", "assistant"}, {"content", std::move(answer)}});
  return row;
}

std::optional<ChatTemplate> template_of(const Recipe& recipe, const DataModel& model,
                                        const std::string& template_name, bool has_conversation) {
  const std::string& wanted = recipe.data.chat_template;
  bool needs_one = !template_name.empty() || has_conversation;
  if (!needs_one || model.decoder_start_id || wanted == "none") {
    return std::nullopt;
  }
  if (!wanted.empty()) {
    return load_chat_template(wanted, model.folder);
  }
  std::optional<ChatTemplate> own = find_chat_template(model.folder);
  if (!own && !template_name.empty()) {
    return load_chat_template(template_name, model.folder);
  }
  return own;
}

// What stands before the last answer, and the answer.
Question question_of(const Example& example, const DataModel& model) {
  auto is_learned = [](TokenWord word) { return word.is_learned(); };
  auto last = std::find_if(example.tokens.rbegin(), example.tokens.rend(), is_learned);
  auto before = std::find_if_not(last, example.tokens.rend(), is_learned);
  Question question;
  auto add = [](std::vector<int32_t>& ids, auto begin, auto end) {
    std::transform(begin, end, std::back_inserter(ids), [](TokenWord word) { return word.id(); });
  };
  if (model.decoder_start_id) {
    question.prompt.push_back(*model.decoder_start_id);
  }
  add(question.prompt, example.tokens.begin(), before.base());
  add(question.answer, before.base(), last.base());
  add(question.source, example.source.begin(), example.source.end());
  if (question.prompt.empty() || question.answer.empty()) {
    throw bad_input("is no question: nothing is read before the answer, or the chat template leaves it out");
  }
  return question;
}

void require_length(const Question& question, const Recipe& recipe) {
  int64_t tokens = std::ssize(question.source.empty() ? question.prompt : question.source);
  if (tokens > recipe.data.max_length) {
    throw bad_input(fmt::format("has {} tokens, and data.max_length is {}: shorten the prompt", tokens,
                                recipe.data.max_length));
  }
}

}  // namespace

std::vector<SamplePrompt> load_samples(const Recipe& recipe, const DataModel& model,
                                       const Tokenizer& tokenizer, const std::string& template_name) {
  const TrainingSection& training = recipe.training;
  std::vector<ValidationPrompt> prompts = training.validation_prompts_file.empty()
                                              ? training.validation_prompts
                                              : prompts_of_file(training.validation_prompts_file);
  EncodingOptions options{.train_on = TrainOn::last_completion, .decoder_start_id = model.decoder_start_id};
  std::optional<ChatTemplate> of_prompts = template_of(recipe, model, template_name, false);
  std::optional<ChatTemplate> of_conversations = template_of(recipe, model, template_name, true);
  RowEncoder prompt_encoder(tokenizer, of_prompts ? &*of_prompts : nullptr, options);
  RowEncoder conversation_encoder(tokenizer, of_conversations ? &*of_conversations : nullptr, options);
  std::vector<SamplePrompt> samples;
  for (ValidationPrompt& prompt : prompts) {
    take_reference(prompt);
    const RowEncoder& encoder = prompt.messages.empty() ? prompt_encoder : conversation_encoder;
    SamplePrompt& sample = samples.emplace_back();
    try {
      sample.question = question_of(encoder.encode(row_of(prompt)), model);
      require_length(sample.question, recipe);
    } catch (const Error& error) {
      throw bad_input(fmt::format("{}[{}]: {}: {}", kKey, samples.size() - 1, in_quotes(text_of(prompt), 60),
                                  error.what()));
    }
    sample.text = text_of(prompt);
    sample.reference = std::move(prompt.reference);
  }
  return samples;
}

Dataset prompts_of(const std::vector<SamplePrompt>& samples) {
  std::vector<Example> examples;
  int32_t start = 0;
  for (const SamplePrompt& sample : samples) {
    const Question& question = sample.question;
    Example& example = examples.emplace_back();
    append_tokens(example.tokens, question.prompt, true);
    append_tokens(example.source, question.source, false);
    start = question.prompt.front();
  }
  return make_dataset(examples, start);
}

}  // namespace snug
