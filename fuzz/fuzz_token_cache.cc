// Token caches from arbitrary bytes: opening one gives nothing, or a table whose every row can be read. The
// first byte chooses whether the bytes are the file, or its parts under a header that fits them: hashes would
// else keep the fuzzer from ever reaching what is behind them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "data/tokens/cache.h"
#include "io/fingerprint.h"
#include "memory_file.h"

namespace {

void append_number(std::string& bytes, uint64_t number) {
  std::array<char, 8> raw{};
  std::memcpy(raw.data(), &number, raw.size());
  bytes.append(raw.data(), raw.size());
}

// A whole file: the first two bytes say how many words and entries there are, the rest are they and the
// facts.
std::string sealed(std::string_view parts) {
  if (parts.size() < 2) {
    return "";
  }
  size_t words = static_cast<uint8_t>(parts[0]);
  size_t entries = static_cast<uint8_t>(parts[1]);
  std::string_view rest = parts.substr(2);
  auto take = [&](size_t count) {
    std::string taken(rest.substr(0, count));
    rest.remove_prefix(taken.size());
    taken.resize(count, '\0');
    return taken;
  };
  std::string body = take(words * sizeof(snug::TokenWord));
  std::string index = take(entries * sizeof(snug::RowEntry));
  std::string_view facts = rest;
  snug::Fingerprint hash;
  hash.add_bytes(index);
  hash.add_bytes(facts);
  std::string header = "snugtok2";
  append_number(header, words);
  append_number(header, entries);
  append_number(header, facts.size());
  append_number(header, snug::hash_bytes(hash.hex()));
  append_number(header, snug::hash_bytes(header));
  return header + body + index + std::string(facts);
}

void read_all(const snug::TokenTable& table) {
  int64_t words = 0;
  for (int64_t row = 0; row < table.rows(); ++row) {
    for (snug::TokenWord word : table.source(row)) {
      words += word.id() >= 0 ? 1 : 0;
    }
    for (snug::TokenWord word : table.tokens(row)) {
      words += word.id() >= 0 ? 1 : 0;
    }
  }
  SNUG_CHECK(words == table.words(), "the rows are all of the words");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  MemoryFile file(data[0] % 2 == 0 ? std::string(rest) : sealed(rest));
  if (std::optional<snug::TokenTable> table = snug::open_token_cache(file.path())) {
    read_all(*table);
  }
  return 0;
}
