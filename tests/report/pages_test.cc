// Data within pages.
#include "report/pages.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(Pages, NoDataEndsItsElement) {
  Json data = {{"name", "</script><script>alert(1)</script><!--"}};
  std::string page = page_with("<script>@DATA@</script>", data);
  EXPECT_EQ(page.find("</script>"), page.size() - std::string("</script>").size());
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  std::string inner = page.substr(8, page.size() - 8 - 9);
  EXPECT_EQ(parse_json(inner, "page"), data);
}

TEST(Pages, BytesThatAreNoTextAreReplaced) {
  EXPECT_EQ(page_with("[@DATA@]", {{"name", "a\xff"}}), "[{\"name\":\"a\xef\xbf\xbd\"}]");
}

TEST(Pages, AllHaveAPlaceForTheirData) {
  EXPECT_NE(page_with(kPage_plan, Json::object()).find("{}"), std::string::npos);
}

}  // namespace
}  // namespace snug
