// Reading logs: words and sizes around the phrases that are known.
#include "explain/log.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/bytes.h"
#include "explain/symptoms.h"
#include "model/catalogue.h"

namespace snug {
namespace {

// A message may be broken into lines anywhere; no form of it is longer than this.
constexpr size_t kLongestMessage = 1000;
// One fact of a kind is enough to explain, and some logs repeat theirs thousands of times.
constexpr size_t kMostOfAKind = 16;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool in_number(char c) {
  return is_digit(c) || c == '.' || c == ',';
}

// The text, all in small letters, with one blank wherever there is any white space.
struct Flat {
  std::string text;
  std::vector<size_t> line_ends;  // where in it lines of the log end

  int64_t line_of(size_t at) const {
    return std::upper_bound(line_ends.begin(), line_ends.end(), at) - line_ends.begin() + 1;
  }
};

Flat flatten(std::string_view text) {
  Flat flat;
  for (char c : text) {
    bool blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!blank || (!flat.text.empty() && flat.text.back() != ' ')) {
      flat.text += blank ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    if (c == '\n') {
      flat.line_ends.push_back(flat.text.size());
    }
  }
  return flat;
}

// "22.30 gib" or "172mib" at the beginning.
std::optional<int64_t> size_at(std::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && in_number(text[digits])) {
    ++digits;
  }
  size_t unit = digits;
  if (unit < text.size() && text[unit] == ' ') {
    ++unit;
  }
  size_t end = unit;
  while (end < text.size() && text[end] >= 'a' && text[end] <= 'z') {
    ++end;
  }
  if (digits == 0 || end == unit) {
    return std::nullopt;
  }
  return parse_bytes(text.substr(0, end));
}

std::optional<int64_t> size_after(std::string_view text, std::string_view phrase) {
  size_t at = text.find(phrase);
  return at == std::string_view::npos ? std::nullopt : size_at(text.substr(at + phrase.size()));
}

// The last size before the phrase, which follows at once.
std::optional<int64_t> size_before(std::string_view text, std::string_view phrase) {
  size_t end = text.find(phrase);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  size_t begin = end;
  for (int word = 0; word < 2 && begin > 0; ++word) {  // the unit, then the number
    begin -= begin > 0 && text[begin - 1] == ' ' ? 1 : 0;
    while (begin > 0 && text[begin - 1] != ' ' && text[begin - 1] != '(' && text[begin - 1] != ';') {
      --begin;
    }
    if (begin < end && is_digit(text[begin])) {
      break;
    }
  }
  return size_at(text.substr(begin, end - begin));
}

std::optional<int64_t> first_of(std::initializer_list<std::optional<int64_t>> sizes) {
  for (const auto& size : sizes) {
    if (size) {
      return size;
    }
  }
  return std::nullopt;
}

void read_failures(const Flat& flat, LogFacts& facts) {
  constexpr std::string_view kTorch = "tried to allocate ";
  std::string_view text = flat.text;
  for (size_t at = text.find(kTorch); at != std::string_view::npos; at = text.find(kTorch, at + 1)) {
    size_t next = std::min(text.find(kTorch, at + 1), at + kLongestMessage);
    std::string_view message = text.substr(at, next - at);
    FailedAllocation failure;
    failure.line = flat.line_of(at);
    failure.wanted_bytes = size_after(message, kTorch);
    // "capacty" is how PyTorch 2.1 and 2.2 spelt it.
    failure.total_bytes =
        first_of({size_before(message, " total capacity"), size_after(message, "total capacity of "),
                  size_after(message, "total capacty of ")});
    failure.free_bytes = first_of({size_before(message, " free;"), size_before(message, " is free")});
    failure.in_use_bytes = size_after(message, "this process has ");
    failure.allocated_bytes = first_of(
        {size_before(message, " already allocated"), size_before(message, " is allocated by pytorch")});
    failure.unused_bytes = size_before(message, " is reserved by pytorch but unallocated");
    auto reserved = first_of({size_before(message, " reserved in total"), size_before(message, " cached")});
    if (reserved && failure.allocated_bytes) {
      failure.unused_bytes = std::max<int64_t>(*reserved - *failure.allocated_bytes, 0);
    }
    if (failure.wanted_bytes && facts.failures.size() < kMostOfAKind) {
      facts.failures.push_back(failure);
    }
  }
  constexpr std::string_view kLlamaCpp = ": cudamalloc failed: out of memory";
  for (size_t at = text.find(kLlamaCpp); at != std::string_view::npos; at = text.find(kLlamaCpp, at + 1)) {
    size_t begin = at > 120 ? at - 120 : 0;
    std::string_view before = text.substr(begin, at - begin);
    size_t allocating = before.rfind("allocating ");
    if (allocating != std::string_view::npos && facts.failures.size() < kMostOfAKind) {
      FailedAllocation failure;
      failure.line = flat.line_of(at);
      failure.wanted_bytes = size_after(before.substr(allocating), "allocating ");
      facts.failures.push_back(failure);
    }
  }
}

std::optional<int64_t> count_at(std::string_view text) {
  std::string digits;
  for (char c : text) {
    if (is_digit(c)) {
      digits += c;
    } else if (c != ',' && c != '_') {
      break;
    }
  }
  int64_t count = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return digits.empty() || error != std::errc() ? std::nullopt : std::optional(count);
}

// The first number before a "%", or after "trainable%: ".
void read_percent(std::string_view message, TrainableCount& count) {
  constexpr std::string_view kPeft = "trainable%: ";
  size_t begin = message.find(kPeft);
  if (begin != std::string_view::npos) {
    begin += kPeft.size();
  } else {
    size_t sign = message.find('%');
    if (sign == std::string_view::npos) {
      return;
    }
    begin = sign;
    while (begin > 0 && (is_digit(message[begin - 1]) || message[begin - 1] == '.')) {
      --begin;
    }
  }
  size_t end = begin;
  while (end < message.size() && (is_digit(message[end]) || message[end] == '.')) {
    ++end;
  }
  std::string_view number = message.substr(begin, end - begin);
  double percent = 0;
  auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), percent);
  if (error != std::errc() || percent <= 0) {
    return;
  }
  count.percent = percent;
  size_t point = number.find('.');
  count.percent_error = 0.5;
  for (size_t i = point == std::string_view::npos ? number.size() : point + 1; i < number.size(); ++i) {
    count.percent_error /= 10;
  }
}

void read_counts(const Flat& flat, LogFacts& facts) {
  constexpr std::array<std::string_view, 2> kPhrases = {"trainable params: ", "trainable parameters: "};
  std::string_view text = flat.text;
  for (std::string_view phrase : kPhrases) {
    for (size_t at = text.find(phrase); at != std::string_view::npos; at = text.find(phrase, at + 1)) {
      std::string_view message = text.substr(at + phrase.size(), 160);
      message = message.substr(0, message.find(phrase));
      TrainableCount count;
      count.line = flat.line_of(at);
      count.trainable = count_at(message).value_or(0);
      for (std::string_view all : {"all params: ", "all parameters: ", "total params: "}) {
        if (size_t found = message.find(all); found != std::string_view::npos) {
          count.all = count_at(message.substr(found + all.size()));
        }
      }
      read_percent(message, count);
      if (count.trainable > 0 && facts.counts.size() < kMostOfAKind) {
        facts.counts.push_back(count);
      }
    }
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while (at < line.size()) {
    size_t begin = line.find_first_not_of(" \t|", at);
    if (begin == std::string_view::npos) {
      break;
    }
    size_t end = std::min(line.find_first_of(" \t|", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

// "9876MiB"
std::optional<int64_t> mebibytes(std::string_view word) {
  return word.size() > 3 && word.ends_with("MiB") && is_digit(word[0]) ? parse_bytes(word) : std::nullopt;
}

// | 30%   45C    P2   100W / 260W |  22100MiB / 24220MiB |     99%      Default |
// |    0   N/A  N/A      4321      C   python                          14212MiB |
void read_smi_line(std::string_view line, int64_t number, LogFacts& facts) {
  std::vector<std::string_view> words = words_of(line);
  for (size_t i = 0; i < words.size(); ++i) {
    auto size = mebibytes(words[i]);
    if (!size) {
      continue;
    }
    if (i + 2 < words.size() && words[i + 1] == "/") {
      if (auto total = mebibytes(words[i + 2]); total && facts.cards.size() < kMostOfAKind) {
        facts.cards.push_back({number, *size, *total});
      }
      return;
    }
    auto kind = std::find_if(words.begin(), words.end(), [](std::string_view word) {
      return word == "C" || word == "G" || word == "C+G";
    });
    if (kind == words.begin() || kind == words.end() || kind + 1 == words.end()) {
      return;
    }
    if (auto pid = count_at(*(kind - 1)); pid && facts.processes.size() < kMostOfAKind) {
      facts.processes.push_back({number, *pid, std::string(*(kind + 1)), *size});
    }
    return;
  }
}

bool is_word_end(std::string_view text, size_t at) {
  return at >= text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0;
}

// A name counts with or without its owner, but not as the beginning of a longer one: of Qwen2.5-7B and
// Qwen2.5-7B-Instruct the log names one.
void read_models(const Flat& flat, LogFacts& facts) {
  struct Mention {
    size_t begin = 0;
    size_t end = 0;
    std::string id;
  };
  std::vector<Mention> mentions;
  for (const std::string& id : catalogue_ids()) {
    std::string name = lower(id.substr(id.find('/') + 1));
    for (size_t at = flat.text.find(name); at != std::string::npos; at = flat.text.find(name, at + 1)) {
      if (is_word_end(flat.text, at + name.size())) {
        mentions.push_back({at, at + name.size(), id});
      }
    }
  }
  std::sort(mentions.begin(), mentions.end(), [](const Mention& a, const Mention& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  size_t covered = 0;
  for (const Mention& mention : mentions) {
    bool known = std::find(facts.models.begin(), facts.models.end(), mention.id) != facts.models.end();
    if (mention.begin >= covered && !known) {
      facts.models.push_back(mention.id);
    }
    covered = std::max(covered, mention.end);
  }
}

// "7B" as a word, or at the end of one: "MTUP-7B".
void read_sizes(std::string_view text, LogFacts& facts) {
  for (size_t at = text.find('b'); at != std::string_view::npos; at = text.find('b', at + 1)) {
    size_t begin = at;
    while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.')) {
      --begin;
    }
    bool starts = begin == 0 || std::isalnum(static_cast<unsigned char>(text[begin - 1])) == 0;
    if (begin == at || !starts || !is_digit(text[begin]) || !is_word_end(text, at + 1)) {
      continue;
    }
    std::string size = std::string(text.substr(begin, at - begin)) + "B";
    if (std::find(facts.sizes.begin(), facts.sizes.end(), size) == facts.sizes.end()) {
      facts.sizes.push_back(size);
    }
  }
}

}  // namespace

std::optional<int64_t> FailedAllocation::taken_bytes() const {
  if (in_use_bytes) {
    return in_use_bytes;
  }
  return total_bytes && free_bytes ? std::optional(*total_bytes - *free_bytes) : std::nullopt;
}

LogFacts read_log(std::string_view text) {
  LogFacts facts;
  Flat flat = flatten(text);
  read_failures(flat, facts);
  read_counts(flat, facts);
  read_models(flat, facts);
  read_sizes(flat.text, facts);
  for (const KnownSentence& sentence : known_sentences()) {
    if (size_t at = flat.text.find(lower(sentence.text)); at != std::string::npos) {
      facts.symptoms.push_back({flat.line_of(at), sentence.text, sentence.means, sentence.remedy});
    }
  }
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    size_t end = std::min(text.find('\n', begin), text.size());
    read_smi_line(text.substr(begin, end - begin), number, facts);
    begin = end + 1;
  }
  size_t loading = flat.text.rfind("from_pretrained") + 1;  // in a traceback
  facts.trained =
      std::max(flat.text.rfind("trainer.train") + 1, flat.text.rfind("trainable params") + 1) > loading;
  return facts;
}

std::vector<std::string_view> known_log_texts() {
  return {"PyTorch's \"CUDA out of memory. Tried to allocate ...\", of every version",
          "PEFT's \"trainable params: ... || all params: ...\"", "the tables of nvidia-smi",
          "llama.cpp's \"cudaMalloc failed: out of memory\"",
          "known sentences of accelerate, bitsandbytes, DeepSpeed, transformers and the kernel"};
}

}  // namespace snug
