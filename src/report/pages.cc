// Data into pages.
#include "report/pages.h"

#include "base/check.h"

namespace snug {

std::string page_with(std::string_view page, const Json& data) {
  constexpr std::string_view kPlace = "@DATA@";
  size_t at = page.find(kPlace);
  SNUG_CHECK(at != std::string_view::npos, "a page has a place for its data");
  // Nothing in it may end the element that it stands in.
  std::string text;
  for (char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    text += c == '<' ? "\\u003c" : std::string(1, c);
  }
  return std::string(page.substr(0, at)) + text + std::string(page.substr(at + kPlace.size()));
}

}  // namespace snug
