// The CPU backend under watch. Every op runs twice, each time with other garbage in all memory that it did
// not say it needs: whatever a result then owes to the garbage differs, and whatever is written beside the
// operands shows. So an op reads no more than its effects say, writes all that they say and nothing else. And
// what was really written is known byte by byte, which is held against the plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/effects.h"
#include "support/noisy_backend.h"

namespace snug {

class WatchedBackend : public NoisyBackend {
 public:
  std::byte* allocate_arena(Home home, int64_t bytes) override {
    if (home == Home::host) {  // no kernel works there
      return NoisyBackend::allocate_arena(home, bytes);
    }
    SNUG_CHECK(arena_ == nullptr, "device and pinned are one arena here");
    arena_ = NoisyBackend::allocate_arena(home, bytes);
    bytes_ = bytes;
    touched_.assign(static_cast<size_t>(bytes), 0);
    return arena_;
  }

  void upload(void* device, const void* host, int64_t bytes) override {
    CpuBackend::upload(device, host, bytes);
    mark_written({offset_of(device), bytes});
  }

  void quantise(const CodePiece& piece) override {
    CpuBackend::quantise(piece);
    mark_written({offset_of(piece.codes), piece.code_bytes()});
    mark_written({offset_of(piece.scales), piece.units() * size_of(DType::f32)});
  }

  void run(const KernelCall& call) override {
    std::vector<Range> needed;
    std::vector<Range> changed;
    sort_operands(call, needed, changed);
    std::vector<Range> writable = changed;
    if (!call.workspace.empty()) {
      writable.push_back({offset_of(call.workspace.data()), static_cast<int64_t>(call.workspace.size())});
    }
    const std::vector<std::byte> before(arena_, arena_ + bytes_);
    std::vector<std::byte> results[2];
    for (int round = 0; round < 2; ++round) {
      std::vector<std::byte> start(static_cast<size_t>(bytes_), round == 0 ? kNaN : kSmall);
      copy(needed, before, start);
      std::memcpy(arena_, start.data(), start.size());
      run_kernel(call);
      for (Range range : writable) {
        mark_differences(start, range);
        std::memcpy(start.data() + range.begin, arena_ + range.begin, static_cast<size_t>(range.bytes));
      }
      if (std::memcmp(arena_, start.data(), start.size()) != 0) {
        auto first = std::mismatch(start.begin(), start.end(), arena_).first - start.begin();
        report(call, "changes a byte that is not its own, at " + std::to_string(first));
      }
      results[round] = std::move(start);
    }
    std::vector<std::byte> after = before;
    copy(changed, results[0], after);
    std::vector<std::byte> other = before;
    copy(changed, results[1], other);
    if (std::memcmp(after.data(), other.data(), after.size()) != 0) {
      report(call, "leaves bytes of an output unwritten, or reads what it does not say it needs");
    }
    std::memcpy(arena_, after.data(), after.size());
  }

  // What the watch objected to, one line each.
  const std::vector<std::string>& problems() const { return problems_; }

  // A mark for each byte that kernels and host have written. The host fills staging without telling anyone:
  // there the noise is gone.
  std::vector<bool> written() const {
    std::vector<bool> marks(touched_.size());
    for (int64_t i = 0; i < bytes_; ++i) {
      marks[static_cast<size_t>(i)] = touched_[static_cast<size_t>(i)] != 0 || arena_[i] != noise(i);
    }
    return marks;
  }

 protected:
  // Tests of the watch put a misbehaving kernel here.
  virtual void run_kernel(const KernelCall& call) { CpuBackend::run(call); }

 private:
  static constexpr std::byte kNaN{0xff};
  static constexpr std::byte kSmall{0x3c};  // about 0.01 in all floating formats

  struct Range {
    int64_t begin = 0;
    int64_t bytes = 0;
  };

  int64_t offset_of(const void* address) const { return static_cast<const std::byte*>(address) - arena_; }

  void sort_operands(const KernelCall& call, std::vector<Range>& needed, std::vector<Range>& changed) const {
    auto add = [&](const Tensor& tensor, Effect effect) {
      if (tensor.data == nullptr) {
        return;
      }
      Range range{offset_of(tensor.data), tensor.bytes()};
      if (needs_content(effect)) {
        needed.push_back(range);
      }
      if (changes(effect)) {
        changed.push_back(range);
      }
    };
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      add(call.inputs[i], effect_on_input(call.op, i));
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      add(call.outputs[i], effect_on_output(call.op, i));
    }
  }

  static void copy(const std::vector<Range>& ranges, const std::vector<std::byte>& from,
                   std::vector<std::byte>& to) {
    for (Range range : ranges) {
      std::memcpy(to.data() + range.begin, from.data() + range.begin, static_cast<size_t>(range.bytes));
    }
  }

  void mark_written(Range range) { std::fill_n(touched_.begin() + range.begin, range.bytes, char{1}); }
  // A written byte may be what the garbage was, but not what both rounds' garbage was. Tests are compiled
  // without optimisation, hence the plain pointers.
  void mark_differences(const std::vector<std::byte>& start, Range range) {
    const std::byte* was = start.data() + range.begin;
    const std::byte* is = arena_ + range.begin;
    char* touched = touched_.data() + range.begin;
    for (int64_t i = 0; i < range.bytes; ++i) {
      touched[i] = static_cast<char>(touched[i] | static_cast<char>(was[i] != is[i]));
    }
  }

  void report(const KernelCall& call, const std::string& what) {
    problems_.push_back("op \"" + call.op.name + "\" " + what);
  }

  std::byte* arena_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<char> touched_;
  std::vector<std::string> problems_;
};

}  // namespace snug
