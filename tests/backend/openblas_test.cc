// The matrix library takes the kernels it is told to take: tools/test_cores.sh runs the tests with those of
// other processors, and OpenBLAS ignores a name that it does not know.
#include <cblas.h>
#include <gtest/gtest.h>
#include <strings.h>

#include <cstdlib>

namespace snug {
namespace {

TEST(OpenBlas, RunsTheKernelsThatWereAskedFor) {
  const char* asked = std::getenv("OPENBLAS_CORETYPE");
  if (asked == nullptr) {
    GTEST_SKIP() << "OPENBLAS_CORETYPE is not set; the kernels are those of " << openblas_get_corename();
  }
  EXPECT_EQ(strcasecmp(openblas_get_corename(), asked), 0)
      << "asked for " << asked << ", got " << openblas_get_corename();
}

}  // namespace
}  // namespace snug
