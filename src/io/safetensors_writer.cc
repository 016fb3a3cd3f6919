// Writing safetensors files as a stream.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace snug {
namespace {

std::string_view file_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::f64:
      return "F64";
    case DType::i16:
      return "I16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
  }
  SNUG_CHECK(false, "a dtype that safetensors has no name for");
}

int64_t bytes_of(const SafetensorsWriter::Entry& entry) {
  int64_t bytes = size_of(entry.dtype);
  for (int64_t dimension : entry.shape) {
    bool fits = dimension >= 0 && !__builtin_mul_overflow(bytes, dimension, &bytes);
    SNUG_CHECK(fits, "shape of tensor " + entry.name);
  }
  return bytes;
}

// The eight bytes of length and the JSON, filled up with spaces so that the data starts at a multiple
// of eight.
std::string header_text(const Json& document) {
  std::string json = document.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string text;
  for (int shift = 0; shift < 64; shift += 8) {
    text += static_cast<char>((json.size() >> shift) & 0xFFU);
  }
  return text + json;
}

}  // namespace

struct SafetensorsWriter::State {
  struct Place {
    int64_t offset = 0;  // in the file
    int64_t bytes = 0;
  };

  explicit State(const std::filesystem::path& path) : file(path) {}

  AtomicFile file;
  std::vector<Place> places;  // in the order declared
  size_t current = 0;
  int64_t written_of_current = 0;
};

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<Entry>& entries,
                                     const std::map<std::string, std::string>& metadata)
    : state_(std::make_unique<State>(path)) {
  // Wide elements come first in the file, so that each tensor starts at a multiple of its element: torch
  // reads no others.
  std::vector<size_t> file_order(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    file_order[i] = i;
  }
  std::stable_sort(file_order.begin(), file_order.end(), [&entries](size_t a, size_t b) {
    return size_of(entries[a].dtype) > size_of(entries[b].dtype);
  });
  Json document = Json::object();
  if (!metadata.empty()) {
    document["__metadata__"] = metadata;
  }
  auto& members = document.get_ref<Json::object_t&>();
  std::set<std::string> names{"__metadata__"};
  state_->places.resize(entries.size());
  int64_t data_bytes = 0;
  for (size_t i : file_order) {
    const Entry& entry = entries[i];
    SNUG_CHECK(names.insert(entry.name).second, "tensor declared twice, or a reserved name: " + entry.name);
    int64_t bytes = bytes_of(entry);
    Json description = {{"dtype", file_name_of(entry.dtype)},
                        {"shape", entry.shape},
                        {"data_offsets", {data_bytes, data_bytes + bytes}}};
    members.emplace_back(entry.name, std::move(description));
    state_->places[i] = {data_bytes, bytes};
    data_bytes += bytes;
  }
  std::string header = header_text(document);
  for (State::Place& place : state_->places) {
    place.offset += static_cast<int64_t>(header.size());
  }
  state_->file.reserve(static_cast<int64_t>(header.size()) + data_bytes);
  state_->file.write(header);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  State& state = *state_;
  while (!bytes.empty()) {
    while (state.current < state.places.size() &&
           state.written_of_current == state.places[state.current].bytes) {
      ++state.current;
      state.written_of_current = 0;
    }
    SNUG_CHECK(state.current < state.places.size(), "more bytes written than declared");
    const State::Place& place = state.places[state.current];
    auto count = std::min(bytes.size(), static_cast<size_t>(place.bytes - state.written_of_current));
    state.file.write_at(place.offset + state.written_of_current, bytes.first(count));
    state.written_of_current += static_cast<int64_t>(count);
    bytes = bytes.subspan(count);
  }
}

void SafetensorsWriter::finish() {
  State& state = *state_;
  while (state.current < state.places.size() &&
         state.written_of_current == state.places[state.current].bytes) {
    ++state.current;
    state.written_of_current = 0;
  }
  SNUG_CHECK(state.current == state.places.size(), "fewer bytes written than declared");
  state.file.commit();
}

}  // namespace snug
