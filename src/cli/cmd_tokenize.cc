// snug tokenize MODEL [TEXT]
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/printable.h"
#include "model/locate.h"
#include "report/layout.h"
#include "report/terminal.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {
namespace {

struct TokenizeArguments {
  std::string model;
  std::string text;
  bool has_text = false;
  std::string file;
  std::vector<int32_t> ids;
  bool special = false;
  bool json = false;
};

// A folder or a file as given; otherwise a hub id that is in the local cache.
std::filesystem::path tokenizer_path(const std::string& model) {
  if (std::filesystem::exists(model)) {
    return model;
  }
  std::string folder = locate_model(model).folder;
  if (folder.empty()) {
    throw bad_input(
        fmt::format("{}: no such file or folder, and not downloaded; name a folder with tokenizer.json or "
                    "tokenizer.model",
                    model));
  }
  return folder;
}

// Two colours in turn, so that neighbours can be told apart; special tokens stand out.
std::string coloured(const Style& style, const std::string& text, size_t index, bool special) {
  if (special) {
    return style.bad(text);
  }
  return index % 2 == 0 ? style.accent(text) : style.good(text);
}

void print_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t text_bytes) {
  Style style = Style::for_stdout();
  if (style.coloured()) {
    std::string line;
    for (size_t i = 0; i < ids.size(); ++i) {
      line += coloured(style, printable(tokenizer.piece(ids[i])), i, tokenizer.is_special(ids[i]));
    }
    fmt::print("  {}\n\n", line);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    int32_t id = ids[i];
    std::string said = printable(replace_invalid_utf8(tokenizer.bytes(id, i == 0)));
    fmt::print("  {}  {}  {}\n", pad_left(std::to_string(id), 7),
               coloured(style, pad_right(printable(tokenizer.piece(id)), 20), i, tokenizer.is_special(id)),
               style.dim("\"" + said + "\""));
  }
  double per_token = ids.empty() ? 0 : static_cast<double>(text_bytes) / static_cast<double>(ids.size());
  fmt::print("\n  {} tokens, {} bytes of text ({:.1f} a token)\n", ids.size(), text_bytes, per_token);
}

int decode_command(const Tokenizer& tokenizer, const TokenizeArguments& arguments) {
  for (int32_t id : arguments.ids) {
    if (id < 0 || id >= tokenizer.vocabulary_size()) {
      throw bad_input(fmt::format("--decode {}: no such token: {} has the ids 0 to {}", id,
                                  in_quotes(arguments.model), tokenizer.vocabulary_size() - 1));
    }
  }
  std::string text = tokenizer.decode(arguments.ids, !arguments.special);
  if (arguments.json) {
    fmt::print("{}\n", json_text(Json{{"ids", arguments.ids}, {"text", text}}, -1));
  } else {
    fmt::print("{}\n", stdout_is_terminal() ? printable_lines(text) : text);
  }
  return kExitOk;
}

std::string input_text(const TokenizeArguments& arguments) {
  int given = (arguments.has_text ? 1 : 0) + (arguments.file.empty() ? 0 : 1);
  if (given != 1) {
    throw bad_input("give a TEXT, --file FILE, or --decode IDS: one of the three");
  }
  if (arguments.has_text) {
    return arguments.text;
  }
  if (arguments.file != "-") {
    return read_text_file(arguments.file, int64_t{1} << 30);
  }
  std::string text;
  std::array<char, 65536> buffer{};
  for (size_t count = std::fread(buffer.data(), 1, buffer.size(), stdin); count > 0;
       count = std::fread(buffer.data(), 1, buffer.size(), stdin)) {
    text.append(buffer.data(), count);
  }
  return text;
}

int tokenize_command(const TokenizeArguments& arguments) {
  if (!arguments.ids.empty() && (arguments.has_text || !arguments.file.empty())) {
    throw bad_input("give a TEXT, --file FILE, or --decode IDS: one of the three");
  }
  std::string text = arguments.ids.empty() ? input_text(arguments) : "";
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(tokenizer_path(arguments.model));
  if (!arguments.ids.empty()) {
    return decode_command(*tokenizer, arguments);
  }
  std::vector<int32_t> ids = tokenizer->encode(text, arguments.special);
  if (!arguments.json) {
    print_tokens(*tokenizer, ids, text.size());
    return kExitOk;
  }
  Json pieces = Json::array();
  for (int32_t id : ids) {
    pieces.push_back(tokenizer->piece(id));
  }
  fmt::print("{}\n", json_text(Json{{"ids", ids}, {"pieces", pieces}}, -1));
  return kExitOk;
}

}  // namespace

void add_tokenize_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand("tokenize", "The tokens of a text: pieces and ids");
  command
      ->add_option("model", arguments->model,
                   "A model's folder, tokenizer.json (also .gz), a SentencePiece .model, or a hub id that is "
                   "downloaded")
      ->required();
  CLI::Option* text = command->add_option("text", arguments->text, "The text");
  command->add_option("--file", arguments->file, "Read the text from a file; - is standard input");
  command
      ->add_option("--decode", arguments->ids, "Ids, separated by commas or spaces, to turn back into text")
      ->delimiter(',');
  command->add_flag("--special", arguments->special,
                    "Add the special tokens that the model expects around a text; with --decode: show them");
  command->add_flag("--json", arguments->json, "ids and pieces for programs");
  command->footer(
      "\nExamples:\n"
      "  snug tokenize models/tiny-story \"Once upon a time\"\n"
      "  snug tokenize models/tiny-story --file notes.txt --json\n"
      "  snug tokenize models/tiny-story --decode 318,257,640\n"
      "\nBytes of the text that are not UTF-8 count as U+FFFD.");
  command->callback([arguments, text, &action] {
    arguments->has_text = text->count() > 0;
    action = [arguments] { return tokenize_command(*arguments); };
  });
}

}  // namespace snug
