// The watch over kernels notices each way in which one can break its word, and a plan that nobody fills.
#include <gtest/gtest.h>

#include <functional>

#include "exec/executor.h"
#include "program/builder.h"
#include "support/watched_backend.h"

namespace snug {
namespace {

constexpr int64_t kCount = 100;  // the buffers end within a unit of the arena

// A copy of x to y, by a kernel that may misbehave before or after it has done its work.
class MisbehavingBackend : public WatchedBackend {
 public:
  using Deed = std::function<void(const KernelCall&)>;
  Deed before = [](const KernelCall&) {};
  Deed after = [](const KernelCall&) {};

 protected:
  void run_kernel(const KernelCall& call) override {
    before(call);
    WatchedBackend::run_kernel(call);
    after(call);
  }
};

struct Case {
  explicit Case(int64_t planned = kCount) {
    Builder builder("copying");
    BufferId x = builder.input("x", DType::f32, {Dim{Extent::tokens, planned}});
    BufferId y = builder.temporary("y", DType::f32, {Dim{Extent::tokens, planned}});
    builder.program().buffer(y).lifetime = Lifetime::output;
    builder.append(OpKind::copy, "copy", {x}, {y});
    plan = make_plan({builder.finish()}, backend, std::nullopt);
  }

  void run() {
    Executor executor(plan, backend);
    executor.write_values<float>("copying", "x", std::vector<float>(kCount, 1.5F));
    Extents extents{};
    extents[static_cast<size_t>(Extent::tokens)] = kCount;
    executor.run("copying", extents);
    std::vector<float> y(kCount);
    executor.read("copying", "y", std::as_writable_bytes(std::span(y)));
    results = y;
  }

  MisbehavingBackend backend;
  Plan plan;
  std::vector<float> results;
};

using Problems = std::vector<std::string>;

TEST(Watch, HasNothingAgainstAKernelThatKeepsItsWord) {
  Case copying;
  copying.run();
  EXPECT_EQ(copying.backend.problems(), Problems());
  EXPECT_EQ(differences_from(copying.plan, copying.backend.written()), Problems());
  std::vector<bool> written = copying.backend.written();
  EXPECT_EQ(std::count(written.begin(), written.end(), true), 2 * kCount * 4);
  EXPECT_EQ(copying.results, std::vector<float>(kCount, 1.5F));
}

TEST(Watch, SeesWritesBesideTheOperands) {
  Case copying;
  copying.backend.after = [](const KernelCall& call) { call.outputs[0].as<float>()[kCount] = 0; };
  copying.run();
  ASSERT_FALSE(copying.backend.problems().empty());
  EXPECT_NE(copying.backend.problems()[0].find("changes a byte that is not its own"), std::string::npos);
}

TEST(Watch, SeesChangedInputs) {
  Case copying;
  copying.backend.after = [](const KernelCall& call) { call.inputs[0].as<float>()[7] = 0; };
  copying.run();
  ASSERT_FALSE(copying.backend.problems().empty());
  EXPECT_NE(copying.backend.problems()[0].find("changes a byte that is not its own"), std::string::npos);
}

TEST(Watch, SeesWhatIsLeftUnwritten) {
  Case copying;
  float kept = 0;
  copying.backend.before = [&](const KernelCall& call) { kept = call.outputs[0].as<float>()[kCount - 1]; };
  copying.backend.after = [&](const KernelCall& call) { call.outputs[0].as<float>()[kCount - 1] = kept; };
  copying.run();
  ASSERT_EQ(copying.backend.problems().size(), 1U);
  EXPECT_NE(copying.backend.problems()[0].find("leaves bytes of an output unwritten"), std::string::npos);
}

TEST(Watch, SeesReadsThatAreNotSaid) {
  Case copying;
  float seen = 0;  // a kernel that adds to what it should write
  copying.backend.before = [&](const KernelCall& call) { seen = call.outputs[0].as<float>()[3]; };
  copying.backend.after = [&](const KernelCall& call) { call.outputs[0].as<float>()[3] += seen; };
  copying.run();
  ASSERT_EQ(copying.backend.problems().size(), 1U);
  EXPECT_NE(copying.backend.problems()[0].find("reads what it does not say"), std::string::npos);
}

// More planned than anyone writes: what was counted by the plan's own addresses could not see that.
TEST(Watch, SeesWhatIsPlannedAndNotUsed) {
  Case copying(kCount + 2);
  copying.run();
  EXPECT_EQ(copying.backend.problems(), Problems());
  EXPECT_EQ(differences_from(copying.plan, copying.backend.written()),
            (Problems{"copying: 8 of 408 bytes of \"x\" are planned, but nobody writes them",
                      "copying: 8 of 408 bytes of \"y\" are planned, but nobody writes them"}));
}

}  // namespace
}  // namespace snug
