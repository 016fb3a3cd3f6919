// Recipes from arbitrary bytes: parsing ends in a Recipe or in an Error, and what it gives is written and
// read back as the same text. Bytes after the first NUL, which no recipe may hold, are an argument of --set.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "recipe/parse.h"
#include "recipe/write.h"

namespace {

void parse_and_write(std::string_view text, const std::vector<std::string>& overrides) {
  std::vector<snug::Recipe> recipes;
  try {
    recipes = snug::parse_recipes(text, "fuzz.yml", overrides);
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
    return;
  }
  std::string written = snug::recipes_to_yaml(recipes);
  std::string again = snug::recipes_to_yaml(snug::parse_recipes(written, "fuzz.yml"));
  SNUG_CHECK(again == written, "a written recipe reads as another one:\n" + written + "\n---\n" + again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  size_t end = bytes.find('\0');
  std::vector<std::string> overrides;
  if (end != std::string_view::npos) {
    overrides.emplace_back(bytes.substr(end + 1));
  }
  parse_and_write(bytes.substr(0, end), overrides);
  return 0;
}
