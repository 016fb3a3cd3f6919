// The road from files to tokens.
#include "data/tokens/tokenize_files.h"

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/threads.h"
#include "data/rows/findings.h"
#include "data/rows/parser.h"
#include "data/source/source.h"
#include "recipe/choices.h"
#include "text/chat/chat_template.h"

namespace snug {
namespace {

// Small enough that many threads' chunks stay small together, large enough that a thread is busy for a while.
constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr int64_t kChunksPerThread = 4;

bool is_plain_text(const SourceFile& file) {
  return file.kind == FileKind::paragraphs || file.kind == FileKind::text_lines;
}

RowFormat format_of(const RowChunk& first, const TokenizeOptions& options) {
  bool by_columns = !options.columns.completion.empty();
  if (is_plain_text(*first.file) &&
      (by_columns || (options.format != DataFormat::automatic && options.format != DataFormat::text))) {
    throw bad_input(
        fmt::format("{}: plain text has no prompts; set data.format to text, or give the data as JSONL",
                    first.file->path.string()));
  }
  if (by_columns) {
    return row_format_from_columns(options.columns);
  }
  return options.format == DataFormat::automatic ? detect_row_format(first)
                                                 : named_row_format(name_of(options.format));
}

// The template that the recipe names; else the model's own for rows that need one. Plain pairs are laid end
// to end unless the recipe asks for a template.
std::optional<ChatTemplate> template_for(const TokenizeOptions& options, RowFormatKind kind) {
  if (options.encoding.decoder_start_id || options.chat_template == "none") {
    return std::nullopt;
  }
  if (!options.chat_template.empty()) {
    return load_chat_template(options.chat_template, options.model_folder);
  }
  if (!holds_conversations(kind) && kind != RowFormatKind::instruction) {
    return std::nullopt;
  }
  std::optional<ChatTemplate> own = find_chat_template(options.model_folder);
  if (!own && kind == RowFormatKind::instruction) {
    return load_chat_template("alpaca", options.model_folder);
  }
  return own;
}

// Plain pairs are laid end to end; people who train a chat model on them may have meant otherwise.
bool leaves_template_unused(RowFormatKind kind, const TokenizeOptions& options) {
  bool is_pair = kind == RowFormatKind::prompt_completion || kind == RowFormatKind::input_output ||
                 kind == RowFormatKind::columns;
  return is_pair && options.chat_template.empty() && !options.encoding.decoder_start_id &&
         ships_chat_template(options.model_folder);
}

// What is wrong with all rows is not to be said of the first.
void check_format(const RowFormat& format, bool has_template, const TokenizeOptions& options,
                  const std::string& files) {
  if (!holds_conversations(format.kind)) {
    return;
  }
  if (options.encoding.decoder_start_id) {
    throw bad_input(
        fmt::format("{}: holds conversations, and a model with an encoder learns from pairs: give each row a "
                    "\"prompt\", which the encoder reads, and a \"completion\"",
                    files));
  }
  if (!has_template) {
    throw bad_input(
        fmt::format("{}: holds conversations, which need a chat template, and {} brings none: set "
                    "data.chat_template to a "
                    "name such as chatml, or to a file",
                    files, options.model_folder.string()));
  }
}

// A row after a thread had it.
struct TokenizedRow {
  RowPlace place;
  Example example;
  RowFindings findings;
  std::string problem;  // why it cannot be used; "" if it can
};

class FileTokenizer {
 public:
  FileTokenizer(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                const TokenizeOptions& options, TokenCacheWriter& writer)
      : source_(files, {.kind = std::nullopt, .chunk_bytes = kChunkBytes}),
        tokenizer_(tokenizer),
        options_(options),
        writer_(writer) {}

  TableFacts run(const DataObserver& observer) {
    std::vector<RowChunk> chunks = next_chunks(1);
    RowFormat format = format_of(chunks.front(), options_);
    std::optional<ChatTemplate> chat = template_for(options_, format.kind);
    RowEncoder encoder(tokenizer_, chat ? &*chat : nullptr, options_.encoding);
    facts_.files = name_of_files(source_.files());
    check_format(format, chat.has_value(), options_, facts_.files);
    facts_.format = format.description;
    facts_.chat_template = chat ? chat->name() : "";
    facts_.template_unused = leaves_template_unused(format.kind, options_);
    DataProgress progress{.stage = "tokenizing " + facts_.files,
                          .total_bytes = total_file_bytes(source_.files())};
    while (!chunks.empty() && !is_full()) {
      add(chunks, tokenize(chunks, format, encoder));
      progress.rows = facts_.rows;
      progress.done_bytes = source_.consumed_bytes();
      observer(progress);
      chunks = next_chunks(kChunksPerThread * thread_count());
    }
    return finish();
  }

 private:
  bool is_full() const { return options_.max_rows > 0 && facts_.rows >= options_.max_rows; }

  std::vector<RowChunk> next_chunks(int64_t count) {
    std::vector<RowChunk> chunks;
    while (std::ssize(chunks) < count) {
      std::optional<RowChunk> chunk = source_.next();
      if (!chunk) {
        break;
      }
      chunks.push_back(std::move(*chunk));
    }
    return chunks;
  }

  // The rows of each chunk in their order, broken ones among them.
  std::vector<std::vector<TokenizedRow>> tokenize(const std::vector<RowChunk>& chunks,
                                                  const RowFormat& format, const RowEncoder& encoder) const {
    std::vector<std::vector<TokenizedRow>> results(chunks.size());
    std::vector<std::exception_ptr> failures(chunks.size());
    auto tokenize_at = [&](int64_t index) {
      auto i = static_cast<size_t>(index);
      try {
        results[i] = tokenize_chunk(chunks[i], format, encoder);
      } catch (...) {  // must not leave the loop's threads; thrown again below
        failures[i] = std::current_exception();
      }
    };
    parallel_items(std::ssize(chunks), thread_count(), [&](int /*slot*/) { return tokenize_at; });
    for (const std::exception_ptr& failure : failures) {
      if (failure) {
        std::rethrow_exception(failure);
      }
    }
    return results;
  }

  std::vector<TokenizedRow> tokenize_chunk(const RowChunk& chunk, const RowFormat& format,
                                           const RowEncoder& encoder) const {
    ParsedChunk parsed = RowParser(format).parse(chunk);
    std::vector<TokenizedRow> rows;
    rows.reserve(parsed.rows.size() + parsed.bad.size());
    auto bad = parsed.bad.begin();
    auto add_bad_before = [&](int64_t row) {
      for (; bad != parsed.bad.end() && bad->place.row < row; ++bad) {
        rows.push_back({.place = bad->place, .example = {}, .findings = {}, .problem = bad->reason});
      }
    };
    for (DataRow& row : parsed.rows) {
      add_bad_before(row.place.row);
      TokenizedRow result{.place = row.place, .example = {}, .findings = {}, .problem = {}};
      try {
        result.example = encoder.encode(row);
        result.findings = inspect_row(row, result.example, tokenizer_);
      } catch (const Error& error) {
        result.problem = error.what();
      }
      rows.push_back(std::move(result));
    }
    add_bad_before(std::numeric_limits<int64_t>::max());
    return rows;
  }

  void add(const std::vector<RowChunk>& chunks, const std::vector<std::vector<TokenizedRow>>& results) {
    for (size_t i = 0; i < chunks.size(); ++i) {
      for (const TokenizedRow& row : results[i]) {
        if (is_full()) {
          return;
        }
        ++facts_.rows;
        if (row.problem.empty()) {
          add(row, *chunks[i].file);
        } else {
          refuse(fmt::format("{}: {}", place_of(row, *chunks[i].file), row.problem));
        }
      }
    }
  }

  static std::string place_of(const TokenizedRow& row, const SourceFile& file) {
    return fmt::format("{}:{}", file.path.string(), row.place.line);
  }

  void add(const TokenizedRow& row, const SourceFile& file) {
    auto note = [&](bool found, Finding& finding) {
      if (found) {  // few rows have a place to name
        finding.add(place_of(row, file));
      }
    };
    note(row.findings.empty_answer, facts_.empty_answers);
    note(row.findings.wrong_role_order, facts_.wrong_role_order);
    note(row.findings.without_end, facts_.without_end);
    note(row.findings.unknown_role, facts_.unknown_roles);
    note(row.findings.unfound_answer, facts_.unfound_answers);
    note(row.findings.unknown_text, facts_.unknown_text);
    note(!writer_.add(row.example), facts_.nothing_learned);
  }

  void refuse(const std::string& place_and_reason) {
    if (options_.on_bad_row == OnBadRow::stop) {
      throw bad_row_error(place_and_reason);
    }
    if (facts_.bad.size() < kShownBadRows) {
      facts_.bad.push_back(place_and_reason);
    }
    ++facts_.bad_rows;
    writer_.skip();
  }

  TableFacts finish() {
    if (writer_.rows() == 0) {
      throw bad_input(fmt::format(
          "{}: none of its {} rows has anything to learn: they are empty, or have no answers. Check the "
          "columns, data.format and data.train_on.{}",
          source_.files().front().string(), format_count(facts_.rows),
          facts_.bad.empty() ? "" : " The first row that was skipped: " + facts_.bad.front()));
    }
    facts_.vocabulary = tokenizer_.vocabulary_size();
    facts_.decoder_start_id = options_.encoding.decoder_start_id.value_or(0);
    facts_.end_id = tokenizer_.eos_id().value_or(-1);
    return std::move(facts_);
  }

  RowSource source_;
  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  TokenCacheWriter& writer_;
  TableFacts facts_;
};

}  // namespace

Error bad_row_error(const std::string& place_and_reason) {
  return bad_input(place_and_reason + ". Mend the row, or set data.on_bad_row to skip.");
}

TableFacts tokenize_files(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                          const TokenizeOptions& options, TokenCacheWriter& writer,
                          const DataObserver& observer) {
  return FileTokenizer(files, tokenizer, options, writer).run(observer);
}

std::string name_of_files(const std::vector<std::filesystem::path>& files) {
  std::string name = files.front().filename().string();
  return files.size() == 1 ? name : fmt::format("{} and {} more files", name, files.size() - 1);
}

}  // namespace snug
