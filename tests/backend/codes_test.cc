// Codes, scales and what they stand for, against what bitsandbytes makes on the CPU
// (tools/make_code_references.py); products with weights of codes against sums in double.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "backend/quantise.h"
#include "backend/scale_mean.h"
#include "io/tensor_source.h"
#include "support/run_ops.h"
#include "support/values.h"
#include "test_paths.h"

namespace snug {
namespace {

const std::vector<std::string> kCases = {"blocks", "odd", "bf16", "fp16", "edges", "many_blocks"};
const std::vector<Format> kFormats = {
    kNf4, kNf4Double, kFp4, Format(Coding::fp4, 64, true), kInt8,
};

class Codes : public testing::Test {
 protected:
  std::vector<float> floats(const std::string& name) const {
    const SourceTensor& tensor = files_.find(name);
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    tensor.read(0, tensor.elements(), DType::f32, values.data());
    return values;
  }
  std::vector<uint8_t> bytes(const std::string& name) const {
    const SourceTensor& tensor = files_.find(name);
    std::vector<uint8_t> raw(static_cast<size_t>(bytes_of(tensor.dtype(), tensor.elements())));
    tensor.read(0, tensor.elements(), tensor.dtype(), raw.data());
    return raw;
  }
  int64_t rows(const std::string& name) const { return files_.find(name).shape()[0]; }
  int64_t columns(const std::string& name) const { return files_.find(name).shape()[1]; }

  // A weight as bitsandbytes made it, in our layout; once for each of `copies` parts.
  std::vector<std::byte> weight(const std::string& name, const Buffer& buffer) const {
    CodeLayout layout = code_layout(buffer);
    std::vector<std::byte> memory(static_cast<size_t>(layout.bytes()), std::byte{0xee});
    std::string prefix = name + "." + name_of(buffer.format);
    auto put_file = [&](int64_t place, const std::string& tensor) {
      std::vector<uint8_t> raw = bytes(tensor);
      std::memcpy(memory.data() + place, raw.data(), raw.size());
    };
    for (int i = 0; i < layout.part_count; ++i) {
      const CodedPart& part = layout.parts[static_cast<size_t>(i)];
      put_file(part.codes, prefix + ".codes");
      put_file(part.scales, prefix + ".scales");
      if (buffer.format.coding != Coding::int8) {
        put_file(part.map, buffer.format.coding == Coding::nf4 ? "nf4_map" : "fp4_map");
      }
      if (buffer.format.nested) {
        put_file(part.nested_scales, prefix + ".nested_scales");
        put_file(part.offset, prefix + ".offset");
        put_file(part.nested_map, "dynamic_map");
      }
    }
    return memory;
  }

  // The case's tensor `copies` times below each other.
  Buffer buffer(const std::string& name, const Format& format, int64_t copies) const {
    Buffer result{.name = "w", .format = format, .dims = {fixed(copies * rows(name)), fixed(columns(name))}};
    for (int64_t i = 0; i < copies; ++i) {
      result.parts.push_back({{std::to_string(i)}, i * rows(name), rows(name)});
    }
    return result;
  }

  TensorSource files_ = open_tensors(SNUG_SOURCE_DIR "/tests/goldens/codes/codes.safetensors");
};

TEST_F(Codes, Maps) {
  auto four = [](Coding coding) {
    std::array<float, 16> map = map_of(levels_of(coding));
    return std::vector<float>(map.begin(), map.end());
  };
  EXPECT_EQ(four(Coding::nf4), floats("nf4_map"));
  EXPECT_EQ(four(Coding::fp4), floats("fp4_map"));
  NestedMap nested = dynamic_map();
  EXPECT_EQ(std::vector<float>(nested.begin(), nested.end()), floats("dynamic_map"));
}

TEST_F(Codes, FourBits) {
  for (const std::string& name : kCases) {
    for (Coding coding : {Coding::nf4, Coding::fp4}) {
      std::string prefix = name + "." + name_of(Format(coding, 64));
      std::vector<float> values = floats(name);
      std::vector<uint8_t> codes((values.size() + 1) / 2);
      std::vector<float> scales((values.size() + 63) / 64);
      quantise_blocks(coding, 64, values, codes.data(), scales.data());
      EXPECT_EQ(codes, bytes(prefix + ".codes")) << prefix;
      EXPECT_EQ(scales, floats(prefix + ".scales")) << prefix;
    }
  }
}

TEST_F(Codes, EightBits) {
  for (const std::string& name : kCases) {
    std::vector<float> values = floats(name);
    std::vector<uint8_t> codes(values.size());
    std::vector<float> scales(static_cast<size_t>(rows(name)));
    quantise_rows(Coding::int8, columns(name), values, codes.data(), scales.data());
    EXPECT_EQ(codes, bytes(name + ".int8.codes")) << name;
    EXPECT_EQ(scales, floats(name + ".int8.scales")) << name;
  }
}

// As weights come from a file: in its dtype, and cut into pieces of whole blocks or rows.
TEST_F(Codes, APieceAtATime) {
  CpuBackend backend;
  for (const std::string& name : kCases) {
    const SourceTensor& tensor = files_.find(name);
    std::vector<uint8_t> values = bytes(name);
    for (Format format : {kNf4, kFp4, kInt8}) {
      format.dtype = tensor.dtype();
      std::string prefix = name + "." + name_of(format);
      std::vector<uint8_t> codes((static_cast<size_t>(tensor.elements() * code_bits(format.coding)) + 7) / 8);
      std::vector<float> scales(static_cast<size_t>(scale_count(format, rows(name), columns(name))));
      CodePiece piece{.format = format, .columns = columns(name)};
      for (int64_t done = 0; done < tensor.elements(); done += piece.count) {
        piece.values = values.data() + bytes_of(format.dtype, done);
        piece.count = std::min(3 * piece.unit(), tensor.elements() - done);
        piece.codes = reinterpret_cast<std::byte*>(codes.data()) + done * code_bits(format.coding) / 8;
        piece.scales = scales.data() + done / piece.unit();
        backend.quantise(piece);
      }
      EXPECT_EQ(codes, bytes(prefix + ".codes")) << prefix;
      EXPECT_EQ(scales, floats(prefix + ".scales")) << prefix;
    }
  }
}

TEST_F(Codes, NestedScales) {
  NestedMap map = dynamic_map();
  for (const std::string& name : kCases) {
    std::string prefix = name + ".nf4_double";
    std::vector<float> scales = floats(name + ".nf4.scales");
    std::vector<uint8_t> codes(scales.size());
    std::vector<float> nested_scales((scales.size() + 255) / 256);
    EXPECT_EQ(nest_scales(map, scales, codes.data(), nested_scales.data()), floats(prefix + ".offset")[0])
        << name;
    EXPECT_EQ(codes, bytes(prefix + ".scales")) << name;
    EXPECT_EQ(nested_scales, floats(prefix + ".nested_scales")) << name;
  }
}

// Lengths at which torch.mean takes another way: no whole vector, no whole row of vectors, and one to four
// levels of its cascade.
TEST_F(Codes, MeansOfScales) {
  std::vector<float> means = floats("means");
  std::vector<uint8_t> raw = bytes("mean_lengths");
  std::vector<int64_t> lengths(raw.size() / sizeof(int64_t));
  std::memcpy(lengths.data(), raw.data(), raw.size());
  ASSERT_EQ(lengths.size(), means.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    // A value that needs no file: fp32 makes it exactly, here as in Python.
    std::vector<float> values(static_cast<size_t>(lengths[i]));
    uint32_t state = 1;
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;
      value = static_cast<float>(state >> 8) * 0x1p-30F;
    }
    EXPECT_EQ(mean_of_scales(values), means[i]) << lengths[i];
  }
}

TEST_F(Codes, DequantisedToTheBit) {
  for (const std::string& name : kCases) {
    for (const Format& format : kFormats) {
      Buffer stacked = buffer(name, format, 2);
      std::vector<std::byte> memory = weight(name, stacked);
      for (DType dtype : {DType::f32, DType::bf16}) {
        std::string reference = name + "." + name_of(format) + (dtype == DType::f32 ? ".fp32" : ".bf16");
        if (!files_.contains(reference)) {
          continue;
        }
        stacked.format.dtype = dtype;
        CodeLayout layout = code_layout(stacked);
        std::vector<float> expected = floats(reference);
        std::vector<float> actual(2 * expected.size());
        for (int64_t row = 0; row < 2 * rows(name); ++row) {
          // In two pieces, so that one begins within a block and within a byte.
          int64_t cut = columns(name) / 3;
          float* values = actual.data() + row * columns(name);
          dequantise(layout, memory.data(), {row, 0, cut}, values);
          dequantise(layout, memory.data(), {row, cut, columns(name) - cut}, values + cut);
        }
        expected.insert(expected.end(), expected.begin(), expected.end());
        EXPECT_EQ(actual, expected) << reference;
      }
    }
  }
}

// y = x W^T and dx = dy W, with W as bitsandbytes dequantises it.
TEST_F(Codes, ProductsWithCodes) {
  for (const std::string name : {"odd", "blocks", "many_blocks"}) {
    for (const Format& format : kFormats) {
      for (int64_t tokens : {1, 3, 70}) {
        SCOPED_TRACE(name + " " + name_of(format));
        Buffer stacked = buffer(name, format, 2);
        int64_t in = columns(name);
        int64_t out = 2 * rows(name);
        Builder builder("products");
        BufferId x = builder.input("x", DType::bf16, {fixed(tokens), fixed(in)});
        BufferId w = builder.weight("w", DType::f32, stacked.dims, stacked.parts);
        builder.program().buffer(w).format = format;
        builder.program().buffer(w).format.dtype = DType::bf16;
        BufferId y = builder.temporary("y", DType::f32, {fixed(tokens), fixed(out)});
        builder.program().buffer(y).format = DType::bf16;
        BufferId dx = builder.temporary("dx", DType::bf16, {fixed(tokens), fixed(in)});
        builder.append(OpKind::linear, "forward", {x, w}, {y}, LinearAttributes{});
        builder.append(OpKind::linear_backward_input, "backward", {y, w}, {dx}, LinearAttributes{});
        OpRunner runner(builder.finish());
        std::vector<float> inputs = rounded(random_values(tokens * in, 5), DType::bf16);
        runner.set("x", inputs);
        std::vector<std::byte> memory = weight(name, stacked);
        runner.set_bytes("w", memory);
        runner.run();
        std::vector<float> dense = floats(name + "." + name_of(format) + ".bf16");
        dense.insert(dense.end(), dense.begin(), dense.end());
        std::vector<float> forward = runner.get("y");
        std::vector<float> backward = runner.get("dx");
        auto at = [](int64_t row, int64_t width, int64_t column) {
          return static_cast<size_t>(row * width + column);
        };
        // bf16 rounds the result once; fp32 sums are far finer.
        auto expect_near = [](float actual, double expected, double magnitude) {
          EXPECT_NEAR(static_cast<double>(actual), expected,
                      std::abs(expected) * 0x1p-8 + magnitude * 0x1p-20);
        };
        for (int64_t t = 0; t < tokens; ++t) {
          for (int64_t j = 0; j < out; ++j) {
            double sum = 0;
            double magnitude = 0;
            for (int64_t i = 0; i < in; ++i) {
              double term =
                  static_cast<double>(inputs[at(t, in, i)]) * static_cast<double>(dense[at(j, in, i)]);
              sum += term;
              magnitude += std::abs(term);
            }
            expect_near(forward[at(t, out, j)], sum, magnitude);
          }
          for (int64_t i = 0; i < in; ++i) {
            double sum = 0;
            double magnitude = 0;
            for (int64_t j = 0; j < out; ++j) {
              double term =
                  static_cast<double>(forward[at(t, out, j)]) * static_cast<double>(dense[at(j, in, i)]);
              sum += term;
              magnitude += std::abs(term);
            }
            expect_near(backward[at(t, in, i)], sum, magnitude);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug
