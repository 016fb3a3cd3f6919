// What logs of other programs say: the forms that PyTorch's message has had, PEFT's counts, nvidia-smi's
// tables.
#include "explain/log.h"

#include <gtest/gtest.h>

#include "base/bytes.h"

namespace snug {
namespace {

FailedAllocation only_failure(std::string_view text) {
  LogFacts facts = read_log(text);
  EXPECT_EQ(facts.failures.size(), 1U);
  return facts.failures.empty() ? FailedAllocation{} : facts.failures.front();
}

TEST(Log, PyTorch1) {
  FailedAllocation found = only_failure(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.71 "
      "GiB already "
      "allocated; 14.81 MiB free; 9.92 GiB reserved in total by PyTorch) If reserved memory is >> allocated");
  EXPECT_EQ(found.wanted_bytes, parse_bytes("20MiB"));
  EXPECT_EQ(found.total_bytes, parse_bytes("10.76GiB"));
  EXPECT_EQ(found.allocated_bytes, parse_bytes("9.71GiB"));
  EXPECT_EQ(found.free_bytes, parse_bytes("14.81MiB"));
  EXPECT_EQ(found.unused_bytes, *parse_bytes("9.92GiB") - *parse_bytes("9.71GiB"));
}

TEST(Log, PyTorch1WithItsCache) {
  FailedAllocation found = only_failure(
      "RuntimeError: CUDA out of memory. Tried to allocate 1.12 GiB (GPU 0; 11.17 GiB total capacity; 8.00 "
      "GiB already "
      "allocated; 556.81 MiB free; 2.60 GiB cached)");
  EXPECT_EQ(found.total_bytes, parse_bytes("11.17GiB"));
  EXPECT_EQ(found.free_bytes, parse_bytes("556.81MiB"));
}

// A forum breaks lines where it likes.
TEST(Log, PyTorch2InBrokenLines) {
  FailedAllocation found = only_failure(
      "first\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to\n allocate 172.00 MiB. GPU 0 has a "
      "total "
      "capacty of\n22.30 GiB of which 122.12 MiB is free. Process 4 has 22.18 GiB memory in use. Of the "
      "allocated memory\n"
      "21.92 GiB is allocated by PyTorch, and 1.02 MiB is\nreserved by PyTorch but unallocated.");
  EXPECT_EQ(found.line, 2);
  EXPECT_EQ(found.wanted_bytes, parse_bytes("172MiB"));
  EXPECT_EQ(found.total_bytes, parse_bytes("22.30GiB"));
  EXPECT_EQ(found.free_bytes, parse_bytes("122.12MiB"));
  EXPECT_EQ(found.allocated_bytes, parse_bytes("21.92GiB"));
  EXPECT_EQ(found.unused_bytes, parse_bytes("1.02MiB"));
  EXPECT_EQ(found.taken_bytes(), *parse_bytes("22.30GiB") - *parse_bytes("122.12MiB"));
}

TEST(Log, LlamaCpp) {
  FailedAllocation found = only_failure(
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4403.49 MiB on device 0: cudaMalloc failed: "
      "out of memory\n"
      "llama_model_load: error loading model: unable to allocate CUDA0 buffer");
  EXPECT_EQ(found.wanted_bytes, parse_bytes("4403.49MiB"));
}

TEST(Log, CountsInPeftsForms) {
  LogFacts facts = read_log(
      "trainable params: 239,468,544 || all params: 3,325,407,232 || trainable%: 7.2012\n"
      "trainable params: 4194304 || all params: 6742609920 || trainable%: 0.06220594176090199\n"
      "trainable params: 239,468,544, trainable 7.20%\n");
  ASSERT_EQ(facts.counts.size(), 3U);
  EXPECT_EQ(facts.counts[0].trainable, 239'468'544);
  EXPECT_EQ(facts.counts[0].all, 3'325'407'232);
  EXPECT_EQ(facts.counts[1].all, 6'742'609'920);
  EXPECT_EQ(facts.counts[2].trainable, 239'468'544);
  EXPECT_FALSE(facts.counts[2].all);
  EXPECT_DOUBLE_EQ(facts.counts[2].percent.value(), 7.20);
  EXPECT_DOUBLE_EQ(facts.counts[2].percent_error, 0.005);
}

TEST(Log, NvidiaSmi) {
  LogFacts facts = read_log(
      "| 33%   41C    P2             57W /  260W |   21634MiB /  24576MiB |      0%      Default |\n"
      "|    0   N/A  N/A           18231      C   python                                14212MiB |\n");
  ASSERT_EQ(facts.cards.size(), 1U);
  EXPECT_EQ(facts.cards[0].used_bytes, parse_bytes("21634MiB"));
  EXPECT_EQ(facts.cards[0].total_bytes, parse_bytes("24576MiB"));
  ASSERT_EQ(facts.processes.size(), 1U);
  EXPECT_EQ(facts.processes[0].pid, 18231);
  EXPECT_EQ(facts.processes[0].name, "python");
  EXPECT_EQ(facts.processes[0].bytes, parse_bytes("14212MiB"));
}

TEST(Log, NamesOfModels) {
  LogFacts facts = read_log("MTUP 7B with qwen2.5-7b-instruct and meta-llama/Llama-3.2-1B; 1.5B, 12bB, B");
  EXPECT_EQ(facts.models, (std::vector<std::string>{"Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.2-1B"}));
  EXPECT_EQ(facts.sizes, (std::vector<std::string>{"7B", "1B", "1.5B"}));
}

TEST(Log, NothingIsNothing) {
  EXPECT_TRUE(read_log("").empty());
  EXPECT_TRUE(read_log("step 1 loss 0.5\nTried to allocate nothing\n trainable params: none %").empty());
}

}  // namespace
}  // namespace snug
