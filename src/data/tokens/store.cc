// Finding and making caches.
#include "data/tokens/store.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "data/source/files.h"
#include "data/tokens/cache.h"
#include "data/tokens/cache_folder.h"
#include "data/tokens/encoding_version.h"
#include "data/tokens/file_fingerprint.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"
#include "recipe/choices.h"
#include "text/chat/chat_template.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// What the recipe's chat_template stands for; the model's own is among its files.
std::string template_text(const std::string& chat_template) {
  std::error_code ignored;
  if (std::optional<std::string_view> named = named_chat_template_source(chat_template)) {
    return std::string(*named);
  }
  return fs::is_regular_file(chat_template, ignored) ? read_text_file(chat_template) : chat_template;
}

// The folder tells version control by itself that it is not to be kept.
void make_cache_folder(const fs::path& folder) {
  fs::path mark = folder / ".gitignore";
  std::error_code ignored;
  if (!fs::exists(mark, ignored)) {
    write_file_atomically(mark, "*\n");
  }
}

// Else the tokens of one version of a file would be kept under the name of another.
void check_unchanged(const std::vector<fs::path>& files, const std::vector<std::string>& before,
                     const std::vector<std::string>& now) {
  for (size_t i = 0; i < files.size(); ++i) {
    if (now[i] != before[i]) {
      throw environment_error(
          fmt::format("{}: the file changed while it was read. Wait until it is written, then start again.",
                      files[i].string()));
    }
  }
}

}  // namespace

TokenStore::TokenStore(TokenizeOptions options, fs::path cache_folder, DataObserver observer)
    : options_(std::move(options)), cache_folder_(std::move(cache_folder)), observer_(std::move(observer)) {}

TokenStore::~TokenStore() = default;

const Tokenizer& TokenStore::tokenizer() {
  if (!tokenizer_) {
    tokenizer_ = load_tokenizer(options_.model_folder);
  }
  return *tokenizer_;
}

std::string TokenStore::key_of(const Files& files, const std::vector<std::string>& contents) const {
  Fingerprint key;
  key.add(kEncodingVersion);
  for (size_t i = 0; i < files.size(); ++i) {
    key.add(files[i].filename().string());  // it tells the kind of the file, and reports name it
    key.add(contents[i]);
  }
  for (const std::string& name : text_file_names()) {
    fs::path path = fs::path(options_.model_folder) / name;
    std::error_code ignored;
    bool is_there = fs::is_regular_file(path, ignored);
    key.add(is_there ? read_text_file(path) : "");
  }
  key.add(template_text(options_.chat_template));
  key.add(name_of(options_.format));
  key.add(options_.columns.prompt_template);
  key.add(options_.columns.completion);
  key.add(options_.columns.system);
  key.add(name_of(options_.encoding.train_on));
  key.add(options_.encoding.decoder_start_id.value_or(-1));
  key.add(options_.max_rows);
  return key.hex();
}

std::vector<std::string> TokenStore::fingerprints(const Files& files, const fs::path& folder) {
  DataProgress progress{.stage = "reading " + name_of_files(files), .total_bytes = total_file_bytes(files)};
  std::vector<std::string> contents;
  for (const fs::path& file : files) {
    contents.push_back(file_fingerprint(file, folder, [&](int64_t bytes) {
      progress.done_bytes += bytes;
      observer_(progress);
    }));
  }
  return contents;
}

std::shared_ptr<const TokenTable> TokenStore::open(const fs::path& path) const {
  std::optional<TokenTable> table = open_token_cache(path);
  if (!table) {
    return nullptr;
  }
  mark_used(path);
  if (table->facts().bad_rows > 0 && options_.on_bad_row == OnBadRow::stop) {
    throw bad_row_error(table->facts().bad.front());
  }
  table->set_chat_template_name(template_name(table->facts().chat_template));
  return std::make_shared<const TokenTable>(std::move(*table));
}

std::string TokenStore::template_name(const std::string& kept) const {
  if (kept.empty()) {
    return kept;
  }
  if (!options_.chat_template.empty()) {
    return load_chat_template(options_.chat_template, options_.model_folder).name();
  }
  std::optional<ChatTemplate> own = find_chat_template(options_.model_folder);
  return own ? own->name() : kept;
}

std::shared_ptr<const TokenTable> TokenStore::get(const std::string& pattern) {
  Files files = find_data_files({pattern}, {});
  fs::path folder = cache_folder_.empty() ? cache_folder_of(files.front()) : cache_folder_;
  make_cache_folder(folder);
  std::vector<std::string> contents = fingerprints(files, folder);
  fs::path path = folder / (key_of(files, contents) + ".tokens");
  if (std::shared_ptr<const TokenTable> table = open(path)) {
    return table;
  }
  BuildLock lock(folder, [&] {
    observer_({.stage = fmt::format("waiting for another run that makes tokens in {}", folder.string())});
  });
  if (std::shared_ptr<const TokenTable> table = open(path)) {
    return table;
  }
  TokenCacheWriter writer(path);
  TableFacts facts = tokenize_files(files, tokenizer(), options_, writer, observer_);
  check_unchanged(files, contents, fingerprints(files, folder));
  facts.encoding = kEncodingVersion;
  writer.finish(std::move(facts));
  remove_old_caches(folder, path);
  std::shared_ptr<const TokenTable> table = open(path);
  if (!table) {
    throw environment_error(fmt::format(
        "{}: was written and cannot be read back; is the disk sound? Set data.cache_dir to another folder.",
        path.string()));
  }
  return table;
}

}  // namespace snug
