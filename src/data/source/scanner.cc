// Finds where rows begin and end: lines, paragraphs, CSV records, elements of a JSON list.
#include "data/source/scanner.h"

#include <algorithm>
#include <cstring>

namespace snug {

namespace {

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos;
}

// Lines that are not blank, without their ends.
class LineScanner : public RowScanner {
 public:
  ScanResult scan(std::string_view text, bool is_end) override {
    ScanResult result;
    size_t begin = 0;
    while (begin < text.size()) {
      size_t end = text.find('\n', begin);
      if (end == std::string_view::npos) {
        if (!is_end) {
          break;
        }
        end = text.size();
      }
      size_t length = end - begin;
      length -= length > 0 && text[end - 1] == '\r' ? 1 : 0;
      if (!is_blank(text.substr(begin, length))) {
        result.rows.push_back({begin, length, result.used_lines});
      }
      result.used_lines += end < text.size() ? 1 : 0;
      begin = std::min(end + 1, text.size());
    }
    result.used_bytes = begin;
    return result;
  }
};

// Lines with text, up to the next blank line.
class ParagraphScanner : public RowScanner {
 public:
  ScanResult scan(std::string_view text, bool is_end) override {
    ScanResult result;
    RowSpan paragraph;
    size_t paragraph_end = 0;
    bool inside = false;
    int64_t line = 0;
    size_t begin = 0;
    auto finish = [&] {
      if (inside) {
        paragraph.length = paragraph_end - paragraph.offset;
        result.rows.push_back(paragraph);
        inside = false;
      }
    };
    while (begin < text.size()) {
      size_t end = text.find('\n', begin);
      if (end == std::string_view::npos && !is_end) {
        break;
      }
      bool has_end = end != std::string_view::npos;
      end = has_end ? end : text.size();
      if (is_blank(text.substr(begin, end - begin))) {
        finish();
        result.used_bytes = std::min(end + 1, text.size());
        result.used_lines = line + (has_end ? 1 : 0);
      } else {
        if (!inside) {
          paragraph = {begin, 0, line};
          inside = true;
        }
        paragraph_end = end - (text[end - 1] == '\r' ? 1 : 0);
      }
      line += has_end ? 1 : 0;
      begin = std::min(end + 1, text.size());
    }
    if (is_end) {
      finish();
      result.used_bytes = text.size();
      result.used_lines = line;
    }
    return result;
  }
};

// Records of RFC 4180: line ends inside of quotes belong to the record. Blank lines are no records.
class RecordScanner : public RowScanner {
 public:
  explicit RecordScanner(char separator) : separator_(separator) {}

  ScanResult scan(std::string_view text, bool is_end) override {
    ScanResult result;
    const char stops[] = {separator_, '\n', '\0'};
    size_t begin = 0;
    int64_t line = 0;  // at `at`
    bool quoted = false;
    bool field_start = true;
    for (size_t at = 0; at <= text.size();) {
      if (at == text.size()) {
        if (is_end) {
          add_record(result, text, begin, at);
          result.used_bytes = text.size();
          result.used_lines = line;
        }
        break;
      }
      if (quoted) {
        size_t quote = std::min(text.find('"', at), text.size());
        line += std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                           text.begin() + static_cast<std::ptrdiff_t>(quote), '\n');
        at = quote;
        if (at == text.size()) {
          continue;
        }
        bool doubled = at + 1 < text.size() && text[at + 1] == '"';
        quoted = doubled;
        at += doubled ? 2 : 1;
        field_start = false;
        continue;
      }
      if (field_start && text[at] == '"') {
        quoted = true;
        ++at;
        continue;
      }
      size_t stop = std::min(text.find_first_of(stops, at, 2), text.size());
      field_start = stop < text.size();
      at = stop + (stop < text.size() ? 1 : 0);
      if (stop < text.size() && text[stop] == '\n') {
        add_record(result, text, begin, stop);
        begin = at;
        ++line;
        result.used_bytes = at;
        result.used_lines = line;
      }
    }
    return result;
  }

 private:
  static void add_record(ScanResult& result, std::string_view text, size_t begin, size_t end) {
    end -= end > begin && text[end - 1] == '\r' ? 1 : 0;
    if (!is_blank_record(text.substr(begin, end - begin))) {
      result.rows.push_back({begin, end - begin, result.used_lines});
    }
  }
  static bool is_blank_record(std::string_view record) {
    return record.find_first_not_of(" \r") == std::string_view::npos;
  }

  char separator_;
};

// The elements of one JSON list, from its '[' to its ']'. Only brackets and quotes are looked at: whether an
// element is valid is for the parser to say.
class ElementScanner : public RowScanner {
 public:
  ScanResult scan(std::string_view text, bool is_end) override {
    ScanResult result;
    size_t begin = 0;     // of the element that is being read
    bool inside = false;  // an element has begun
    int64_t element_line = 0;
    int64_t line = 0;
    int depth = 0;
    size_t at = 0;
    auto finish = [&](size_t end) {
      if (inside) {
        result.rows.push_back({begin, end - begin, element_line});
      }
      inside = false;
    };
    auto done = [&](size_t end) {
      result.used_bytes = end;
      result.used_lines = line;
    };
    while (at < text.size()) {
      char character = text[at];
      if (character == '\n' || character == ' ' || character == '\t' || character == '\r') {
        line += character == '\n' ? 1 : 0;
        ++at;
        if (!inside) {
          done(at);
        }
        continue;
      }
      if (ended_) {
        garbage_ = true;
        done(text.size());
        return result;
      }
      if (!opened_) {  // whoever chose this kind saw the '['
        opened_ = true;
        done(++at);
        continue;
      }
      if (depth == 0 && (character == ',' || character == ']')) {
        finish(at);
        ended_ = character == ']';
        done(++at);
        continue;
      }
      if (!inside) {
        inside = true;
        begin = at;
        element_line = line;
      }
      if (character == '"') {
        size_t close = string_end(text, at + 1);
        if (close == std::string_view::npos) {
          at = text.size();
          break;
        }
        at = close + 1;
        continue;
      }
      depth += character == '{' || character == '[' ? 1 : character == '}' || character == ']' ? -1 : 0;
      ++at;
    }
    if (is_end) {
      finish(text.size());
      done(text.size());
    }
    return result;
  }

  std::string problem_at_end() const override {
    if (garbage_) {
      return "there is more text after the end of the JSON list";
    }
    return ended_ ? "" : "the JSON list has no end: ']' is missing";
  }

 private:
  // The closing quote of a string that begins at `at`.
  static size_t string_end(std::string_view text, size_t at) {
    while (true) {
      at = text.find('"', at);
      if (at == std::string_view::npos) {
        return at;
      }
      size_t backslashes = 0;
      while (text[at - 1 - backslashes] == '\\') {
        ++backslashes;
      }
      if (backslashes % 2 == 0) {
        return at;
      }
      ++at;
    }
  }

  bool opened_ = false;
  bool ended_ = false;
  bool garbage_ = false;
};

}  // namespace

std::unique_ptr<RowScanner> make_row_scanner(FileKind kind) {
  switch (kind) {
    case FileKind::json_array:
      return std::make_unique<ElementScanner>();
    case FileKind::csv:
      return std::make_unique<RecordScanner>(',');
    case FileKind::tsv:
      return std::make_unique<RecordScanner>('\t');
    case FileKind::paragraphs:
      return std::make_unique<ParagraphScanner>();
    default:
      return std::make_unique<LineScanner>();
  }
}

}  // namespace snug
