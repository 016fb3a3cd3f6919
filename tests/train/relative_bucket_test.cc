// Buckets of relative positions against Hugging Face's, at every distance up to 300.
#include "backend/relative_bucket.h"

#include <gtest/gtest.h>

#include "io/json.h"
#include "test_paths.h"

namespace snug {
namespace {

TEST(RelativeBucket, IsHuggingFacesAtEveryDistance) {
  Json reference =
      read_json(std::filesystem::path(SNUG_SOURCE_DIR) / "tests/goldens/references/t5_buckets.json");
  auto first = reference["first_distance"].get<int64_t>();
  ASSERT_EQ(reference["cases"].size(), 6U);
  for (const Json& row : reference["cases"]) {
    RelativeBuckets buckets{row["buckets"].get<int64_t>(), row["max_distance"].get<int64_t>(),
                            row["bidirectional"].get<bool>()};
    auto wanted = row["of_distances"].get<std::vector<int64_t>>();
    for (size_t i = 0; i < wanted.size(); ++i) {
      int64_t distance = first + static_cast<int64_t>(i);
      EXPECT_EQ(relative_bucket(buckets, distance), wanted[i])
          << buckets.count << " buckets up to " << buckets.max_distance << ", distance " << distance;
    }
  }
}

}  // namespace
}  // namespace snug
