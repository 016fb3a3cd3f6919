// Parsing and checking of safetensors headers. Nothing in them is believed before it is checked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"
#include "io/json.h"
#include "io/printable.h"
#include "io/safetensors.h"

namespace snug {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

constexpr std::array<std::pair<std::string_view, DType>, 9> kDTypes = {{
    {"F32", DType::f32},
    {"BF16", DType::bf16},
    {"F16", DType::f16},
    {"F64", DType::f64},
    {"I16", DType::i16},
    {"I32", DType::i32},
    {"I64", DType::i64},
    {"U8", DType::u8},
    {"I8", DType::u8},  // codes: whoever reads them knows what a byte means
}};

// Valid in the format, but nothing here computes with them.
constexpr std::array<std::string_view, 11> kForeignDTypes = {
    "BOOL", "U16", "U32", "U64", "F8_E4M3", "C64", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3", "F6_E3M2"};

DType parse_file_dtype(const std::string& name, const std::string& tensor, const std::string& path) {
  for (const auto& [known, dtype] : kDTypes) {
    if (known == name) {
      return dtype;
    }
  }
  if (std::find(kForeignDTypes.begin(), kForeignDTypes.end(), name) != kForeignDTypes.end()) {
    throw bad_input(fmt::format(
        "{}: tensor {} is stored as {}, which snug cannot read (it reads F32, BF16, F16, F64, I32, I64, U8, "
        "I8); "
        "convert the model to one of these, for example by loading it in torch.bfloat16 and saving it again",
        path, in_quotes(tensor), name));
  }
  throw bad_input(fmt::format("{}: tensor {} has dtype {}, which safetensors does not know", path,
                              in_quotes(tensor), in_quotes(name)));
}

// Nothing if it is no integer in [0, 2^63).
std::optional<int64_t> non_negative(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

std::vector<int64_t> integer_list(const Json& entry, const char* key, const std::string& tensor,
                                  const std::string& path) {
  auto member = entry.find(key);
  if (member == entry.end() || !member->is_array()) {
    throw bad_input(
        fmt::format("{}: tensor {} has no list of integers under \"{}\"", path, in_quotes(tensor), key));
  }
  std::vector<int64_t> numbers;
  for (const Json& element : *member) {
    std::optional<int64_t> number = non_negative(element);
    if (!number) {
      throw bad_input(fmt::format("{}: tensor {}: \"{}\" holds {}; integers from 0 to 2^63 - 1 are allowed",
                                  path, in_quotes(tensor), key, printable(element.dump(), 60)));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

// Nothing if it does not fit. Zero dimensions do not excuse the others: whoever multiplies them in
// another order must not overflow either.
std::optional<int64_t> bytes_of(DType dtype, const std::vector<int64_t>& shape) {
  int64_t product = size_of(dtype);
  bool empty = false;
  for (int64_t dimension : shape) {
    empty = empty || dimension == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(dimension, 1), &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

TensorInfo parse_tensor(const std::string& name, const Json& entry, const std::string& path) {
  if (!entry.is_object()) {
    throw bad_input(
        fmt::format("{}: tensor {} is described by {}; an object with dtype, shape and "
                    "data_offsets is wanted",
                    path, in_quotes(name), printable(entry.dump(), 60)));
  }
  std::string dtype_name =
      json_string(entry, "dtype", "", fmt::format("{}: tensor {}", path, in_quotes(name)));
  if (dtype_name.empty()) {
    throw bad_input(fmt::format("{}: tensor {} has no dtype", path, in_quotes(name)));
  }
  TensorInfo info{parse_file_dtype(dtype_name, name, path), integer_list(entry, "shape", name, path)};
  std::vector<int64_t> offsets = integer_list(entry, "data_offsets", name, path);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw bad_input(fmt::format("{}: tensor {} has data_offsets {}; [begin, end] is wanted, begin <= end",
                                path, in_quotes(name), printable(fmt::format("{}", offsets), 80)));
  }
  info.begin = offsets[0];
  info.end = offsets[1];
  std::optional<int64_t> expected = bytes_of(info.dtype, info.shape);
  std::string shape_text = printable(fmt::format("{}", info.shape), 80);
  if (!expected) {
    throw bad_input(fmt::format("{}: tensor {} with shape {} would have more bytes than 2^63", path,
                                in_quotes(name), shape_text));
  }
  if (*expected != info.end - info.begin) {
    throw bad_input(
        fmt::format("{}: tensor {} is {} with shape {}, which takes {} bytes, but its "
                    "data_offsets [{}, {}] span {}",
                    path, in_quotes(name), dtype_name, shape_text, *expected, info.begin, info.end,
                    info.end - info.begin));
  }
  return info;
}

std::map<std::string, std::string> parse_metadata(const Json& value, const std::string& path) {
  std::map<std::string, std::string> metadata;
  if (value.is_null()) {
    return metadata;
  }
  if (!value.is_object()) {
    throw bad_input(fmt::format("{}: __metadata__ is {}; an object of strings is wanted", path,
                                printable(value.dump(), 60)));
  }
  for (const auto& [key, text] : value.get_ref<const Json::object_t&>()) {
    if (!text.is_string()) {
      throw bad_input(fmt::format("{}: __metadata__ key {} is {}; a string is wanted", path, in_quotes(key),
                                  printable(text.dump(), 60)));
    }
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

// The tensors must cover the data section from its first byte to its last, once each.
void check_coverage(const SafetensorsHeader& header, int64_t data_bytes, const std::string& path) {
  using Named = std::pair<const std::string, TensorInfo>;
  std::vector<const Named*> in_order;
  for (const Named& tensor : header.tensors) {
    in_order.push_back(&tensor);
  }
  std::sort(in_order.begin(), in_order.end(), [](const Named* a, const Named* b) {
    return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
  });
  int64_t covered = 0;
  std::string previous = "the start of the data";
  for (const Named* tensor : in_order) {
    const auto& [name, info] = *tensor;
    if (info.begin < covered) {
      throw bad_input(fmt::format("{}: tensor {} [{}, {}] overlaps {}, which ends at {}", path,
                                  in_quotes(name), info.begin, info.end, previous, covered));
    }
    if (info.begin > covered) {
      throw bad_input(fmt::format("{}: {} bytes between {} and tensor {} belong to no tensor (a hole)", path,
                                  info.begin - covered, previous, in_quotes(name)));
    }
    if (info.end > data_bytes) {
      throw bad_input(
          fmt::format("{}: truncated: tensor {} ends at byte {} of the data, but the file holds "
                      "{}; fetch or copy it again",
                      path, in_quotes(name), info.end, data_bytes));
    }
    covered = info.end;
    previous = "tensor " + in_quotes(name);
  }
  if (covered != data_bytes) {
    throw bad_input(
        fmt::format("{}: the last {} bytes belong to no tensor (a hole)", path, data_bytes - covered));
  }
}

// The length in the first eight bytes, checked against the limit and the file.
int64_t header_length(std::span<const std::byte> file_start, int64_t file_bytes, const std::string& path) {
  SNUG_CHECK(static_cast<int64_t>(file_start.size()) <= file_bytes, "more bytes than the file has");
  constexpr std::string_view kPointer = "version https://git-lfs";
  std::string_view text(reinterpret_cast<const char*>(file_start.data()), file_start.size());
  if (text.starts_with(kPointer)) {
    throw bad_input(fmt::format("{}: a Git LFS pointer, not the file itself; run: git lfs pull", path));
  }
  if (file_bytes < kLengthBytes) {
    throw bad_input(
        fmt::format("{}: truncated: {} bytes, fewer than the {} that every safetensors file "
                    "starts with; fetch or copy it again",
                    path, file_bytes, kLengthBytes));
  }
  SNUG_CHECK(static_cast<int64_t>(file_start.size()) >= kLengthBytes, "the header's length is not there");
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(file_start[i]) << (8 * i);  // little-endian, whatever this machine is
  }
  if (length > static_cast<uint64_t>(kMaxHeaderBytes)) {
    throw bad_input(
        fmt::format("{}: its header would be {} bytes long, the format allows {}; this is no "
                    "safetensors file, or it is damaged",
                    path, length, kMaxHeaderBytes));
  }
  if (static_cast<int64_t>(length) > file_bytes - kLengthBytes) {
    throw bad_input(
        fmt::format("{}: truncated: its header is {} bytes long, but only {} follow; fetch or "
                    "copy it again",
                    path, length, file_bytes - kLengthBytes));
  }
  return static_cast<int64_t>(length);
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file_start, int64_t file_bytes,
                                           const std::string& path) {
  int64_t length = header_length(file_start, file_bytes, path);
  SNUG_CHECK(static_cast<int64_t>(file_start.size()) >= kLengthBytes + length, "the header is not all there");
  std::string_view text(reinterpret_cast<const char*>(file_start.data()) + kLengthBytes,
                        static_cast<size_t>(length));
  if (!text.starts_with('{')) {
    throw bad_input(
        fmt::format("{}: its header does not start with \"{{\"; this is no safetensors file, or "
                    "it is damaged",
                    path));
  }
  Json document = parse_json(text, path + " (header)");
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + length;
  for (const auto& [name, entry] : document.get_ref<const Json::object_t&>()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(entry, path);
    } else {
      header.tensors.emplace(name, parse_tensor(name, entry, path));
    }
  }
  check_coverage(header, file_bytes - header.data_begin, path);
  return header;
}

}  // namespace snug
