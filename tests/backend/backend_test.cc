// What the backends promise about memory: arenas, what was written, limits; and the null backend's record.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/machine_memory.h"
#include "backend/null/null_backend.h"
#include "base/bytes.h"
#include "base/error.h"
#include "program/builder.h"

namespace snug {
namespace {

Program fill_program(DType dtype) {
  Builder builder("fill");
  BufferId y = builder.temporary("y", dtype, {fixed(64)});
  builder.append(OpKind::fill, "fill y", {}, {y}, FillAttributes{0});
  return builder.finish();
}

void run_fill(Backend& backend, std::byte* address) {
  Program program = fill_program(DType::f32);
  Tensor y{.data = address, .dtype = DType::f32, .rank = 1, .dims = {64}};
  backend.run({.op = program.ops[0], .inputs = {}, .outputs = {&y, 1}, .workspace = {}});
}

TEST(CpuBackend, HasAKernelForEveryKind) {
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    EXPECT_NE(cpu::kernel_of(static_cast<OpKind>(kind)).run, nullptr) << "kind " << kind;
  }
}

TEST(CpuBackend, CountsWhatItTakesAndWhatIsWritten) {
  CpuBackend backend;
  EXPECT_EQ(backend.allocated_bytes(Home::device), 0);
  EXPECT_EQ(backend.announced_bytes(Home::device), 0);
  std::byte* arena = backend.allocate_arena(Home::device, 10 * kAlignment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena) % kAlignment, 0U);
  EXPECT_EQ(backend.allocated_bytes(Home::device), 10 * kAlignment);
  EXPECT_EQ(backend.allocated_bytes(Home::host), 0);
  EXPECT_EQ(backend.announced_bytes(Home::device), 0);
  int32_t word = 7;
  backend.upload(arena + kAlignment, &word, sizeof word);
  EXPECT_EQ(backend.announced_bytes(Home::device), 2 * kAlignment);
  run_fill(backend, arena + 4 * kAlignment);  // 64 zeros
  EXPECT_EQ(backend.announced_bytes(Home::device), 5 * kAlignment);
  int32_t back = 0;
  backend.download(&back, arena + kAlignment, sizeof back);
  EXPECT_EQ(back, 7);
  EXPECT_EQ(backend.announced_bytes(Home::host), 0);
  run_fill(backend, arena + 9 * kAlignment);
  EXPECT_EQ(backend.announced_bytes(Home::device), 10 * kAlignment);
}

TEST(CpuBackend, WorkspaceCountsAsWritten) {
  CpuBackend backend;
  std::byte* arena = backend.allocate_arena(Home::device, 4 * kAlignment);
  Builder builder("norm");
  BufferId gradient = builder.input("gradient", DType::f32, {fixed(4)});
  BufferId norm = builder.temporary("norm", DType::f32, {fixed(1)});
  builder.append(OpKind::gradient_norm, "norm", {gradient}, {norm});
  Program program = builder.finish();
  int64_t workspace = backend.workspace_bytes(program, program.ops[0]);
  ASSERT_EQ(workspace, 8);
  std::memset(arena, 0, 4 * kAlignment);
  Tensor in{.data = arena, .dtype = DType::f32, .rank = 1, .dims = {4}};
  Tensor out{.data = arena + kAlignment, .dtype = DType::f32, .rank = 1, .dims = {1}};
  backend.run({.op = program.ops[0],
               .inputs = {&in, 1},
               .outputs = {&out, 1},
               .workspace = {arena + 2 * kAlignment, static_cast<size_t>(workspace)}});
  EXPECT_EQ(backend.announced_bytes(Home::device), 3 * kAlignment);
}

TEST(CpuBackend, AnEmptyArenaHasNoAddress) {
  CpuBackend backend;
  EXPECT_EQ(backend.allocate_arena(Home::pinned, 0), nullptr);
  EXPECT_EQ(backend.allocated_bytes(Home::pinned), 0);
  EXPECT_EQ(backend.announced_bytes(Home::pinned), 0);
}

TEST(CpuBackendDeathTest, TakesEachArenaOnce) {
  CpuBackend backend;
  backend.allocate_arena(Home::device, 4096);
  EXPECT_DEATH(backend.allocate_arena(Home::device, 4096), "taken twice");
}

TEST(CpuBackend, RefusesMoreThanTheMachineHas) {
  CpuBackend backend;
  int64_t total = backend.device_total_bytes().value();
  try {
    backend.allocate_arena(Home::device, total + 1);
    FAIL() << "the arena was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(std::string(error.what()).find("device arena needs"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(format_bytes(total)), std::string::npos) << error.what();
  }
  EXPECT_EQ(backend.allocated_bytes(Home::device), 0);
  EXPECT_NE(backend.allocate_arena(Home::device, 4096), nullptr);  // a refusal takes nothing
}

TEST(CpuBackend, SaysWhatItCannotDo) {
  CpuBackend backend;
  Builder builder("half");
  BufferId x = builder.input("x", DType::f16, {fixed(2), fixed(3)});
  BufferId y = builder.temporary("y", DType::f16, {fixed(2), fixed(3)});
  BufferId z = builder.temporary("z", DType::f32, {fixed(2), fixed(3)});
  builder.append(OpKind::add, "sum", {x, x}, {y});
  builder.append(OpKind::copy, "copy", {x}, {z});
  Program program = builder.finish();
  EXPECT_EQ(backend.find_unsupported(program, program.ops[0]),
            "the cpu backend has no fp16 kernel for op add (buffer \"x\"): use fp32 or bf16, or a card "
            "(--device cuda)");
  EXPECT_EQ(backend.find_unsupported(program, program.ops[1]), "");
  Program wide = fill_program(DType::f32);
  EXPECT_EQ(backend.find_unsupported(wide, wide.ops[0]), "");
}

class MachineMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "machine_memory";
    std::filesystem::remove_all(root_);
    write("/proc/meminfo", "MemTotal:       16384 kB\nMemFree:        1 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  int64_t bytes() const { return machine_memory_bytes(root_); }

  std::string root_;
};

TEST_F(MachineMemoryTest, IsTheMachinesWithoutGroups) {
  EXPECT_EQ(bytes(), 16 << 20);
}

TEST_F(MachineMemoryTest, WhatIsAvailableIsKnownWhereTheSystemTells) {
  EXPECT_EQ(available_memory_bytes(root_), std::nullopt);
  write("/proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:   8192 kB\n");
  EXPECT_EQ(available_memory_bytes(root_), 8 << 20);
  write("/proc/self/cgroup", "0::/\n");
  write("/sys/fs/cgroup/memory.max", "4000000\n");
  EXPECT_EQ(available_memory_bytes(root_), 4000000);
}

TEST_F(MachineMemoryTest, IsTheSmallestLimitUpTheTree) {
  write("/proc/self/cgroup", "0::/user/job\n");
  write("/sys/fs/cgroup/user/job/memory.max", "max\n");
  EXPECT_EQ(bytes(), 16 << 20);
  write("/sys/fs/cgroup/user/memory.max", "5000000\n");
  EXPECT_EQ(bytes(), 5000000);
  write("/sys/fs/cgroup/memory.max", "4000000\n");
  EXPECT_EQ(bytes(), 4000000);
}

TEST_F(MachineMemoryTest, KnowsGroupsOfVersionOne) {
  write("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:hugetlb,memory:/b\n");
  write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(bytes(), 16 << 20);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
  EXPECT_EQ(bytes(), 3000000);
}

TEST_F(MachineMemoryTest, SaysWhenItCannotTell) {
  write("/proc/meminfo", "nothing\n");
  EXPECT_THROW(bytes(), Error);
}

TEST(NullBackend, RecordsCalls) {
  NullBackend backend(123456);
  EXPECT_EQ(backend.device_total_bytes(), 123456);
  std::byte* arena = backend.allocate_arena(Home::device, 1000);
  EXPECT_EQ(backend.allocated_bytes(Home::device), 1000);
  EXPECT_EQ(std::to_integer<int>(arena[999]), 0);
  run_fill(backend, arena + kAlignment);
  ASSERT_EQ(backend.calls().size(), 1U);
  EXPECT_EQ(backend.calls()[0].name, "fill y");
  EXPECT_EQ(backend.calls()[0].kind, OpKind::fill);
  ASSERT_EQ(backend.calls()[0].outputs.size(), 1U);
  EXPECT_EQ(backend.calls()[0].outputs[0].data, arena + kAlignment);
  EXPECT_EQ(backend.announced_bytes(Home::device), 2 * kAlignment);
  int word = 5;
  int back = 0;
  backend.upload(arena + 900, &word, sizeof word);
  backend.download(&back, arena + 900, sizeof back);
  EXPECT_EQ(back, 5);
  EXPECT_EQ(backend.announced_bytes(Home::device), 1000);
}

}  // namespace
}  // namespace snug
