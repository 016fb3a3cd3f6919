// Edit distance by dynamic programming over two rows, and what counts as near.
#include "base/names.h"

#include <algorithm>
#include <numeric>

namespace snug {
namespace {

std::vector<std::string_view> words_of(std::string_view name) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  while (begin <= name.size()) {
    size_t end = std::min(name.find('_', begin), name.size());
    words.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// A third of a word may be misspelt; more makes it another word: "max" for "min", "dora" for "rslora".
bool is_misspelling(std::string_view a, std::string_view b) {
  size_t longer = std::max(a.size(), b.size());
  return edit_distance(a, b) <= static_cast<int>(std::max<size_t>(longer / 3, 1));
}

// Whether `name` is `candidate` with one word left out.
bool lacks_one_word(const std::vector<std::string_view>& name,
                    const std::vector<std::string_view>& candidate) {
  if (name.size() < 2 || name.size() + 1 != candidate.size()) {
    return false;
  }
  auto [here, there] = std::mismatch(name.begin(), name.end(), candidate.begin());
  return std::equal(here, name.end(), there + 1);
}

// Names of several words are near where each word is: `save_steps` is no misspelling of `max_steps`.
bool is_near(std::string_view name, std::string_view candidate) {
  std::vector<std::string_view> words = words_of(name);
  std::vector<std::string_view> candidate_words = words_of(candidate);
  if (words.size() == candidate_words.size()) {
    return std::equal(words.begin(), words.end(), candidate_words.begin(), is_misspelling);
  }
  return edit_distance(name, candidate) == 1 || lacks_one_word(words, candidate_words);
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before_last(b.size() + 1);
  std::vector<int> last(b.size() + 1);
  std::vector<int> row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j] + (a[i] == b[j] ? 0 : 1), row[j] + 1, last[j + 1] + 1});
      bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) {
        row[j + 1] = std::min(row[j + 1], before_last[j - 1] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last.back();
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    int distance = edit_distance(name, candidate);
    if (is_near(name, candidate) && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace snug
