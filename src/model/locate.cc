// Finding models.
#include "model/locate.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/names.h"
#include "io/atomic_file.h"
#include "model/catalogue.h"
#include "model/tying.h"

namespace snug {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path hub_cache() {
  if (std::string cache = environment("HF_HUB_CACHE"); !cache.empty()) {
    return cache;
  }
  if (std::string home = environment("HF_HOME"); !home.empty()) {
    return std::filesystem::path(home) / "hub";
  }
  return std::filesystem::path(environment("HOME")) / ".cache/huggingface/hub";
}

bool is_hub_id(const std::string& model) {
  size_t slash = model.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < model.size() &&
         model.find('/', slash + 1) == std::string::npos && model.find("..") == std::string::npos;
}

LocatedModel from_folder(const std::filesystem::path& folder) {
  std::filesystem::path config = folder / "config.json";
  LocatedModel model{parse_model_config(read_text_file(config), config.string()), folder.string()};
  settle_tying(folder, model.spec);
  settle_codes(folder, model.spec);
  return model;
}

}  // namespace

std::optional<std::filesystem::path> find_in_hub_cache(const std::string& hub_id) {
  if (!is_hub_id(hub_id)) {
    return std::nullopt;
  }
  std::string name = hub_id;
  name.replace(name.find('/'), 1, "--");
  std::filesystem::path repository = hub_cache() / ("models--" + name);
  std::filesystem::path reference = repository / "refs/main";
  if (!std::filesystem::is_regular_file(reference)) {
    return std::nullopt;
  }
  std::string commit = read_text_file(reference, 4096);
  commit.erase(commit.find_last_not_of(" \n\r\t") + 1);
  std::filesystem::path snapshot = repository / "snapshots" / commit;
  bool usable = commit.find('/') == std::string::npos && std::filesystem::exists(snapshot / "config.json");
  return usable ? std::optional(snapshot) : std::nullopt;
}

LocatedModel locate_model(const std::string& model) {
  if (std::filesystem::is_directory(model)) {
    if (!std::filesystem::exists(std::filesystem::path(model) / "config.json")) {
      throw bad_input(
          fmt::format("{}: no config.json there; a model is a folder in Hugging Face's layout (config.json, "
                      "*.safetensors, tokenizer.json)",
                      model));
    }
    return from_folder(model);
  }
  if (auto snapshot = find_in_hub_cache(model)) {
    return from_folder(*snapshot);
  }
  if (auto config = catalogue_config(model)) {
    return {parse_model_config(config->dump(), model), ""};
  }
  std::string nearest = nearest_name(model, catalogue_ids());
  throw bad_input(fmt::format(
      "{}: no such folder, not in the Hugging Face cache ({}), and not in snug's catalogue of "
      "published shapes{}",
      model, hub_cache().string(), nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
}

LocatedModel locate_model_files(const std::string& model) {
  LocatedModel located = locate_model(model);
  if (located.folder.empty()) {
    throw bad_input(
        fmt::format("{}: its shape is in snug's catalogue, but its files are not on this machine (looked in "
                    "{}): download it there with Hugging Face's tools, give a folder, or try the shape with "
                    "random weights: snug synth {} FOLDER",
                    model, hub_cache().string(), model));
  }
  return located;
}

}  // namespace snug
