// The keys of bitsandbytes' checkpoints.
//
// 4 bits: W.weight (bytes, under any dtype), W.weight.absmax, W.weight.quant_map, a JSON text in
// W.weight.quant_state.bitsandbytes__nf4 (or fp4), and for nested scales W.weight.nested_absmax and
// W.weight.nested_quant_map. 8 bits: W.weight, W.SCB and, since 0.42, W.weight_format.
#include "io/bitsandbytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "base/error.h"
#include "base/sizes.h"
#include "io/joined_tensor.h"
#include "io/json.h"
#include "io/printable.h"

namespace snug {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kState = ".quant_state.bitsandbytes__";
constexpr std::string_view kNestedScales = ".nested_absmax";
constexpr std::string_view kRowScales = ".SCB";
constexpr std::string_view kRowFormat = ".weight_format";

using Tensors = std::map<std::string, std::unique_ptr<SourceTensor>>;

std::string joined(std::string_view a, std::string_view b) {
  return std::string(a).append(b);
}

// ---- the state of 4-bit weights ----

struct State {
  Format format;
  std::vector<int64_t> shape;
  float offset = 0;
};

std::vector<int64_t> matrix_shape(const Json& json, const std::string& where) {
  auto shape = json.find("shape");
  auto is_size = [](const Json& size) {
    return size.is_number_unsigned() && size.get<uint64_t>() > 0 &&
           size.get<uint64_t>() <= static_cast<uint64_t>(kLargestCount);
  };
  if (shape == json.end() || !shape->is_array() || shape->size() != 2 ||
      !std::all_of(shape->begin(), shape->end(), is_size)) {
    throw bad_input(fmt::format("{}: \"shape\" is {}; that of a matrix is wanted", where,
                                shape == json.end() ? "missing" : printable(shape->dump(), 60)));
  }
  return shape->get<std::vector<int64_t>>();
}

// `type`: how the name of the state's tensor ends.
State read_state(const Json& json, std::string_view type, bool nested, const std::string& where) {
  State state;
  std::string said = json_string(json, "quant_type", "", where);
  if (said != type || (type != "nf4" && type != "fp4")) {
    throw bad_input(fmt::format("{}: \"quant_type\" is {}; it must be nf4 or fp4, as in the tensor's name",
                                where, in_quotes(said)));
  }
  constexpr int64_t kSmallest = 32;
  constexpr int64_t kLargest = 4096;
  int64_t block = json_integer(json, "blocksize", where);
  if (block < kSmallest || block > kLargest || !std::has_single_bit(static_cast<uint64_t>(block))) {
    throw bad_input(fmt::format("{}: \"blocksize\" is {}; bitsandbytes makes powers of two from {} to {}",
                                where, block, kSmallest, kLargest));
  }
  state.format = Format(type == "nf4" ? Coding::nf4 : Coding::fp4, static_cast<int32_t>(block), nested);
  state.shape = matrix_shape(json, where);
  if (nested) {
    int64_t nested_block = json_integer(json, "nested_blocksize", where);
    std::string nested_dtype = json_string(json, "nested_dtype", "", where);
    if (nested_block != kNestedBlock || parse_dtype(nested_dtype) != DType::f32) {
      throw bad_input(fmt::format(
          "{}: \"nested_blocksize\" is {} and \"nested_dtype\" {}; snug reads {} and float32, which "
          "is what bitsandbytes makes",
          where, nested_block, in_quotes(nested_dtype), kNestedBlock));
    }
    if (!json.contains("nested_offset")) {
      throw bad_input(fmt::format("{}: \"nested_offset\" is missing", where));
    }
    state.offset = static_cast<float>(json_number(json, "nested_offset", 0, where));
  }
  return state;
}

Json parse_state(const SourceTensor& tensor, const std::string& where) {
  constexpr int64_t kLongest = 1 << 16;
  if (tensor.dtype() != DType::u8 || tensor.elements() > kLongest) {
    throw bad_input(fmt::format("{} is {} of {}; a JSON text in bytes is wanted", where, tensor.elements(),
                                name_of(tensor.dtype())));
  }
  std::string text(static_cast<size_t>(tensor.elements()), '\0');
  tensor.read(0, tensor.elements(), DType::u8, text.data());
  Json state = parse_json(text, where);
  if (!state.is_object()) {
    throw bad_input(fmt::format("{} is {}; a JSON object is wanted", where, printable(text, 60)));
  }
  return state;
}

// ---- joining ----

class Joiner {
 public:
  explicit Joiner(TensorSource files) : tensors_(files.take_all()) {}

  TensorSource join() {
    TensorSource source;
    for (const std::string& name : names()) {
      if (size_t state = name.find(kState); state != std::string::npos) {
        source.add(join_four_bits(name.substr(0, state), name));
      } else if (name.ends_with(kRowScales)) {
        source.add(join_eight_bits(name.substr(0, name.size() - kRowScales.size())));
      }
    }
    refuse_leftovers();
    for (auto& [name, tensor] : tensors_) {
      source.add(std::move(tensor));
    }
    return source;
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) {
      names.push_back(name);
    }
    return names;
  }

  std::unique_ptr<SourceTensor> take(const std::string& name, const std::string& needed_by) {
    auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      throw bad_input(
          fmt::format("tensor {} is missing, to which {} belongs: the checkpoint that bitsandbytes "
                      "quantised is incomplete; get it again",
                      in_quotes(name), in_quotes(needed_by)));
    }
    std::unique_ptr<SourceTensor> tensor = std::move(found->second);
    tensors_.erase(found);
    return tensor;
  }

  // One of exactly so many elements.
  std::unique_ptr<SourceTensor> take(const std::string& name, const std::string& needed_by, DType dtype,
                                     int64_t elements) {
    std::unique_ptr<SourceTensor> tensor = take(name, needed_by);
    if (tensor->dtype() != dtype || tensor->elements() != elements) {
      throw bad_input(fmt::format("{}: tensor {} has {} elements of {}, but {} wants {} of {}",
                                  tensor->file(), in_quotes(name), tensor->elements(),
                                  name_of(tensor->dtype()), in_quotes(needed_by), elements, name_of(dtype)));
    }
    return tensor;
  }

  std::unique_ptr<SourceTensor> join_four_bits(const std::string& name, const std::string& state_name) {
    std::unique_ptr<SourceTensor> state_tensor = take(state_name, name);
    std::string where = fmt::format("{}: tensor {}", state_tensor->file(), in_quotes(state_name));
    bool nested = tensors_.contains(joined(name, kNestedScales));
    State state = read_state(parse_state(*state_tensor, where),
                             std::string_view(state_name).substr(name.size() + kState.size()), nested, where);
    const Format& format = state.format;
    int64_t elements = multiply_sizes(state.shape[0], state.shape[1], where);
    int64_t scales = (elements + format.block - 1) / format.block;
    JoinedTensor::Pieces pieces{
        .format = format,
        .offset = state.offset,
        .codes = take_codes(name, state_name, (elements + 1) / 2),
        .scales = take(name + ".absmax", state_name, nested ? DType::u8 : DType::f32, scales)};
    pieces.map = take(name + ".quant_map", state_name, DType::f32, map_entries(format.coding));
    if (nested) {
      pieces.nested_scales = take(joined(name, kNestedScales), state_name, DType::f32,
                                  (scales + kNestedBlock - 1) / kNestedBlock);
      pieces.nested_map = take(name + ".nested_quant_map", state_name, DType::f32, kNestedMapEntries);
    }
    return std::make_unique<JoinedTensor>(name, state.shape, std::move(pieces));
  }

  std::unique_ptr<SourceTensor> take_codes(const std::string& name, const std::string& state_name,
                                           int64_t wanted_bytes) {
    std::unique_ptr<SourceTensor> codes = take(name, state_name);
    int64_t bytes = bytes_of(codes->dtype(), codes->elements());
    if (bytes != wanted_bytes) {
      throw bad_input(fmt::format("{}: tensor {} has {} bytes of codes, but the shape in {} takes {}",
                                  codes->file(), in_quotes(name), bytes, in_quotes(state_name),
                                  wanted_bytes));
    }
    return codes;
  }

  std::unique_ptr<SourceTensor> join_eight_bits(const std::string& module) {
    std::string name = joined(module, kWeight);
    std::string scales = joined(module, kRowScales);
    JoinedTensor::Pieces pieces{.format = kInt8, .codes = take(name, scales), .scales = nullptr};
    std::vector<int64_t> shape = pieces.codes->shape();
    if (shape.size() != 2 || pieces.codes->dtype() != DType::u8 || pieces.codes->elements() == 0) {
      throw bad_input(fmt::format("{}: tensor {} is {} with {} dimensions; {} wants a matrix of bytes",
                                  pieces.codes->file(), in_quotes(name), name_of(pieces.codes->dtype()),
                                  shape.size(), in_quotes(scales)));
    }
    pieces.scales = take(scales, name, DType::f32, shape[0]);
    require_row_format(joined(module, kRowFormat));
    return std::make_unique<JoinedTensor>(name, shape, std::move(pieces));
  }

  // 0: row by row. Others were layouts for the matrix units of older cards.
  void require_row_format(const std::string& name) {
    if (!tensors_.contains(name)) {
      return;
    }
    std::unique_ptr<SourceTensor> tensor = take(name, name, DType::u8, 1);
    uint8_t value = 0;
    tensor->read(0, 1, DType::u8, &value);
    if (value != 0) {
      throw bad_input(
          fmt::format("{}: tensor {} is {}, a layout for one kind of card; snug reads 0 (rows): "
                      "load the model in a newer bitsandbytes and save it again",
                      tensor->file(), in_quotes(name), value));
    }
  }

  // Pieces of weights whose other pieces are not there.
  void refuse_leftovers() const {
    constexpr std::array<std::string_view, 4> kPieces = {".weight.absmax", ".weight.quant_map",
                                                         ".weight.nested_absmax", ".weight.nested_quant_map"};
    for (const auto& [name, tensor] : tensors_) {
      std::string_view text = name;
      for (std::string_view piece : kPieces) {
        if (text.ends_with(piece)) {
          text.remove_suffix(piece.size() - kWeight.size());
          throw bad_input(
              fmt::format("{}: tensor {} belongs to a weight in 4 bits, but {}{}nf4 (or fp4), which "
                          "describes it, is missing: the checkpoint is incomplete, or was made by "
                          "a bitsandbytes older than 0.41.3; quantise it anew",
                          tensor->file(), in_quotes(name), printable(text), kState));
        }
      }
    }
    for (const auto& [name, tensor] : tensors_) {
      std::string_view text = name;
      if (text.ends_with(kWeight) && tensor->dtype() == DType::u8) {
        text.remove_suffix(kWeight.size());
        throw bad_input(
            fmt::format("{}: tensor {} holds codes of 8 bits, but {}{}, the scales of its rows, is missing",
                        tensor->file(), in_quotes(name), printable(text), kRowScales));
      }
    }
  }

  Tensors tensors_;
};

}  // namespace

TensorSource join_bitsandbytes(TensorSource files) {
  return Joiner(std::move(files)).join();
}

}  // namespace snug
