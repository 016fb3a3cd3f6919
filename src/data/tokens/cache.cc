// The cache file: header, words, entries, facts as JSON.
#include "data/tokens/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <unordered_set>

#include "base/bytes.h"
#include "base/error.h"
#include "io/fingerprint.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// The number at its end goes up with every change of the layout.
constexpr std::array<char, 8> kMagic = {'s', 'n', 'u', 'g', 't', 'o', 'k', '2'};

struct Header {
  std::array<char, 8> magic = kMagic;
  int64_t words = 0;
  int64_t entries = 0;  // rows + 1
  int64_t facts_bytes = 0;
  uint64_t index_hash = 0;   // of entries and facts
  uint64_t header_hash = 0;  // of all before
};
static_assert(sizeof(Header) == 48);

constexpr size_t kPendingWords = size_t{1} << 20;
constexpr uint64_t kSkipped = 0;  // in the place of a row's hash

template <typename Value>
std::string_view raw(const Value* values, size_t count) {
  return {reinterpret_cast<const char*>(values), count * sizeof(Value)};
}

uint64_t hash_of(const Header& header) {
  return hash_bytes(raw(&header, 1).substr(0, offsetof(Header, header_hash)));
}

int64_t entries_begin(const Header& header) {
  return static_cast<int64_t>(sizeof(Header)) + header.words * static_cast<int64_t>(sizeof(TokenWord));
}

int64_t facts_begin(const Header& header) {
  return entries_begin(header) + header.entries * static_cast<int64_t>(sizeof(RowEntry));
}

// Numbers of a file are not to be believed: products of them must not overflow.
bool is_plausible(const Header& header, int64_t file_bytes) {
  return header.magic == kMagic && header.header_hash == hash_of(header) && header.words >= 0 &&
         header.words < file_bytes && header.entries > 0 && header.entries < file_bytes &&
         header.facts_bytes >= 0 && header.facts_bytes < file_bytes &&
         facts_begin(header) + header.facts_bytes == file_bytes;
}

bool is_in_order(const std::vector<RowEntry>& entries, int64_t words) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    const RowEntry& entry = entries[i];
    if (entry.begin != end || entry.source_tokens < 0 || entry.learned_tokens < 1 ||
        entries[i + 1].begin < entry.begin || entries[i + 1].begin > words ||
        entries[i + 1].begin - entry.begin < entry.source_tokens) {
      return false;
    }
    end = entries[i + 1].begin;
  }
  return entries.back().begin == end && end == words;
}

// What runs that were killed had begun to write. Nobody else writes tokens while the lock is held; other
// files of the folder are written without it.
void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".partial") && name.find(".tokens.") != std::string::npos) {
      fs::remove(entry.path(), ignored);
    }
  }
}

}  // namespace

bool TokenCacheWriter::add(const Example& example) {
  int64_t learned = example.learned_tokens();
  if (learned == 0) {
    skip();
    return false;
  }
  size_t first = pending_.size();
  pending_.insert(pending_.end(), example.source.begin(), example.source.end());
  pending_.insert(pending_.end(), example.tokens.begin(), example.tokens.end());
  uint64_t hash = hash_of_words(pending_.data() + first, pending_.size() - first);
  entries_.push_back({.begin = written_words_ + static_cast<int64_t>(first),
                      .source_tokens = static_cast<int32_t>(example.source.size()),
                      .learned_tokens = static_cast<int32_t>(learned),
                      .hash = hash});
  hashes_.push_back(std::max(hash, kSkipped + 1));
  if (pending_.size() >= kPendingWords) {
    flush();
  }
  return true;
}

void TokenCacheWriter::skip() {
  hashes_.push_back(kSkipped);
}

void TokenCacheWriter::flush() {
  int64_t offset =
      static_cast<int64_t>(sizeof(Header)) + written_words_ * static_cast<int64_t>(sizeof(TokenWord));
  file_.write_at(offset, std::as_bytes(std::span(pending_)));
  written_words_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
}

Finding TokenCacheWriter::find_duplicates() const {
  std::vector<uint64_t> sorted;
  sorted.reserve(hashes_.size());
  for (const std::vector<uint64_t>& block : hashes_.blocks()) {
    sorted.insert(sorted.end(), block.begin(), block.end());
  }
  std::sort(sorted.begin(), sorted.end());
  std::unordered_set<uint64_t> repeated;
  Finding found;
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i] == sorted[i - 1] && sorted[i] != kSkipped) {
      ++found.count;
      repeated.insert(sorted[i]);
    }
  }
  std::unordered_set<uint64_t> seen;
  int64_t row = 0;
  for (const std::vector<uint64_t>& block : hashes_.blocks()) {
    for (uint64_t hash : block) {
      ++row;
      if (found.first.empty() && repeated.contains(hash) && !seen.insert(hash).second) {
        found.first = fmt::format("row {}", format_count(row));
      }
    }
  }
  return found;
}

void TokenCacheWriter::finish(TableFacts facts) {
  flush();
  facts.duplicates = find_duplicates();
  std::string text = facts.to_json().dump(-1, ' ', false, Json::error_handler_t::replace);
  entries_.push_back({.begin = written_words_});
  Header header;
  header.words = written_words_;
  header.entries = static_cast<int64_t>(entries_.size());
  header.facts_bytes = static_cast<int64_t>(text.size());
  Fingerprint index;
  int64_t offset = entries_begin(header);
  for (const std::vector<RowEntry>& block : entries_.blocks()) {
    file_.write_at(offset, std::as_bytes(std::span(block)));
    index.add_bytes(raw(block.data(), block.size()));
    offset += static_cast<int64_t>(block.size() * sizeof(RowEntry));
  }
  file_.write_at(offset, std::as_bytes(std::span(text)));
  index.add_bytes(text);
  header.index_hash = hash_bytes(index.hex());
  header.header_hash = hash_of(header);
  file_.write_at(0, std::as_bytes(std::span(&header, 1)));
  file_.commit();
}

std::optional<TokenTable> open_token_cache(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) {
    return std::nullopt;
  }
  auto file = std::make_shared<const RandomAccessFile>(path);
  Header header;
  if (file->size_bytes() < static_cast<int64_t>(sizeof(Header))) {
    return std::nullopt;
  }
  file->read_at(0, std::as_writable_bytes(std::span(&header, 1)));
  if (!is_plausible(header, file->size_bytes())) {
    return std::nullopt;
  }
  TokenTable::Contents contents{.entries = std::vector<RowEntry>(static_cast<size_t>(header.entries)),
                                .file = file,
                                .words_offset_bytes = sizeof(Header)};
  std::string facts(static_cast<size_t>(header.facts_bytes), '\0');
  file->read_at(entries_begin(header), std::as_writable_bytes(std::span(contents.entries)));
  file->read_at(facts_begin(header), std::as_writable_bytes(std::span(facts)));
  Fingerprint index;
  index.add_bytes(raw(contents.entries.data(), contents.entries.size()));
  index.add_bytes(facts);
  if (header.index_hash != hash_bytes(index.hex()) || !is_in_order(contents.entries, header.words)) {
    return std::nullopt;
  }
  try {
    return TokenTable(std::move(contents),
                      TableFacts::from_json(parse_json(facts, path.string()), path.string()));
  } catch (const Error&) {  // written by a program that knew other facts
    return std::nullopt;
  }
}

BuildLock::BuildLock(const fs::path& folder, const std::function<void()>& on_wait) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);  // who writes the cache says what is wrong
  descriptor_ = ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    return;
  }
  int status = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  if (status != 0 && errno == EWOULDBLOCK) {
    on_wait();
    do {
      status = ::flock(descriptor_, LOCK_EX);
    } while (status != 0 && errno == EINTR);
  }
  if (status == 0) {
    remove_leftovers(folder);
  }
}

BuildLock::~BuildLock() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

}  // namespace snug
