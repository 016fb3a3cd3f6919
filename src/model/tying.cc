// Tied embeddings, by the weights.
#include "model/tying.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "io/tensor_source.h"

namespace snug {
namespace {

constexpr const char* kHead = "lm_head.weight";

std::vector<std::string> embedding_names(const ModelSpec& spec) {
  if (spec.has_encoder()) {
    return {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
  }
  return {"model.embed_tokens.weight", "embed_tokens.weight"};
}

bool have_equal_bytes(const SourceTensor& a, const SourceTensor& b) {
  std::array<std::byte, 1 << 16> left{};
  std::array<std::byte, 1 << 16> right{};
  int64_t piece = std::ssize(left) / size_of(a.dtype());
  for (int64_t first = 0; first < a.elements(); first += piece) {
    int64_t count = std::min(piece, a.elements() - first);
    a.read(first, count, a.dtype(), left.data());
    b.read(first, count, b.dtype(), right.data());
    if (std::memcmp(left.data(), right.data(), static_cast<size_t>(bytes_of(a.dtype(), count))) != 0) {
      return false;
    }
  }
  return true;
}

bool are_equal(const TensorSource& source, const std::string& a, const std::string& b) {
  const SourceTensor& left = source.find(a);
  const SourceTensor& right = source.find(b);
  bool equal =
      left.dtype() == right.dtype() && left.shape() == right.shape() && have_equal_bytes(left, right);
  left.release();
  right.release();
  return equal;
}

}  // namespace

void settle_tying(const std::filesystem::path& folder, ModelSpec& spec) {
  // A decoder-only model whose config does not tie has a head of its own, whatever it holds.
  if ((!spec.tied_embeddings && !spec.has_encoder()) || !holds_tensors(folder)) {
    return;
  }
  TensorSource source = open_tensors(folder);
  std::vector<std::string> names = embedding_names(spec);
  std::erase_if(names, [&](const std::string& name) { return !source.contains(name); });
  for (size_t i = 1; i < names.size(); ++i) {
    if (!are_equal(source, names[0], names[i])) {
      throw bad_input(fmt::format(
          "{}: {} and {} differ, but snug knows T5 with one embedding for encoder and decoder only",
          folder.string(), names[0], names[i]));
    }
  }
  spec.tied_embeddings = names.empty() || !source.contains(kHead) || are_equal(source, names[0], kHead);
}

}  // namespace snug
