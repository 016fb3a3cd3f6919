// What goes wrong on a card: each is an error that names cause and remedy.
#include "backend/cuda/check.h"
#include "cuda/on_both.h"

namespace snug {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    return error.what();
  }
  return "";
}

// Needs no card: what the runtime reports becomes a cause and a remedy.
TEST(CudaFaults, EveryErrorNamesItsRemedy) {
  struct Case {
    cudaError_t status;
    const char* remedy;
  };
  for (const Case& one :
       {Case{cudaErrorInsufficientDriver, "driver 580 or newer"},
        Case{cudaErrorSystemDriverMismatch, "driver 580 or newer"},
        Case{cudaErrorUnsupportedPtxVersion, "driver 580 or newer"},
        Case{cudaErrorNoDevice, "CUDA_VISIBLE_DEVICES"},
        Case{cudaErrorNoKernelImageForDevice, "SNUG_CUDA_ARCHITECTURES"},
        Case{cudaErrorMemoryAllocation, "other processes may have taken it"},
        Case{cudaErrorDevicesUnavailable, "exclusive use"}, Case{cudaErrorECCUncorrectable, "another card"},
        Case{cudaErrorIllegalAddress, "files written so far are whole"},
        Case{cudaErrorLaunchFailure, "files written so far are whole"},
        Case{cudaErrorUnknown, "files written so far are whole"}}) {
    std::string message = message_of([&] { cuda::check(one.status, "trying"); });
    EXPECT_NE(message.find("while trying"), std::string::npos) << message;
    EXPECT_NE(message.find(one.remedy), std::string::npos) << message;
    EXPECT_NE(message.find(cudaGetErrorName(one.status)), std::string::npos) << message;
  }
}

TEST(CudaFaults, AWrongDriverIsNamed) {
  EXPECT_NE(cuda::driver_problem(0, 13000).find("no NVIDIA driver"), std::string::npos);
  std::string old = cuda::driver_problem(12040, 13010);
  EXPECT_NE(old.find("knows CUDA 12.4"), std::string::npos) << old;
  EXPECT_NE(old.find("needs CUDA 13.1"), std::string::npos) << old;
}

TEST(CudaFaults, AnArenaThatDoesNotFitSaysHowMuchIsFree) {
  SKIP_WITHOUT_CARD();
  CudaBackend backend;
  std::string message = message_of([&] { backend.allocate_arena(Home::device, int64_t{1} << 45); });
  EXPECT_NE(message.find("35184372088832 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("are free"), std::string::npos) << message;
  EXPECT_NE(message.find("--memory"), std::string::npos) << message;
  // The card is still usable.
  std::byte* arena = backend.allocate_arena(Home::device, 256);
  const std::array<int32_t, 2> values = {3, 4};
  std::array<int32_t, 2> back{};
  backend.upload(arena, values.data(), sizeof values);
  backend.download(back.data(), arena, sizeof back);
  EXPECT_EQ(back, values);
  EXPECT_EQ(backend.allocated_bytes(Home::device), 256);
}

TEST(CudaFaults, TheContextIsMeasured) {
  SKIP_WITHOUT_CARD();
  EXPECT_GT(shared_card()->context_bytes(), int64_t{100} << 20);
  EXPECT_LT(shared_card()->context_bytes(), int64_t{2} << 30);
  EXPECT_NE(shared_card()->description(), "");
}

// A fault in a kernel ends every use of the card by this process, so it happens in one of its own.
TEST(CudaFaultsDeathTest, AFaultInAKernelIsReported) {
  SKIP_WITHOUT_CARD();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto look_up_what_is_not_there = [] {
    std::string message = message_of([] {
      Builder builder("embedding");
      BufferId table = builder.weight("table", DType::f32, {fixed(4), fixed(8)}, {});
      BufferId ids = builder.input("ids", DType::i32, {tokens(2)});
      BufferId y = builder.temporary("y", DType::f32, {tokens(2), fixed(8)});
      builder.append(OpKind::embedding, "embedding", {table, ids}, {y});
      CardRunner runner(builder.finish());
      const std::array<int32_t, 2> bad = {0, 1000};
      runner.set_bytes("ids", bad.data(), sizeof bad);
      runner.run(at_tokens(2));
    });
    std::fprintf(stderr, "%s\n", message.c_str());
    std::exit(7);
  };
  EXPECT_EXIT(look_up_what_is_not_there(), testing::ExitedWithCode(7),
              "CUDA error while .*files written so far");
}

}  // namespace
}  // namespace snug
