// From data files to a dataset: chunks of rows, parsed, encoded by all threads, and added in the files'
// order.
#include <fmt/format.h>

#include <exception>

#include "base/bytes.h"
#include "base/error.h"
#include "base/threads.h"
#include "data/dataset.h"
#include "data/row_parser.h"
#include "data/source.h"
#include "recipe/choices.h"

namespace snug {
namespace {

bool is_plain_text(const SourceFile& file) {
  return file.kind == FileKind::paragraphs || file.kind == FileKind::text_lines;
}

RowFormat format_of(const RowChunk& first, DataFormat wanted) {
  if (wanted == DataFormat::automatic) {
    return detect_row_format(first);
  }
  if (is_plain_text(*first.file) && wanted != DataFormat::text) {
    throw bad_input(
        fmt::format("{}: plain text has no prompts; set data.format to text, or give the data as JSONL",
                    first.file->path.string()));
  }
  return named_row_format(name_of(wanted));
}

// The template that the recipe names; else the model's own for rows that need one. Plain pairs are laid end
// to end unless the recipe asks for a template.
std::optional<ChatTemplate> template_for(const DatasetOptions& options, RowFormatKind kind) {
  if (options.encoding.decoder_start_id || options.chat_template == "none") {
    return std::nullopt;
  }
  if (!options.chat_template.empty()) {
    return load_chat_template(options.chat_template, options.model_folder);
  }
  bool has_roles = kind == RowFormatKind::messages || kind == RowFormatKind::conversations;
  if (!has_roles && kind != RowFormatKind::instruction) {
    return std::nullopt;
  }
  std::optional<ChatTemplate> own = find_chat_template(options.model_folder);
  if (!own && kind == RowFormatKind::instruction) {
    return load_chat_template("alpaca", options.model_folder);
  }
  return own;
}

class DatasetLoader {
 public:
  DatasetLoader(std::vector<std::filesystem::path> files, const Tokenizer& tokenizer,
                const DatasetOptions& options)
      : source_(std::move(files)), tokenizer_(tokenizer), options_(options) {}

  Dataset load() {
    std::optional<RowChunk> chunk = source_.next();
    RowFormat format = format_of(*chunk, options_.format);
    std::optional<ChatTemplate> chat = template_for(options_, format.kind);
    RowEncoder encoder(tokenizer_, chat ? &*chat : nullptr, options_.encoding);
    RowParser parser(format);
    for (; chunk && !is_full(); chunk = source_.next()) {
      add_chunk(parser.parse(*chunk), encoder, *chunk->file);
    }
    if (dataset_.size() == 0) {
      throw bad_input(
          fmt::format("{}: none of its {} rows has anything to learn: they are empty, or data.max_length "
                      "({}) cuts away all "
                      "that would be learned. Raise data.max_length or check the columns.",
                      source_.files().front().string(), rows_, options_.encoding.max_length_tokens));
    }
    dataset_.description = describe(format, chat ? chat->name() : "");
    return std::move(dataset_);
  }

 private:
  bool is_full() const { return options_.max_rows > 0 && rows_ >= options_.max_rows; }

  void add_chunk(ParsedChunk parsed, const RowEncoder& encoder, const SourceFile& file) {
    for (const BadRow& bad : parsed.bad) {
      refuse(snug::describe(bad, file));
    }
    std::vector<EncodedRow> encoded(parsed.rows.size());
    std::vector<std::string> problems(parsed.rows.size());
    parallel_for(std::ssize(parsed.rows), 64, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        auto index = static_cast<size_t>(i);
        try {
          encoded[index] = encoder.encode(parsed.rows[index]);
        } catch (const Error& error) {
          problems[index] = error.what();
        }
      }
    });
    for (size_t i = 0; i < encoded.size() && !is_full(); ++i) {
      ++rows_;
      if (problems[i].empty()) {
        add(encoded[i]);
      } else {
        refuse(snug::describe(BadRow{parsed.rows[i].place, problems[i]}, file));
      }
    }
  }

  void refuse(const std::string& place_and_reason) {
    if (options_.on_bad_row == OnBadRow::stop) {
      throw bad_input(place_and_reason + ". Mend the row, or set data.on_bad_row to skip.");
    }
    if (dataset_.bad_rows++ == 0) {
      dataset_.first_bad_row = place_and_reason;
    }
  }

  void add(const EncodedRow& row) {
    dataset_.dropped_long += row.too_long ? 1 : 0;
    dataset_.dropped_examples += !row.too_long && row.examples.empty() ? 1 : 0;
    dataset_.split_examples += row.examples.size() > 1 ? 1 : 0;
    if (!row.examples.empty() && row.cut_tokens > 0) {
      ++dataset_.cut_examples;
      dataset_.cut_tokens += row.cut_tokens;
    }
    for (const Example& example : row.examples) {
      dataset_.add(example);
    }
  }

  std::string describe(const RowFormat& format, const std::string& chat_template) const {
    std::string name = source_.files().front().filename().string();
    if (source_.files().size() > 1) {
      name += fmt::format(" and {} more files", source_.files().size() - 1);
    }
    std::string text = fmt::format(
        "{}: {}{}; {} examples, {} tokens, {} of them learned", name, format.description,
        chat_template.empty() ? "" : ", by the chat template " + chat_template, format_count(dataset_.size()),
        format_count(dataset_.total_tokens()), format_count(dataset_.total_targets()));
    auto add = [&](int64_t count, const std::string& what) {
      if (count > 0) {
        text += fmt::format("; {} {}", format_count(count), what);
      }
    };
    add(dataset_.cut_examples,
        fmt::format("cut to {} tokens ({} tokens lost)", format_count(options_.encoding.max_length_tokens),
                    format_count(dataset_.cut_tokens)));
    add(dataset_.split_examples, "split, being too long");
    add(dataset_.dropped_long, "dropped, being too long");
    add(dataset_.dropped_examples, "dropped, nothing to learn in them");
    add(dataset_.bad_rows, "bad rows skipped, the first at " + dataset_.first_bad_row);
    return text;
  }

  RowSource source_;
  const Tokenizer& tokenizer_;
  const DatasetOptions& options_;
  Dataset dataset_;
  int64_t rows_ = 0;
};

}  // namespace

Dataset load_dataset(const std::filesystem::path& pattern, const Tokenizer& tokenizer,
                     const DatasetOptions& options) {
  if (options.encoding.max_length_tokens < 2) {
    throw bad_input(fmt::format(
        "data.max_length is {}; it must be at least 2: one token to start from and one to predict.",
        options.encoding.max_length_tokens));
  }
  std::vector<std::filesystem::path> files =
      find_data_files({pattern.filename().string()}, pattern.parent_path());
  return DatasetLoader(std::move(files), tokenizer, options).load();
}

DatasetOptions dataset_options(const DataSection& data, const std::filesystem::path& model_folder) {
  return {.format = data.format,
          .encoding = {.train_on = data.train_on,
                       .truncation = data.truncation,
                       .truncation_side = data.truncation_side,
                       .max_length_tokens = data.max_length,
                       .max_target_tokens = data.max_target_length,
                       .decoder_start_id = std::nullopt},
          .chat_template = data.chat_template,
          .model_folder = model_folder,
          .on_bad_row = data.on_bad_row,
          .max_rows = data.max_samples};
}

}  // namespace snug
