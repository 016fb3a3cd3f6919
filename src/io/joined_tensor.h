// A matrix whose codes, scales and maps are tensors of their own in a file.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "io/tensor_source.h"

namespace snug {

class JoinedTensor : public SourceTensor {
 public:
  // What CodedTensor points to. Sizes and dtypes fit each other.
  struct Pieces {
    Format format;
    float offset = 0;
    std::unique_ptr<SourceTensor> codes;
    std::unique_ptr<SourceTensor> scales;
    std::unique_ptr<SourceTensor> nested_scales = nullptr;
    std::unique_ptr<SourceTensor> map = nullptr;
    std::unique_ptr<SourceTensor> nested_map = nullptr;
  };

  JoinedTensor(const std::string& name, std::vector<int64_t> shape, Pieces pieces);

  const CodedTensor* coded() const override { return &coded_; }
  void read(int64_t first, int64_t count, DType to, void* target) const override;
  void release() const override;

 private:
  void dequantise_four_bits(int64_t first, std::span<float> values) const;
  void dequantise_rows(int64_t first, std::span<float> values) const;
  float scale(int64_t index) const;

  Pieces pieces_;
  CodedTensor coded_;
  std::vector<float> map_;
  std::vector<float> nested_map_;
};

}  // namespace snug
