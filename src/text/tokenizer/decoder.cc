// Tokens back to text: tokenizer.json's "decoder".
#include "text/tokenizer/decoder.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/regex.h"

namespace snug {

namespace {

// Steps that look at each piece alone; the first one may be treated differently.
class SingleStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    for (size_t i = 0; i < pieces.size(); ++i) {
      apply_one(pieces[i], i == 0);
    }
  }
};

class ByteLevelStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string bytes;
    for (std::string& piece : pieces) {
      apply_one(piece, false);
      bytes += piece;
    }
    pieces = {replace_invalid_utf8(bytes)};
  }
  void apply_one(std::string& piece, bool /*at_start*/) const override {
    if (std::optional<std::string> bytes = bytes_of_piece(piece); bytes) {
      piece = std::move(*bytes);
    }
  }
};

// "<0x0A>" and its like are bytes; a run of them that is not UTF-8 becomes one U+FFFD a byte.
class ByteFallbackStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::vector<std::string> result;
    std::string run;
    auto end_run = [&] {
      if (valid_utf8_prefix_bytes(run) == run.size()) {
        result.push_back(std::move(run));
      } else {
        for (size_t i = 0; i < run.size(); ++i) {
          result.emplace_back("\uFFFD");
        }
      }
      run.clear();
    };
    for (std::string& piece : pieces) {
      if (std::optional<char> byte = byte_of(piece); byte) {
        run += *byte;
        continue;
      }
      if (!run.empty()) {
        end_run();
      }
      result.push_back(std::move(piece));
    }
    if (!run.empty()) {
      end_run();
    }
    pieces = std::move(result);
  }
  void apply_one(std::string& piece, bool /*at_start*/) const override {
    if (std::optional<char> byte = byte_of(piece); byte) {
      piece.assign(1, *byte);
    }
  }

 private:
  static std::optional<char> byte_of(const std::string& piece) {
    auto digit = [](char c) {
      if (c >= '0' && c <= '9') {
        return c - '0';
      }
      if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
      }
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>' || digit(piece[3]) < 0 ||
        digit(piece[4]) < 0) {
      return std::nullopt;
    }
    return static_cast<char>(digit(piece[3]) * 16 + digit(piece[4]));
  }
};

class FuseStep : public DecoderStep {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string all;
    for (const std::string& piece : pieces) {
      all += piece;
    }
    pieces = {std::move(all)};
  }
  void apply_one(std::string& /*piece*/, bool /*at_start*/) const override {}
};

class ReplaceStep : public SingleStep {
 public:
  ReplaceStep(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply_one(std::string& piece, bool /*at_start*/) const override {
    if (valid_utf8_prefix_bytes(piece) != piece.size()) {
      return;  // a lone byte of a character
    }
    std::string result;
    pattern_.split(piece,
                   [&](std::string_view part, bool is_match) { result += is_match ? content_ : part; });
    piece = std::move(result);
  }

 private:
  Regex pattern_;
  std::string content_;
};

// Takes up to so many of a character from the ends.
class StripStep : public DecoderStep {
 public:
  struct Cut {
    std::string content;
    int64_t start = 0;
    int64_t stop = 0;
    bool fused = false;  // there is one piece, the whole text
  };
  explicit StripStep(Cut cut) : cut_(std::move(cut)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) {
      strip(piece, true, true);
    }
  }
  void apply_one(std::string& piece, bool at_start) const override {
    strip(piece, at_start || !cut_.fused, !cut_.fused);
  }

 private:
  void strip(std::string& piece, bool left, bool right) const {
    for (int64_t i = 0; left && i < cut_.start && piece.starts_with(cut_.content); ++i) {
      piece.erase(0, cut_.content.size());
    }
    for (int64_t i = 0; right && i < cut_.stop && piece.ends_with(cut_.content); ++i) {
      piece.erase(piece.size() - cut_.content.size());
    }
  }

  Cut cut_;
};

class MetaspaceDecoderStep : public SingleStep {
 public:
  MetaspaceDecoderStep(std::string sign, bool prepended) : sign_(std::move(sign)), prepended_(prepended) {}
  void apply_one(std::string& piece, bool at_start) const override {
    std::string_view space = at_start && prepended_ ? "" : " ";
    std::string result;
    size_t done = 0;
    for (size_t sign = piece.find(sign_); sign != std::string::npos; sign = piece.find(sign_, done)) {
      result.append(piece, done, sign - done).append(space);
      done = sign + sign_.size();
    }
    result.append(piece, done);
    piece = std::move(result);
  }

 private:
  std::string sign_;
  bool prepended_;
};

std::unique_ptr<DecoderStep> replace_step(const Json& description, const std::string& where) {
  auto pattern = description.find("pattern");
  std::string content = json_string(description, "content", "", where);
  if (pattern != description.end() && pattern->is_object() && pattern->contains("String")) {
    return std::make_unique<ReplaceStep>(Regex::literal(json_string(*pattern, "String", "", where), where),
                                         content);
  }
  if (pattern != description.end() && pattern->is_object() && pattern->contains("Regex")) {
    return std::make_unique<ReplaceStep>(Regex(json_string(*pattern, "Regex", "", where), where), content);
  }
  throw bad_input(fmt::format("{}: Replace has no \"pattern\" with \"String\" or \"Regex\".", where));
}

std::unique_ptr<DecoderStep> metaspace_step(const Json& description, const std::string& where) {
  std::string sign = json_string(description, "replacement", "▁", where);
  bool prepended = json_bool(description, "add_prefix_space", true, where) &&
                   json_string(description, "prepend_scheme", "always", where) != "never";
  if (sign.empty()) {
    throw bad_input(fmt::format("{}: Metaspace has an empty \"replacement\".", where));
  }
  return std::make_unique<MetaspaceDecoderStep>(sign, prepended);
}

}  // namespace

void Decoder::append_step(const std::string& type, const Json& description, const std::string& where) {
  if (type == "ByteLevel") {
    steps_.push_back(std::make_unique<ByteLevelStep>());
    fused_ = true;
  } else if (type == "ByteFallback") {
    steps_.push_back(std::make_unique<ByteFallbackStep>());
  } else if (type == "Fuse") {
    steps_.push_back(std::make_unique<FuseStep>());
    fused_ = true;
  } else if (type == "Replace") {
    steps_.push_back(replace_step(description, where));
  } else if (type == "Metaspace") {
    steps_.push_back(metaspace_step(description, where));
  } else if (type == "Strip") {
    StripStep::Cut cut{.content = json_string(description, "content", " ", where),
                       .start = json_integer(description, "start", 0, where),
                       .stop = json_integer(description, "stop", 0, where),
                       .fused = fused_};
    if (cut.content.empty()) {
      throw bad_input(fmt::format("{}: Strip has an empty \"content\".", where));
    }
    steps_.push_back(std::make_unique<StripStep>(std::move(cut)));
  } else {
    throw bad_input(
        fmt::format("{}: the decoder '{}' is not supported; snug knows ByteLevel, ByteFallback, Fuse, "
                    "Metaspace, Replace, Strip "
                    "and sequences of these.",
                    where, printable(type)));
  }
}

void Decoder::append_steps(const Json& description, const std::string& where) {
  std::string type = json_string(description, "type", "", where);
  if (type != "Sequence") {
    append_step(type, description, where);
    return;
  }
  auto parts = description.find("decoders");
  if (parts == description.end() || !parts->is_array()) {
    throw bad_input(fmt::format("{}: a Sequence has no list \"decoders\".", where));
  }
  for (size_t i = 0; i < parts->size(); ++i) {
    append_steps((*parts)[i], fmt::format("{}.decoders[{}]", where, i));
  }
}

Decoder Decoder::from_json(const Json& description, const std::string& path) {
  Decoder decoder;
  if (!description.is_null()) {
    decoder.given_ = true;
    decoder.append_steps(description, path + ": decoder");
  }
  return decoder;
}

std::string Decoder::decode(std::vector<std::string> pieces) const {
  for (const std::unique_ptr<DecoderStep>& step : steps_) {
    step->apply(pieces);
  }
  std::string text;
  for (size_t i = 0; i < pieces.size(); ++i) {
    text += i > 0 && !given_ ? " " : "";
    text += pieces[i];
  }
  return text;
}

std::string Decoder::decode_one(const std::string& piece, bool at_start) const {
  std::string text = piece;
  for (const std::unique_ptr<DecoderStep>& step : steps_) {
    step->apply_one(text, at_start);
  }
  return given_ || at_start ? text : " " + text;
}

}  // namespace snug
