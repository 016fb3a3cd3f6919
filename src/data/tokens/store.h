// The tokens of data files: made once, kept in a cache beside the data, and found again by what they were
// made from: the files' content, the tokenizer, the template, and what the recipe says about rows.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/tokens/table.h"
#include "data/tokens/tokenize_files.h"
#include "text/tokenizer/tokenizer.h"

namespace snug {

class TokenStore {
 public:
  // `cache_folder` may be empty: the tokens are then kept beside the data, or in the user's own cache if
  // nothing can be written there.
  TokenStore(TokenizeOptions options, std::filesystem::path cache_folder, DataObserver observer);
  ~TokenStore();
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  // The tokens of the files that a name or pattern stands for. A second run that needs them too waits until
  // they are made. Throws bad_input for files or rows that cannot be used.
  std::shared_ptr<const TokenTable> get(const std::string& pattern);

  const Tokenizer& tokenizer();  // loaded when it is first needed

 private:
  using Files = std::vector<std::filesystem::path>;

  std::string key_of(const Files& files, const std::vector<std::string>& contents) const;
  std::vector<std::string> fingerprints(const Files& files, const std::filesystem::path& folder);
  std::shared_ptr<const TokenTable> open(const std::filesystem::path& path) const;
  // Of the template that tokens were made by under that name: caches outlive the folders that it was in.
  std::string template_name(const std::string& kept) const;

  TokenizeOptions options_;
  std::filesystem::path cache_folder_;
  DataObserver observer_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace snug
