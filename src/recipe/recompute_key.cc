// {layers: 0-12, keep: [qkv, gate_up]}, and what is wrong with it.
#include "recipe/recompute_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/names.h"
#include "recipe/choices.h"
#include "recipe/key_types.h"

namespace snug {
namespace {

using Kind = YamlValue::Kind;

constexpr size_t kMostLayers = 4096;

std::vector<std::string> value_names() {
  return {kLayerValueNames.begin(), kLayerValueNames.end()};
}

struct LayerRange {
  size_t first = 0;
  size_t last = 0;
};

std::optional<size_t> layer_in(std::string_view text) {
  size_t layer = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  bool is_whole = error == std::errc() && end == text.data() + text.size() && layer < kMostLayers;
  return is_whole ? std::optional(layer) : std::nullopt;
}

std::optional<BadValue> read_range(const YamlNode& node, LayerRange& out) {
  std::string_view text = node.value->text;
  size_t dash = std::min(text.find('-'), text.size());
  std::optional<size_t> first = layer_in(text.substr(0, dash));
  std::optional<size_t> last = dash == text.size() ? first : layer_in(text.substr(dash + 1));
  if (node.value->kind != Kind::scalar || !first || !last || *first > *last) {
    return BadValue{.where = node,
                    .element = std::nullopt,
                    .did_you_mean = "",
                    .remedy = "expected a layer, or the first and the last one, counted from 0, e.g. 0-12"};
  }
  out = {*first, *last};
  return std::nullopt;
}

std::optional<BadValue> read_kept(const YamlNode& node, LayerValues& out) {
  LayerValues kept;
  if (node.value->kind == Kind::list && node.value->items.empty()) {
    out = kept;
    return std::nullopt;
  }
  std::vector<std::string> texts;
  if (std::optional<BadValue> bad = read_text_or_list(node, texts)) {
    bad->remedy = fmt::format("expected a list of {}", allowed_text(value_names()));
    return bad;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    size_t index = 0;
    const YamlNode& element = is_list(node) ? node.value->items[i] : node;
    if (std::optional<BadValue> bad = read_choice(element, value_names(), index)) {
      bad->remedy = fmt::format(
          "what a layer can keep is {}{}", allowed_text(value_names()),
          bad->did_you_mean.empty() ? "" : fmt::format("; did you mean \"{}\"?", bad->did_you_mean));
      return bad;
    }
    kept = kept.with(static_cast<LayerValue>(index));
  }
  out = kept;
  return std::nullopt;
}

// Layers that no entry has named so far are absent.
using NamedLayers = std::vector<std::optional<Recompute>>;

std::optional<BadValue> read_entry(const YamlNode& node, NamedLayers& layers) {
  std::optional<LayerRange> range;
  std::optional<LayerValues> kept;
  const std::vector<YamlNode>& items = node.value->items;
  for (size_t i = 0; node.value->kind == Kind::map && i + 1 < items.size(); i += 2) {
    const std::string& name = items[i].value->text;
    std::optional<BadValue> bad;
    if (name == "layers") {
      bad = read_range(items[i + 1], range.emplace());
    } else if (name == "keep") {
      bad = read_kept(items[i + 1], kept.emplace());
    } else {
      bad = BadValue{.where = items[i],
                     .element = std::nullopt,
                     .did_you_mean = "",
                     .remedy = "an entry has layers and keep, e.g. {layers: 0-12, keep: [qkv, gate_up]}"};
    }
    if (bad) {
      return bad;
    }
  }
  if (!range || !kept) {
    return BadValue{.where = node,
                    .element = std::nullopt,
                    .did_you_mean = "",
                    .remedy = "an entry has layers and keep, e.g. {layers: 0-12, keep: [qkv, gate_up]}"};
  }
  layers.resize(std::max(layers.size(), range->last + 1));
  for (size_t layer = range->first; layer <= range->last; ++layer) {
    if (layers[layer]) {
      return BadValue{.where = node,
                      .element = std::nullopt,
                      .did_you_mean = "",
                      .remedy = fmt::format("layer {} is in an entry before it", layer)};
    }
    layers[layer] = Recompute{*kept};
  }
  return std::nullopt;
}

std::optional<BadValue> read_entries(const YamlNode& list, std::vector<Recompute>& out) {
  NamedLayers layers;
  for (size_t i = 0; i < list.value->items.size(); ++i) {
    if (std::optional<BadValue> bad = read_entry(list.value->items[i], layers)) {
      bad->element = i;
      return bad;
    }
  }
  out.clear();
  for (const std::optional<Recompute>& layer : layers) {
    out.push_back(layer.value_or(Recompute::none));
  }
  out.push_back(Recompute::none);  // what is not named, however many layers there are
  return std::nullopt;
}

std::optional<BadValue> read_words(const YamlNode& node, std::vector<Recompute>& out) {
  std::vector<std::string> texts;
  std::optional<BadValue> bad = read_text_or_list(node, texts);
  std::vector<Recompute> policies;
  for (size_t i = 0; !bad && i < texts.size(); ++i) {
    size_t index = 0;
    const YamlNode& element = is_list(node) ? node.value->items[i] : node;
    bad = read_choice(element, names_in(kRecomputePolicies), index);
    if (bad && is_list(node)) {
      bad->element = i;
    }
    policies.push_back(kRecomputePolicies[index].second);
  }
  if (!bad) {
    out = std::move(policies);
  }
  return bad;
}

Json kept_json(LayerValues kept) {
  Json names = Json::array();
  for (int value = 0; value < kLayerValueCount; ++value) {
    if (kept.contains(static_cast<LayerValue>(value))) {
      names.push_back(kLayerValueNames[static_cast<size_t>(value)]);
    }
  }
  return names;
}

// One entry for layers in a row that keep the same; those that keep everything need none.
Json entries_json(const std::vector<Recompute>& policies) {
  Json entries = Json::array();
  for (size_t first = 0; first < policies.size();) {
    size_t last = first;
    while (last + 1 < policies.size() && policies[last + 1] == policies[first]) {
      ++last;
    }
    if (policies[first] != Recompute::none) {
      Json layers = first == last ? Json(first) : Json(layers_text(first, last));
      entries.push_back({{"layers", std::move(layers)}, {"keep", kept_json(policies[first].kept)}});
    }
    first = last + 1;
  }
  return entries;
}

Json policies_json(const std::vector<Recompute>& policies) {
  if (policies.empty()) {
    return "auto";
  }
  bool all_alike = std::all_of(policies.begin(), policies.end(),
                               [&](Recompute policy) { return policy == policies.front(); });
  bool has_word = policies.size() == 1 || policies.front() == Recompute::none;
  if (all_alike && has_word && !name_of(policies.front()).empty()) {
    return name_of(policies.front());
  }
  return entries_json(policies);
}

}  // namespace

std::string layers_text(size_t first, size_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

std::string names_of(LayerValues values, LayerValues of_model) {
  if (values == of_model || values == LayerValues{}) {
    return values == LayerValues{} ? "nothing" : "everything";
  }
  std::vector<std::string> names = kept_json(values).get<std::vector<std::string>>();
  std::vector<std::string> others = kept_json(values.others_of(of_model)).get<std::vector<std::string>>();
  bool is_shorter = others.size() < names.size();
  const std::vector<std::string>& told = is_shorter ? others : names;
  std::string text = (is_shorter ? "all but " : "") + told.front();
  for (size_t i = 1; i < told.size(); ++i) {
    text += (i + 1 == told.size() ? " and " : ", ") + told[i];
  }
  return text;
}

RecipeKey recompute_key() {
  RecipeKey key{
      .name = "memory.recompute",
      .allowed = fmt::format("auto, {} for all layers, a list with one per layer, or a list of entries such "
                             "as {{layers: 0-12, keep: [qkv, gate_up]}}",
                             allowed_text(names_in(kRecomputePolicies))),
      .help =
          "What the backward pass computes again instead of keeping it: nothing, what is cheap, or "
          "everything but each layer's input. An entry says what a range of layers keeps, counted from 0 "
          "(those of an encoder first); layers without one keep everything. Of a layer can be kept: `norms`, "
          "`qkv` (queries, keys and values), `rotated` (the same with their positions), `attention` (its "
          "output), `out` (the products behind attention and MLP, read again only where a norm follows), "
          "`sum` (what attention was added to), `gate_up` (the MLP's first products), `gated` (what its "
          "activation makes of them), `dropout` (what is left of them), `lora` (the adapters' down "
          "products). "
          "`auto`: what makes the fastest plan that fits. The result is the same, bit for bit."};
  key.read = [](const YamlNode& node, Recipe& recipe) -> std::optional<BadValue> {
    if (is_auto(node)) {
      recipe.memory.recompute.clear();
      return std::nullopt;
    }
    bool has_entries = is_list(node) && node.value->items.size() <= kMostLayers &&
                       std::any_of(node.value->items.begin(), node.value->items.end(),
                                   [](const YamlNode& item) { return item.value->kind == Kind::map; });
    return has_entries ? read_entries(node, recipe.memory.recompute)
                       : read_words(node, recipe.memory.recompute);
  };
  key.print = [](const Recipe& recipe) { return policies_json(recipe.memory.recompute); };
  return key;
}

}  // namespace snug
