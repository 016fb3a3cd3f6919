// The data on a terminal.
#include "report/data_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/utf8.h"
#include "data/data_statistics.h"
#include "io/printable.h"
#include "recipe/effective_batch.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr std::string_view kFrame = "  │ ";
constexpr size_t kHistogramColumns = 40;
constexpr size_t kCountColumns = 10;
constexpr const char* kLimitMark = "  ◀ the recipe's limit";

std::string histogram_bar(int64_t rows, int64_t most, size_t columns) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int64_t eighths = most > 0 ? (rows * static_cast<int64_t>(columns) * 8 + most - 1) / most : 0;
  std::string text;
  for (int64_t i = 0; i < eighths / 8; ++i) {
    text += "█";
  }
  return pad_right(text + kEighths[eighths % 8], columns);
}

std::string histogram(const LengthStatistics& lengths, const Style& style) {
  int64_t most = 0;
  for (const LengthBin& bin : lengths.bins) {
    most = std::max(most, bin.rows);
  }
  size_t width = format_count(lengths.longest).size();
  bool marked = !lengths.bins.empty() && lengths.limit >= lengths.bins.front().first &&
                lengths.limit <= lengths.bins.back().last;
  size_t others =
      display_width("   –  │ ") + 2 * width + kCountColumns + (marked ? display_width(kLimitMark) : 0);
  size_t columns = style.columns() > others + 1 ? std::min(kHistogramColumns, style.columns() - others) : 1;
  std::string text;
  for (const LengthBin& bin : lengths.bins) {
    bool has_limit = lengths.limit >= bin.first && lengths.limit <= bin.last;
    bool beyond = bin.first > lengths.limit;
    std::string bar = histogram_bar(bin.rows, most, columns);
    text +=
        fmt::format("  {} – {} │{} {}{}\n", pad_left(format_count(bin.first), width),
                    pad_left(format_count(bin.last), width), beyond ? style.bad(bar) : style.accent(bar),
                    pad_left(format_count(bin.rows), kCountColumns), has_limit ? style.dim(kLimitMark) : "");
  }
  return text;
}

std::string length_lines(const std::string& title, const LengthStatistics& lengths, const Style& style) {
  std::string text = fmt::format("\n  {} (mean {:.0f}, median {})\n", style.bold(title), lengths.mean,
                                 format_count(lengths.median));
  text += histogram(lengths, style);
  std::string fits = fmt::format(
      "  99% of the rows fit into {} tokens, all of them into {}. The recipe allows {}: {}.\n",
      style.bold(format_count(lengths.fits_99_percent)), style.bold(format_count(lengths.longest)),
      format_count(lengths.limit),
      lengths.rows_too_long == 0
          ? style.good("none is too long")
          : style.bad(fmt::format(
                "{} rows ({:.1f}%) are too long", format_count(lengths.rows_too_long),
                100.0 * static_cast<double>(lengths.rows_too_long) / static_cast<double>(lengths.rows))));
  return text + fit_lines(fits, style);
}

std::string example_text(const RenderedExample& example, const Style& style) {
  std::string text;
  for (const TextPart& part : example.parts) {
    std::string said = printable_lines(part.text);
    if (part.kind == TextPart::Kind::learned) {
      text += style.coloured() ? style.good(said) : "«" + said + "»";
    } else if (part.kind == TextPart::Kind::source) {
      text += style.dim(said) + style.bold(" → ");
    } else {
      text += style.dim(said);
    }
  }
  if (example.hidden_tokens > 0) {
    text += style.bold(fmt::format(" … and {} tokens more", format_count(example.hidden_tokens)));
  }
  std::string framed(kFrame);
  for (char character : broken_lines(text, style.columns() - display_width(kFrame))) {
    framed += character;
    framed += character == '\n' ? kFrame : "";
  }
  return framed + "\n";
}

std::string pack_text(const DataReport& report) {
  if (!report.recipe.data.packing) {
    return "";
  }
  PackStatistics packs =
      pack_statistics(report.data.train, training_batches(report.recipe, report.data.train));
  return fmt::format(" of {} packs; an epoch has {} packs, {:.1f}%{} full",
                     effective_batch(report.recipe.training), format_count(packs.packs), 100 * packs.filled,
                     report.data.train.has_sources()
                         ? fmt::format(" (what the encoder reads: {:.1f}%)", 100 * packs.filled_source)
                         : "");
}

std::string evaluation_text(const DataReport& report) {
  if (!report.limits.evaluate) {
    return "";
  }
  bool is_open = !report.recipe.training.per_device_eval_batch_size;
  return fmt::format("; to evaluate, up to {} tokens at a time{}",
                     format_count(report.limits.evaluate->tokens), is_open ? ", if there is room" : "");
}

std::string summary_lines(const DataReport& report, const Style& style) {
  const Dataset& train = report.data.train;
  const BatchLimits& most = report.limits.train;
  std::string text = fmt::format("  {}  {}\n", style.dim("train"), printable_lines(describe(train)));
  if (report.data.eval) {
    text += fmt::format("  {}  {}\n", style.dim("eval "), printable_lines(describe(*report.data.eval)));
  }
  text += fmt::format("  {}  {} steps{}; a micro-batch has at most {} sequences and {}{} tokens{}\n",
                      style.dim("run  "), format_count(report.total_steps), pack_text(report),
                      format_count(most.sequences),
                      train.has_sources() ? format_count(most.source_tokens) + " + " : "",
                      format_count(most.tokens), evaluation_text(report));
  return fit_lines(text, style);
}

Json lengths_json(const LengthStatistics& lengths) {
  Json bins = Json::array();
  for (const LengthBin& bin : lengths.bins) {
    bins.push_back({{"first", bin.first}, {"last", bin.last}, {"rows", bin.rows}});
  }
  return {{"rows", lengths.rows},
          {"mean", lengths.mean},
          {"shortest", lengths.shortest},
          {"median", lengths.median},
          {"fits_99_percent", lengths.fits_99_percent},
          {"longest", lengths.longest},
          {"limit", lengths.limit},
          {"rows_too_long", lengths.rows_too_long},
          {"histogram", bins}};
}

Json warnings_json(const std::vector<DataWarning>& warnings) {
  Json json = Json::array();
  for (const DataWarning& warning : warnings) {
    json.push_back(
        {{"kind", warning.kind}, {"rows", warning.rows}, {"first", warning.first}, {"text", warning.text}});
  }
  return json;
}

Json dataset_json(const Dataset& dataset, OnBadRow on_bad_row) {
  Json files = Json::array();
  for (const Dataset::Part& part : dataset.parts()) {
    const TableFacts& facts = part.table->facts();
    files.push_back({{"files", facts.files},
                     {"format", facts.format},
                     {"chat_template", facts.chat_template},
                     {"weight", part.weight},
                     {"rows", facts.rows},
                     {"bad_rows", facts.bad_rows},
                     {"bad", facts.bad}});
  }
  TokenCounts tokens = dataset.count_tokens();
  const TruncationCounts& counts = dataset.truncation();
  Json json = {{"files", files},
               {"examples", dataset.size()},
               {"tokens", tokens.with_sources()},
               {"learned_tokens", tokens.learned},
               {"cut_examples", counts.cut_examples},
               {"cut_tokens", counts.sources.tokens + counts.targets.tokens},
               {"split_rows", counts.split_rows},
               {"dropped_long", counts.dropped_long},
               {"dropped_nothing_learned", counts.nothing_learned},
               {"lengths", lengths_json(length_statistics(dataset))},
               {"warnings", warnings_json(data_warnings(dataset, on_bad_row))}};
  if (dataset.has_sources()) {
    auto cut_json = [](const CutCounts& cut) {
      return Json{{"examples", cut.examples}, {"tokens", cut.tokens}};
    };
    json["cut_sources"] = cut_json(counts.sources);
    json["cut_targets"] = cut_json(counts.targets);
    json["source_lengths"] = lengths_json(source_length_statistics(dataset));
  }
  return json;
}

// Tokens of one kind become one text: a character may lie in several tokens.
class PartCollector {
 public:
  PartCollector(const Tokenizer& tokenizer, int64_t max_tokens) : tokenizer_(tokenizer), left_(max_tokens) {}

  void add(int32_t id, TextPart::Kind kind, bool starts_text) {
    ++example_.tokens;
    if (left_ == 0) {
      ++example_.hidden_tokens;
      return;
    }
    --left_;
    bool continues = !example_.parts.empty() && example_.parts.back().kind == kind;
    if (!continues) {
      example_.parts.push_back({kind, {}});
    }
    example_.parts.back().text += tokenizer_.bytes(id, starts_text);
  }

  RenderedExample finish() {
    for (TextPart& part : example_.parts) {
      part.text = replace_invalid_utf8(part.text);
    }
    return std::move(example_);
  }

 private:
  const Tokenizer& tokenizer_;
  int64_t left_;
  RenderedExample example_;
};

}  // namespace

RenderedExample render_example(const Dataset& dataset, int64_t index, const Tokenizer& tokenizer,
                               int64_t max_tokens) {
  ExampleView view = dataset.example(index);
  PartCollector collector(tokenizer, max_tokens);
  for (size_t i = 0; i < view.source.size(); ++i) {
    collector.add(view.source[i].id(), TextPart::Kind::source, i == 0);
  }
  for (size_t i = 0; i < view.tokens.size(); ++i) {
    bool is_first = i == 0 && view.source.empty();  // nothing stands before it
    bool learned = view.tokens[i].is_learned() && !is_first;
    collector.add(view.tokens[i].id(), learned ? TextPart::Kind::learned : TextPart::Kind::read, i == 0);
  }
  return collector.finish();
}

std::string data_warning_lines(const RunData& data, const DataSection& section, const Style& style) {
  std::string text;
  for (const DataWarning& warning : data_warnings(data, section)) {
    text += fmt::format("  {} {} rows {}", style.bad("!"), format_count(warning.rows), warning.text);
    text += warning.first.empty() ? "\n" : fmt::format("; the first: {}\n", printable_lines(warning.first));
  }
  return fit_lines(text, style);
}

std::string data_report(const DataReport& report, const Style& style) {
  const Dataset& train = report.data.train;
  std::string text = summary_lines(report, style);
  if (train.has_sources()) {
    text += length_lines("tokens of a row's source, which the encoder reads", source_length_statistics(train),
                         style);
    text +=
        length_lines("tokens of a row's target, which the decoder learns", length_statistics(train), style);
  } else {
    text += length_lines("tokens of a row", length_statistics(train), style);
  }
  for (size_t i = 0; i < report.examples.size(); ++i) {
    text += fmt::format("\n  {} {} tokens; {} is learned\n", style.bold(fmt::format("example {}", i + 1)),
                        format_count(report.examples[i].tokens),
                        style.coloured() ? style.good("this colour") : "what stands in «»");
    text += example_text(report.examples[i], style);
  }
  std::string warnings = data_warning_lines(report.data, report.recipe.data, style);
  return text + "\n" + (warnings.empty() ? style.good("  nothing looks wrong") + "\n" : warnings);
}

Json data_report_json(const DataReport& report) {
  OnBadRow on_bad_row = report.recipe.data.on_bad_row;
  Json examples = Json::array();
  for (const RenderedExample& example : report.examples) {
    static constexpr const char* kKinds[] = {"source", "read", "learned"};
    Json parts = Json::array();
    for (const TextPart& part : example.parts) {
      parts.push_back({{"kind", kKinds[static_cast<size_t>(part.kind)]}, {"text", part.text}});
    }
    examples.push_back(
        {{"tokens", example.tokens}, {"hidden_tokens", example.hidden_tokens}, {"parts", parts}});
  }
  auto limits = [](const BatchLimits& batch) {
    return Json{
        {"sequences", batch.sequences}, {"tokens", batch.tokens}, {"source_tokens", batch.source_tokens}};
  };
  Json evaluation;
  if (report.limits.evaluate) {
    evaluation = limits(*report.limits.evaluate);
    evaluation["auto"] = !report.recipe.training.per_device_eval_batch_size;
  }
  Json packs;
  if (report.recipe.data.packing) {
    PackStatistics found =
        pack_statistics(report.data.train, training_batches(report.recipe, report.data.train));
    packs = {{"packs", found.packs}, {"filled", found.filled}, {"filled_source", found.filled_source}};
  }
  return {{"train", dataset_json(report.data.train, on_bad_row)},
          {"eval", report.data.eval ? dataset_json(*report.data.eval, on_bad_row) : Json()},
          {"warnings", warnings_json(data_warnings(report.data, report.recipe.data))},
          {"total_steps", report.total_steps},
          {"packs", packs},
          {"longest_batch", limits(report.limits.train)},
          {"longest_eval_batch", evaluation},
          {"examples", examples}};
}

}  // namespace snug
