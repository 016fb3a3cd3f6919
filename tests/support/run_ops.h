// Runs the ops of a small program on the CPU backend, each buffer in its own guarded memory. For tests of
// kernels and of gradients: write a program, set its buffers, run it, read what came out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/bytes.h"
#include "base/check.h"
#include "program/builder.h"

namespace snug {

// Memory with guard bytes before and after it. It starts as bytes of 0xff (NaN in every floating format, -1
// in the integers), so that reading what nothing wrote shows.
class GuardedMemory {
 public:
  explicit GuardedMemory(int64_t bytes) : bytes_(bytes) {
    auto total = static_cast<size_t>(align_up(bytes) + 2 * kAlignment);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, total)));
    SNUG_CHECK(memory_ != nullptr, "out of memory in a test");
    std::memset(memory_.get(), kGuard, total);
    clear();
  }

  std::byte* data() const { return memory_.get() + kAlignment; }
  void clear() { std::memset(data(), 0xff, static_cast<size_t>(bytes_)); }

  bool guards_hold() const {
    auto is_guard = [](std::byte value) { return value == static_cast<std::byte>(kGuard); };
    return std::all_of(memory_.get(), data(), is_guard) &&
           std::all_of(data() + bytes_, data() + align_up(bytes_) + kAlignment, is_guard);
  }

 private:
  static constexpr int kGuard = 0xa5;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  int64_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

class OpRunner {
 public:
  explicit OpRunner(Program program) : program_(std::move(program)), extents_(planned_extents(program_)) {
    for (const Buffer& buffer : program_.buffers) {
      memory_.emplace_back(buffer.max_bytes());
    }
  }

  const Program& program() const { return program_; }

  // Writes the first values of a buffer, in the buffer's dtype; the rest keeps what it holds.
  void set(const std::string& name, const std::vector<float>& values) {
    const Buffer& buffer = writable(name, values.size());
    if (values.empty()) {
      return;
    }
    convert(DType::f32, values.data(), buffer.dtype(), memory_of(name), static_cast<int64_t>(values.size()));
  }
  void set_ints(const std::string& name, const std::vector<int64_t>& values) {
    const Buffer& buffer = writable(name, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (buffer.dtype() == DType::i32) {
        reinterpret_cast<int32_t*>(memory_of(name))[i] = static_cast<int32_t>(values[i]);
      } else {
        SNUG_CHECK(buffer.dtype() == DType::i64, name + " holds no integers");
        reinterpret_cast<int64_t*>(memory_of(name))[i] = values[i];
      }
    }
  }

  void set_bytes(const std::string& name, std::span<const std::byte> bytes) {
    SNUG_CHECK(std::ssize(bytes) == program_.buffer(id_of(name)).max_bytes(), "another size than " + name);
    std::copy(bytes.begin(), bytes.end(), memory_of(name));
  }

  std::vector<std::byte> bytes(const std::string& name) const {
    const std::byte* data = memory_of(name);
    return {data, data + program_.buffer(id_of(name)).max_bytes()};
  }

  void set_double(const std::string& name, double value) { set_doubles(name, {value}); }
  void set_doubles(const std::string& name, const std::vector<double>& values) {
    std::memcpy(memory_of(name), values.data(), values.size() * sizeof(double));
  }
  double get_double(const std::string& name) const {
    double value = 0;
    std::memcpy(&value, memory_of(name), sizeof value);
    return value;
  }

  // The elements of a buffer at the sizes of the last run (before the first run: all).
  std::vector<float> get(const std::string& name) const {
    const Buffer& buffer = program_.buffer(id_of(name));
    std::vector<float> values(static_cast<size_t>(tensor(id_of(name)).elements()));
    convert(buffer.dtype(), memory_of(name), DType::f32, values.data(), static_cast<int64_t>(values.size()));
    return values;
  }
  std::vector<int64_t> get_ints(const std::string& name) const {
    const Buffer& buffer = program_.buffer(id_of(name));
    std::vector<int64_t> values(static_cast<size_t>(tensor(id_of(name)).elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = buffer.dtype() == DType::i32 ? reinterpret_cast<const int32_t*>(memory_of(name))[i]
                                               : reinterpret_cast<const int64_t*>(memory_of(name))[i];
    }
    return values;
  }

  void run() { run(planned_extents(program_)); }
  void run(const Extents& extents) {
    extents_ = extents;
    for (const Op& op : program_.ops) {
      run_op(op);
    }
  }

 private:
  BufferId id_of(const std::string& name) const {
    BufferId id = program_.find(name);
    SNUG_CHECK(id != kNoBuffer, "no buffer is named " + name);
    return id;
  }
  std::byte* memory_of(const std::string& name) const {
    return memory_[static_cast<size_t>(id_of(name))].data();
  }
  const Buffer& writable(const std::string& name, size_t count) const {
    const Buffer& buffer = program_.buffer(id_of(name));
    SNUG_CHECK(static_cast<int64_t>(count) <= buffer.max_elements(), "too many values for " + name);
    return buffer;
  }

  Tensor tensor(BufferId id) const {
    if (id == kNoBuffer) {
      return {};
    }
    return tensor_of(program_.buffer(id), memory_[static_cast<size_t>(id)].data(), extents_);
  }

  void run_op(const Op& op) {
    std::string problem = backend_->find_unsupported(program_, op);
    ASSERT_EQ(problem, "") << op.name;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    for (BufferId id : op.inputs) {
      inputs.push_back(tensor(id));
    }
    for (BufferId id : op.outputs) {
      outputs.push_back(tensor(id));
    }
    int64_t workspace_bytes = backend_->workspace_bytes(program_, op);
    GuardedMemory workspace(workspace_bytes);
    backend_->run({.op = op,
                   .inputs = inputs,
                   .outputs = outputs,
                   .workspace = {workspace.data(), static_cast<size_t>(workspace_bytes)}});
    EXPECT_TRUE(workspace.guards_hold()) << op.name << " wrote beside its workspace";
    for (size_t id = 0; id < memory_.size(); ++id) {
      EXPECT_TRUE(memory_[id].guards_hold()) << op.name << " wrote beside " << program_.buffers[id].name;
    }
  }

  Program program_;
  std::vector<GuardedMemory> memory_;
  Extents extents_;
  std::unique_ptr<CpuBackend> backend_ = std::make_unique<CpuBackend>();
};

}  // namespace snug
