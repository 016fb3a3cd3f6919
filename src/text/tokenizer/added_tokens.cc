// Tokens that are found in the text itself, before anything else looks at it: "<|im_start|>" and its like.
#include "text/tokenizer/added_tokens.h"
#include "text/unicode/character_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/tokenizer/file.h"

namespace snug {

namespace {

// The character that ends at the end of `text`; invalid bytes count as no character.
Utf8Unit last_unit(std::string_view text) {
  size_t start = text.size();
  for (int back = 0; back < 4 && start > 0; ++back) {
    --start;
    Utf8Unit unit = first_utf8_unit(text.substr(start));
    if (unit.status == Utf8Status::valid) {
      return start + unit.length_bytes == text.size() ? unit : Utf8Unit{};
    }
  }
  return {};
}

bool touches_word(std::string_view before, std::string_view after) {
  Utf8Unit left = last_unit(before);
  Utf8Unit right = first_utf8_unit(after);
  return (left.length_bytes > 0 && is_word_character(left.codepoint)) ||
         (right.length_bytes > 0 && right.status == Utf8Status::valid && is_word_character(right.codepoint));
}

size_t white_space_before(std::string_view text) {
  size_t end = text.size();
  while (true) {
    Utf8Unit unit = last_unit(text.substr(0, end));
    if (unit.length_bytes == 0 || !is_white_space(unit.codepoint)) {
      return text.size() - end;
    }
    end -= unit.length_bytes;
  }
}

size_t white_space_after(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    Utf8Unit unit = first_utf8_unit(text.substr(position));
    if (unit.status != Utf8Status::valid || !is_white_space(unit.codepoint)) {
      break;
    }
    position += unit.length_bytes;
  }
  return position;
}

}  // namespace

std::vector<AddedToken> added_tokens_from_json(const Json& description, const std::string& path) {
  std::vector<AddedToken> tokens;
  if (description.is_null()) {
    return tokens;
  }
  if (!description.is_array()) {
    throw bad_input(fmt::format("{}: \"added_tokens\" must be a list.", path));
  }
  for (const Json& entry : description) {
    AddedToken token;
    token.content = json_string(entry, "content", "", path);
    int64_t id = json_integer(entry, "id", path);
    if (id < 0 || id >= kMaxTokenId) {
      throw bad_input(fmt::format("{}: the added token '{}' has the id {}; ids are 0 to {}.", path,
                                  token.content, id, kMaxTokenId - 1));
    }
    token.id = static_cast<int32_t>(id);
    token.special = json_bool(entry, "special", false, path);
    token.normalized = json_bool(entry, "normalized", !token.special, path);
    token.single_word = json_bool(entry, "single_word", false, path);
    token.strip_left = json_bool(entry, "lstrip", false, path);
    token.strip_right = json_bool(entry, "rstrip", false, path);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.content.size() > b.content.size();
  });
  for (size_t i = 0; i < tokens_.size(); ++i) {
    by_first_byte_[static_cast<uint8_t>(tokens_[i].content[0])].push_back(static_cast<uint32_t>(i));
  }
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t position) const {
  for (uint32_t index : by_first_byte_[static_cast<uint8_t>(text[position])]) {
    const AddedToken& token = tokens_[index];
    if (text.substr(position).starts_with(token.content)) {
      return &token;
    }
  }
  return nullptr;
}

void AddedTokenMatcher::split(std::string_view text, const Visitor& visit) const {
  size_t done = 0;
  size_t position = 0;
  while (!tokens_.empty() && position < text.size()) {
    const AddedToken* token = longest_at(text, position);
    if (token == nullptr) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = position + token->content.size();
    position = end;
    if (token->single_word && touches_word(text.substr(0, begin), text.substr(end))) {
      continue;
    }
    if (token->strip_left) {
      begin -= white_space_before(text.substr(done, begin - done));
    }
    if (token->strip_right) {
      end += white_space_after(text.substr(end));
    }
    if (begin > done) {
      visit(text.substr(done, begin - done), nullptr);
    }
    visit(text.substr(begin, end - begin), token);
    done = end;
    position = end;
  }
  if (done < text.size()) {
    visit(text.substr(done), nullptr);
  }
}

}  // namespace snug
