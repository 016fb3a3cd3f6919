// What goes wrong on a card: each is an error that names cause and remedy.
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
