// Checkpoints that bitsandbytes quantised, with something missing, inconsistent or foreign. What whole ones
// hold is compared in tests/train/stored_codes_test.cc.
#include <gtest/gtest.h>

#include <map>

#include "file_fixtures.h"
#include "io/safetensors.h"
#include "test_paths.h"

namespace snug {
namespace {

struct Raw {
  DType dtype = DType::u8;
  std::vector<int64_t> shape;
  std::string bytes;
};
using RawTensors = std::map<std::string, Raw>;

const std::string kFourBits = "model.layers.0.mlp.up_proj.weight";
const std::string kEightBits = "model.layers.0.mlp.up_proj";
const std::string kStateName = "model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4";

// The tensors of a whole checkpoint as its file has them.
RawTensors tensors_of(const std::string& name) {
  RawTensors tensors;
  TensorSource files = open_safetensors(SNUG_SOURCE_DIR "/tests/goldens/bitsandbytes/" + name);
  for (const std::string& tensor : files.names()) {
    const SourceTensor& source = files.find(tensor);
    tensors[tensor] = {source.dtype(), source.shape(), stored_text(source)};
  }
  return tensors;
}

void open_again(const RawTensors& tensors) {
  TemporaryFolder folder;
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.dtype, tensor.shape});
  }
  SafetensorsWriter writer(folder / "model.safetensors", entries);
  for (const auto& [name, tensor] : tensors) {
    writer.write(std::as_bytes(std::span(tensor.bytes)));
  }
  writer.finish();
  open_tensors(folder / "model.safetensors");
}

std::string refusal(const RawTensors& tensors) {
  return error_text(ErrorKind::bad_input, [&] { open_again(tensors); });
}

class Bitsandbytes : public testing::Test {
 protected:
  // The state with one text in place of another, of the same weight.
  std::string with_state(const std::string& from, const std::string& to) const {
    RawTensors tensors = four_;
    Raw& state = tensors.at(kStateName);
    size_t place = state.bytes.find(from);
    EXPECT_NE(place, std::string::npos) << state.bytes;
    state.bytes.replace(place, from.size(), to);
    state.shape = {std::ssize(state.bytes)};
    return refusal(tensors);
  }

  RawTensors four_ = tensors_of("llama_nf4_double");
  RawTensors eight_ = tensors_of("llama_int8");
};

TEST_F(Bitsandbytes, WholeOnesAreRead) {
  open_again(four_);
  open_again(eight_);
}

TEST_F(Bitsandbytes, WhatIsMissingIsNamed) {
  for (const char* piece : {"", ".absmax", ".quant_map", ".nested_quant_map"}) {
    RawTensors tensors = four_;
    tensors.erase(kFourBits + piece);
    EXPECT_SAYS(refusal(tensors),
                "tensor \"" + kFourBits + piece + "\" is missing, to which \"" + kStateName + "\" belongs");
  }
  RawTensors tensors = four_;
  tensors.erase(kStateName);
  EXPECT_SAYS(refusal(tensors), kStateName + " (or fp4)");
  tensors = four_;
  tensors.erase(kFourBits + ".nested_absmax");  // the scales are no fp32, then
  EXPECT_SAYS(refusal(tensors), kFourBits + ".absmax\" has 28 elements of uint8");
  tensors = eight_;
  tensors.erase(kEightBits + ".SCB");
  EXPECT_SAYS(refusal(tensors), "up_proj.weight\" holds codes of 8 bits, but model.layers.0.mlp.up_proj.SCB");
  tensors = eight_;
  tensors.erase(kEightBits + ".weight");
  EXPECT_SAYS(refusal(tensors), "tensor \"model.layers.0.mlp.up_proj.weight\" is missing");
  tensors = eight_;
  tensors.erase(kEightBits + ".weight_format");  // older files have none
  open_again(tensors);
}

TEST_F(Bitsandbytes, SizesMustFitTheState) {
  for (const char* piece : {"", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) {
    RawTensors tensors = four_;
    std::string name = kFourBits + piece;
    Raw& tensor = tensors.at(name);
    int64_t fewer = tensor.shape[0] - 1;
    tensor.bytes.resize(tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]) *
                        static_cast<size_t>(fewer));
    tensor.shape[0] = fewer;
    std::string message = refusal(tensors);
    EXPECT_SAYS(message, "tensor \"" + name + "\" has");
    EXPECT_SAYS(message, kStateName);
  }
  RawTensors tensors = eight_;
  Raw& scales = tensors.at(kEightBits + ".SCB");
  scales.dtype = DType::f16;
  scales.bytes.resize(scales.bytes.size() / 2);
  EXPECT_SAYS(refusal(tensors), "up_proj.SCB\" has 56 elements of fp16");
}

TEST_F(Bitsandbytes, StatesOfAnotherKind) {
  EXPECT_SAYS(with_state("\"nf4\"", "\"fp4\""), "\"quant_type\" is \"fp4\"");
  EXPECT_SAYS(with_state("\"quant_type\": \"nf4\", ", ""), "\"quant_type\" is \"\"");
  EXPECT_SAYS(with_state("\"blocksize\": 64", "\"blocksize\": 65"), "\"blocksize\" is 65");
  EXPECT_SAYS(with_state("\"blocksize\": 64", "\"blocksize\": 128"), ".absmax\" has 28 elements");
  EXPECT_SAYS(with_state("[56, 32]", "[56, -32]"), "\"shape\" is [56,-32]");
  EXPECT_SAYS(with_state("[56, 32]", "[56, 33]"), "has 896 bytes of codes");
  EXPECT_SAYS(with_state("[56, 32]", "[1792]"), "\"shape\" is [1792]");
  EXPECT_SAYS(with_state("[56, 32]", "[36028797018963968, 36028797018963968]"), "2^56");
  EXPECT_SAYS(with_state("\"nested_blocksize\": 256", "\"nested_blocksize\": 128"),
              "\"nested_blocksize\" is 128");
  EXPECT_SAYS(with_state("\"nested_offset\"", "\"nested\""), "\"nested_offset\" is missing");
  EXPECT_SAYS(with_state("{", "["), kStateName);
  RawTensors tensors = eight_;
  tensors.at(kEightBits + ".weight_format").bytes = "\2";
  EXPECT_SAYS(refusal(tensors), "up_proj.weight_format\" is 2");
  tensors = eight_;
  tensors.at(kEightBits + ".weight").shape = {32 * 56};
  EXPECT_SAYS(refusal(tensors), "up_proj.weight\" is uint8 with 1 dimensions");
}

}  // namespace
}  // namespace snug
