// Tied embeddings, by the weights.
#include "model/tying.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "io/safetensors.h"

namespace snug {
namespace {

constexpr const char* kHead = "lm_head.weight";

std::vector<std::string> embedding_names(const ModelSpec& spec) {
  if (spec.has_encoder()) {
    return {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
  }
  return {"model.embed_tokens.weight", "embed_tokens.weight"};
}

bool are_equal(const SafetensorsSet& files, const std::string& a, const std::string& b) {
  TensorBytes left = files.find(a);
  TensorBytes right = files.find(b);
  bool equal = left.dtype == right.dtype && left.shape == right.shape &&
               std::memcmp(left.bytes.data(), right.bytes.data(), left.bytes.size()) == 0;
  files.release(left.bytes);
  files.release(right.bytes);
  return equal;
}

}  // namespace

void settle_tying(const std::filesystem::path& folder, ModelSpec& spec) {
  // A decoder-only model whose config does not tie has a head of its own, whatever it holds.
  if ((!spec.tied_embeddings && !spec.has_encoder()) || !SafetensorsSet::is_complete(folder)) {
    return;
  }
  SafetensorsSet files = SafetensorsSet::open(folder);
  std::vector<std::string> names = embedding_names(spec);
  std::erase_if(names, [&](const std::string& name) { return !files.contains(name); });
  for (size_t i = 1; i < names.size(); ++i) {
    if (!are_equal(files, names[0], names[i])) {
      throw bad_input(fmt::format(
          "{}: {} and {} differ, but snug knows T5 with one embedding for encoder and decoder only",
          folder.string(), names[0], names[i]));
    }
  }
  spec.tied_embeddings = names.empty() || !files.contains(kHead) || are_equal(files, names[0], kHead);
}

}  // namespace snug
