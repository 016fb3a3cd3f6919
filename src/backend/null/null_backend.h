// A backend that computes nothing and writes down what it was asked to do, for tests of what calls backends.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace snug {

struct RecordedCall {
  std::string name;
  OpKind kind = OpKind::copy;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  const std::byte* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

class NullBackend : public Backend {
 public:
  // The memory that the pretended device has.
  explicit NullBackend(int64_t device_total_bytes = int64_t{1} << 30)
      : device_total_bytes_(device_total_bytes) {}

  const std::vector<RecordedCall>& calls() const { return calls_; }
  void clear_calls() { calls_.clear(); }

  std::string_view name() const override { return "null"; }
  std::string find_unsupported(const Program&, const Op&) const override { return ""; }
  int64_t workspace_bytes(const Program&, const Op&) const override { return 0; }

  // Zeroed host memory at a multiple of kAlignment, so that upload and download work.
  std::byte* allocate_arena(Home home, int64_t bytes) override;

  void run(const KernelCall& call) override;
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes) override;
  void synchronize() override {}

  std::optional<int64_t> device_total_bytes() const override { return device_total_bytes_; }
  int64_t context_bytes() const override { return 0; }

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };

  int64_t device_total_bytes_;
  std::array<std::unique_ptr<std::byte, Release>, kHomeCount> memory_;
  std::vector<RecordedCall> calls_;
};

}  // namespace snug
