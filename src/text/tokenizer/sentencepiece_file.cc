// A SentencePiece model as the TokenizerFile that a tokenizer.json with the same content would give.
#include "text/tokenizer/sentencepiece_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "io/printable.h"
#include "text/packed_file.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/protobuf_reader.h"
#include "text/unicode/valid_utf8.h"

namespace snug {

namespace {

constexpr const char* kSpaceSign = "▁";

// Numbers of sentencepiece_model.proto.
enum class PieceType : uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct Piece {
  std::string text;
  double score = 0;
  PieceType type = PieceType::normal;
};

struct Model {
  std::vector<Piece> pieces;
  int64_t model_type = 1;  // 1 Unigram, 2 BPE
  bool byte_fallback = false;
  int64_t bos_id = 1;
  int64_t eos_id = 2;
  bool suffix_spaces = false;
  std::string charsmap;
  bool add_prefix_space = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;
};

Piece read_piece(std::string_view bytes, const std::string& path, size_t index) {
  std::string where = fmt::format("{}: piece {}", path, index);
  ProtobufReader reader(bytes, where);
  Piece piece;
  while (reader.next()) {
    if (reader.field() == 1) {
      piece.text = reader.bytes();
    } else if (reader.field() == 2) {
      piece.score = reader.number();
    } else if (reader.field() == 3) {
      int64_t type = reader.integer();
      if (type < 1 || type > 6) {
        throw bad_input(fmt::format("{}: its type is {}; types are 1 to 6.", where, type));
      }
      piece.type = static_cast<PieceType>(type);
    }
  }
  if (piece.text.empty() || valid_utf8_prefix_bytes(piece.text) != piece.text.size()) {
    throw bad_input(fmt::format("{}: '{}' is empty or not UTF-8. The file is damaged: download it again.",
                                where, printable(piece.text)));
  }
  if (!std::isfinite(piece.score)) {
    throw bad_input(
        fmt::format("{}: its score is not a number. The file is damaged: download it again.", where));
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& path, Model& model) {
  ProtobufReader reader(bytes, path + ": trainer_spec");
  while (reader.next()) {
    switch (reader.field()) {
      case 3:
        model.model_type = reader.integer();
        break;
      case 24:
        model.suffix_spaces = reader.integer() != 0;
        break;
      case 35:
        model.byte_fallback = reader.integer() != 0;
        break;
      case 41:
        model.bos_id = reader.integer();
        break;
      case 42:
        model.eos_id = reader.integer();
        break;
      default:
        break;
    }
  }
}

void read_normalizer(std::string_view bytes, const std::string& path, Model& model) {
  ProtobufReader reader(bytes, path + ": normalizer_spec");
  while (reader.next()) {
    switch (reader.field()) {
      case 2:
        model.charsmap = reader.bytes();
        break;
      case 3:
        model.add_prefix_space = reader.integer() != 0;
        break;
      case 4:
        model.remove_extra_spaces = reader.integer() != 0;
        break;
      case 5:
        model.escape_spaces = reader.integer() != 0;
        break;
      default:
        break;
    }
  }
}

Model read_model(std::string_view bytes, const std::string& path) {
  Model model;
  ProtobufReader reader(bytes, path);
  while (reader.next()) {
    if (reader.field() == 1) {
      model.pieces.push_back(read_piece(reader.bytes(), path, model.pieces.size()));
    } else if (reader.field() == 2) {
      read_trainer(reader.bytes(), path, model);
    } else if (reader.field() == 3) {
      read_normalizer(reader.bytes(), path, model);
    }
  }
  if (model.pieces.empty() || static_cast<int64_t>(model.pieces.size()) > kMaxTokenId) {
    throw bad_input(fmt::format("{}: it holds {} pieces; a SentencePiece model has 1 to {}.", path,
                                model.pieces.size(), kMaxTokenId));
  }
  if (model.model_type != 1 && model.model_type != 2) {
    throw bad_input(
        fmt::format("{}: model_type is {}; snug reads Unigram (1) and BPE (2).", path, model.model_type));
  }
  if (model.suffix_spaces || !model.escape_spaces) {
    throw bad_input(fmt::format(
        "{}: {} is not supported; snug reads models whose words begin with {}.", path,
        model.suffix_spaces ? "treat_whitespace_as_suffix" : "escape_whitespaces = false", kSpaceSign));
  }
  return model;
}

bool is_mergeable(const Piece& piece) {
  return piece.type == PieceType::normal || piece.type == PieceType::user_defined;
}

Json normalizer_of(const Model& model) {
  Json steps = Json::array();
  if (!model.charsmap.empty()) {
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model.charsmap)}});
  }
  if (model.remove_extra_spaces) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", "\\A +| +\\z"}}}, {"content", ""}});
  }
  if (model.add_prefix_space) {
    steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceSign}});
  }
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceSign}});
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

// Words are encoded one by one where no piece reaches over the start of another word.
Json pre_tokenizer_of(const Model& model) {
  bool reaches_over = std::any_of(model.pieces.begin(), model.pieces.end(), [](const Piece& piece) {
    return is_mergeable(piece) && piece.text.find(kSpaceSign, 1) != std::string::npos;
  });
  if (model.model_type != 1 || reaches_over || !model.remove_extra_spaces) {
    return nullptr;
  }
  return {{"type", "Metaspace"}, {"replacement", kSpaceSign}, {"prepend_scheme", "never"}, {"split", true}};
}

Json decoder_of(const Model& model) {
  Json steps = Json::array();
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", kSpaceSign}}}, {"content", " "}});
  steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (model.add_prefix_space) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Json added_tokens_of(const Model& model) {
  Json tokens = Json::array();
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    bool special = piece.type == PieceType::control || piece.type == PieceType::unknown;
    if (special || piece.type == PieceType::user_defined) {
      tokens.push_back({{"id", id}, {"content", piece.text}, {"special", special}, {"normalized", false}});
    }
  }
  return tokens;
}

// SentencePiece joins any two neighbours that are a piece together, the piece with the best score first. As a
// list of merges: all ways to cut each piece in two, in the order in which transformers writes them.
std::vector<std::pair<std::string, std::string>> merges_of(const Model& model, const TokenizerFile& file) {
  std::vector<const Piece*> by_score;
  for (const Piece& piece : model.pieces) {
    if (is_mergeable(piece)) {
      by_score.push_back(&piece);
    }
  }
  std::stable_sort(by_score.begin(), by_score.end(),
                   [](const Piece* a, const Piece* b) { return a->score > b->score; });
  auto known = [&](const std::string& text) {
    auto found = file.vocabulary.find(text);
    return found != file.vocabulary.end() && is_mergeable(model.pieces[static_cast<size_t>(found->second)]);
  };
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Piece* piece : by_score) {
    size_t cut = piece->text.size();
    while (true) {
      cut -= character_before(piece->text, cut).length_bytes;
      if (cut == 0) {
        break;
      }
      std::string left = piece->text.substr(0, cut);
      std::string right = piece->text.substr(cut);
      if (known(left) && known(right)) {
        merges.emplace_back(std::move(left), std::move(right));
      }
    }
  }
  return merges;
}

std::optional<int32_t> control_id(const Model& model, int64_t id) {
  bool exists = id >= 0 && id < static_cast<int64_t>(model.pieces.size()) &&
                model.pieces[static_cast<size_t>(id)].type == PieceType::control;
  return exists ? std::optional<int32_t>(static_cast<int32_t>(id)) : std::nullopt;
}

}  // namespace

TokenizerFile parse_sentencepiece_file(std::string_view bytes, const std::string& path) {
  Model model = read_model(bytes, path);
  TokenizerFile file;
  file.path = path;
  Json unknown_id;
  Json unknown_piece;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const Piece& piece = model.pieces[id];
    if (!file.vocabulary.emplace(piece.text, static_cast<int32_t>(id)).second) {
      throw bad_input(fmt::format("{}: piece {} is '{}', which it holds before. The file is damaged.", path,
                                  id, printable(piece.text)));
    }
    if (piece.type == PieceType::unknown) {
      unknown_id = id;
      unknown_piece = piece.text;
    }
  }
  file.document = {{"added_tokens", added_tokens_of(model)},
                   {"normalizer", normalizer_of(model)},
                   {"pre_tokenizer", pre_tokenizer_of(model)},
                   {"decoder", decoder_of(model)}};
  file.bos_id = control_id(model, model.bos_id);
  file.eos_id = control_id(model, model.eos_id);
  if (model.model_type == 2) {
    file.model_type = "BPE";
    file.merges = merges_of(model, file);
    file.document["model"] = {
        {"unk_token", unknown_piece}, {"fuse_unk", true}, {"byte_fallback", model.byte_fallback}};
  } else {
    file.model_type = "Unigram";
    for (const Piece& piece : model.pieces) {  // the others are never found in text
      file.scored_pieces.emplace_back(is_mergeable(piece) ? piece.text : "",
                                      is_mergeable(piece) ? score_as_in_reference(piece.score) : 0);
    }
    file.document["model"] = {{"unk_id", unknown_id}, {"byte_fallback", model.byte_fallback}};
  }
  return file;
}

TokenizerFile read_sentencepiece_file(const std::filesystem::path& path) {
  return parse_sentencepiece_file(read_packed_file(path), path.string());
}

}  // namespace snug
