// Runs a small program on the card in its own dtypes and on the CPU in fp32, from the same (rounded) values,
// and compares what came out. Tests skip themselves where there is no card.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "cuda/card.h"
#include "support/run_ops.h"
#include "support/values.h"

namespace snug {

inline std::byte* shared_arena() {
  constexpr int64_t kArenaBytes = int64_t{512} << 20;
  static std::byte* arena = shared_card()->allocate_arena(Home::device, kArenaBytes);
  return arena;
}

// OpRunner's counterpart on the card: buffers lie in the arena with guard bytes between them.
class CardRunner {
 public:
  explicit CardRunner(Program program) : program_(std::move(program)), extents_(planned_extents(program_)) {
    for (const Buffer& buffer : program_.buffers) {
      places_.push_back(place(buffer.max_bytes()));
    }
  }

  void set_bytes(const std::string& name, const void* data, int64_t bytes) {
    card().upload(places_[index_of(name)].data, data, bytes);
  }
  std::vector<std::byte> bytes(const std::string& name) const {
    Tensor source = tensor(program_.find(name));
    std::vector<std::byte> raw(static_cast<size_t>(source.bytes()));
    card().download(raw.data(), source.data, static_cast<int64_t>(raw.size()));
    return raw;
  }
  std::vector<float> get(const std::string& name) const {
    std::vector<std::byte> raw = bytes(name);
    DType dtype = program_.buffer(program_.find(name)).dtype();
    std::vector<float> values(raw.size() / static_cast<size_t>(size_of(dtype)));
    convert(dtype, raw.data(), DType::f32, values.data(), static_cast<int64_t>(values.size()));
    return values;
  }

  // What the card says of the first op that it does not take.
  std::string why_not_on_card() const {
    for (const Op& op : program_.ops) {
      if (std::string reason = card().find_unsupported(program_, op); !reason.empty()) {
        return reason;
      }
    }
    return "";
  }

  void run(const Extents& extents) {
    extents_ = extents;
    ASSERT_EQ(why_not_on_card(), "");
    for (const Op& op : program_.ops) {
      std::vector<Tensor> inputs;
      std::vector<Tensor> outputs;
      for (BufferId id : op.inputs) {
        inputs.push_back(tensor(id));
      }
      for (BufferId id : op.outputs) {
        outputs.push_back(tensor(id));
      }
      Place workspace = place(card().workspace_bytes(program_, op));
      places_.push_back(workspace);
      card().run({.op = op,
                  .inputs = inputs,
                  .outputs = outputs,
                  .workspace = {workspace.data, static_cast<size_t>(workspace.bytes)}});
    }
    card().synchronize();
    for (const Place& checked : places_) {
      expect_guards(checked);
    }
  }

 private:
  static constexpr int64_t kGuardBytes = kAlignment;
  struct Place {
    std::byte* data;
    int64_t bytes;
  };

  static CudaBackend& card() { return *shared_card(); }

  // Contents are 0xff (NaN in every floating format) until something is written.
  Place place(int64_t bytes) {
    std::byte* at = shared_arena() + used_;
    int64_t padded = align_up(bytes) + 2 * kGuardBytes;
    std::vector<std::byte> image(static_cast<size_t>(padded), std::byte{0xa5});
    std::fill_n(image.begin() + kGuardBytes, bytes, std::byte{0xff});
    card().upload(at, image.data(), padded);
    card().synchronize();
    used_ += padded;
    return {at + kGuardBytes, bytes};
  }

  void expect_guards(const Place& checked) const {
    int64_t after = align_up(checked.bytes) - checked.bytes + kGuardBytes;
    std::vector<std::byte> guard(static_cast<size_t>(after + kGuardBytes));
    card().download(guard.data(), checked.data - kGuardBytes, kGuardBytes);
    card().download(guard.data() + kGuardBytes, checked.data + checked.bytes, after);
    EXPECT_TRUE(std::all_of(guard.begin(), guard.end(), [](std::byte b) { return b == std::byte{0xa5}; }))
        << "a kernel wrote beside a buffer of " << checked.bytes << " bytes";
  }

  size_t index_of(const std::string& name) const { return static_cast<size_t>(program_.find(name)); }

  Tensor tensor(BufferId id) const {
    if (id == kNoBuffer) {
      return {};
    }
    return tensor_of(program_.buffer(id), places_[static_cast<size_t>(id)].data, extents_);
  }

  Program program_;
  std::vector<Place> places_;
  Extents extents_;
  int64_t used_ = 0;
};

inline std::vector<float> rounded_to(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> raw(values.size() * static_cast<size_t>(size_of(dtype)));
  std::vector<float> result(values.size());
  auto count = static_cast<int64_t>(values.size());
  convert(DType::f32, values.data(), dtype, raw.data(), count);
  convert(dtype, raw.data(), DType::f32, result.data(), count);
  return result;
}

class OnBoth {
 public:
  explicit OnBoth(const Program& program) : program_(program), cpu_(in_fp32(program)), card_(program) {}

  void set(const std::string& name, const std::vector<float>& values) {
    const Buffer& buffer = program_.buffer(program_.find(name));
    std::vector<float> held = rounded_to(values, buffer.dtype());
    cpu_.set(name, held);
    std::vector<std::byte> raw(values.size() * static_cast<size_t>(size_of(buffer.dtype())));
    convert(DType::f32, held.data(), buffer.dtype(), raw.data(), static_cast<int64_t>(held.size()));
    card_.set_bytes(name, raw.data(), static_cast<int64_t>(raw.size()));
  }
  // Random values for a whole buffer.
  void randomise(const std::string& name, uint64_t seed, float deviation = 1.0F) {
    set(name, random_values(program_.buffer(program_.find(name)).max_elements(), seed, deviation));
  }
  void set_ints(const std::string& name, const std::vector<int64_t>& values) {
    cpu_.set_ints(name, values);
    if (program_.buffer(program_.find(name)).dtype() == DType::i64) {
      card_.set_bytes(name, values.data(), static_cast<int64_t>(values.size() * 8));
    } else {
      std::vector<int32_t> narrow(values.begin(), values.end());
      card_.set_bytes(name, narrow.data(), static_cast<int64_t>(narrow.size() * 4));
    }
  }
  void set_bytes(const std::string& name, const std::vector<std::byte>& bytes) {
    cpu_.set_bytes(name, bytes);
    card_.set_bytes(name, bytes.data(), std::ssize(bytes));
  }
  void set_double(const std::string& name, double value) {
    cpu_.set_double(name, value);
    card_.set_bytes(name, &value, sizeof value);
  }

  std::string why_not_on_card() const { return card_.why_not_on_card(); }
  void run() { run(planned_extents(program_)); }
  void run(const Extents& extents) {
    cpu_.run(extents);
    card_.run(extents);
  }

  // Bit for bit.
  void expect_same_on_card(const std::string& a, const std::string& b) {
    EXPECT_EQ(card_.bytes(a), card_.bytes(b)) << a << " and " << b;
  }

  // Element by element: |difference| <= tolerance * max(|expected|, 1).
  void expect_close_values(const std::string& name, double tolerance) {
    SCOPED_TRACE(name);
    expect_close(card_.get(name), cpu_.get(name), tolerance);
  }
  // Likewise of a sum, a part of which was rounded before it was added: it may be larger than the sum.
  void expect_close_sums(const std::string& name, const std::string& part, double tolerance) {
    SCOPED_TRACE(name);
    std::vector<float> got = card_.get(name);
    std::vector<float> wanted = cpu_.get(name);
    std::vector<float> parts = cpu_.get(part);
    ASSERT_EQ(got.size(), wanted.size());
    ASSERT_EQ(parts.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      double allowed = tolerance * std::max({std::abs(wanted[i]), std::abs(parts[i]), 1.0F});
      ASSERT_NEAR(got[i], wanted[i], allowed) << i;
    }
  }
  // ||difference|| / ||expected||.
  void expect_close_norms(const std::string& name, double tolerance) {
    std::vector<float> got = card_.get(name);
    std::vector<float> wanted = cpu_.get(name);
    ASSERT_EQ(got.size(), wanted.size());
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      double d = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
      difference += d * d;
      norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
    EXPECT_TRUE(std::sqrt(difference) <= tolerance * std::sqrt(norm) && norm > 0)
        << name << ": " << std::sqrt(difference / norm);
  }
  void expect_equal(const std::string& name) { EXPECT_EQ(card_.get(name), cpu_.get(name)) << name; }
  double cpu_double(const std::string& name) const { return cpu_.get_double(name); }
  double card_double(const std::string& name) const {
    double value = 0;
    std::memcpy(&value, card_.bytes(name).data(), sizeof value);
    return value;
  }
  std::vector<std::byte> card_bytes(const std::string& name) const { return card_.bytes(name); }

 private:
  static Program in_fp32(Program program) {
    for (Buffer& buffer : program.buffers) {
      if (buffer.format.is_coded()) {
        continue;  // its values are rounded as on the card
      }
      bool narrow = buffer.dtype() == DType::bf16 || buffer.dtype() == DType::f16;
      buffer.format = narrow ? DType::f32 : buffer.dtype();
    }
    return program;
  }

  Program program_;
  OpRunner cpu_;
  CardRunner card_;
};

// A result that was rounded once (or twice, where a kernel rounds on the way).
inline double card_tolerance(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-7 * 1.1;
    case DType::f16:
      return 0x1p-10 * 1.1;
    default:
      return 2e-5;
  }
}

}  // namespace snug
