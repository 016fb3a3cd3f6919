// Comparing settings and plans.
#include "report/difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/bytes.h"
#include "recipe/keys.h"
#include "recipe/write.h"

namespace snug {
namespace {

constexpr size_t kNamedRoles = 4;
constexpr size_t kNamedBuffers = 2;
// Differences below this share of the largest one are left to the table.
constexpr int64_t kNamedShare = 20;

bool is_fitting(std::string_view key) {
  return key == "memory.micro_batch_tokens" || key == "memory.recompute" || key == "memory.loss_chunk_tokens";
}

bool is_place(std::string_view key) {
  return key == "output_dir" || key == "data.cache_dir";
}

bool has_section(const Recipe& recipe, const RecipeKey& key) {
  const RecipeSection* section = find_recipe_section(key.section());
  return section == nullptr || section->is_present == nullptr || section->is_present(recipe);
}

int64_t bytes_of(const BytesByName& bytes, const std::string& name) {
  auto found = bytes.find(name);
  return found == bytes.end() ? 0 : found->second;
}

// By name, what b has more than a; the largest first.
std::vector<std::pair<std::string, int64_t>> differences(const BytesByName& a, const BytesByName& b) {
  std::set<std::string> names;
  for (const BytesByName* side : {&a, &b}) {
    for (const auto& [name, bytes] : *side) {
      names.insert(name);
    }
  }
  std::vector<std::pair<std::string, int64_t>> found;
  for (const std::string& name : names) {
    if (int64_t more = bytes_of(b, name) - bytes_of(a, name); more != 0) {
      found.emplace_back(name, more);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& one, const auto& other) {
    return std::abs(one.second) > std::abs(other.second);
  });
  return found;
}

// "base weights 8.44 GiB (…), gradients 638.0 MiB": those of one sign, and worth a word.
std::string name_roles(const std::vector<RoleDifference>& roles, bool more) {
  std::vector<std::string> words;
  for (const RoleDifference& role : roles) {
    bool is_small = std::abs(role.bytes) < std::abs(roles.front().bytes) / kNamedShare;
    if ((role.bytes > 0) != more || is_small || words.size() == kNamedRoles) {
      continue;
    }
    std::vector<std::string> buffers;
    for (const auto& [name, bytes] : role.buffers) {
      bool is_most = (bytes > 0) == more && std::abs(bytes) * 4 > std::abs(role.bytes);
      if (is_most && buffers.size() < kNamedBuffers && role.buffers.size() > 1) {
        buffers.push_back(fmt::format("{} {}", name, format_bytes(std::abs(bytes))));
      }
    }
    words.push_back(fmt::format("{} {}{}", role.role, format_bytes(std::abs(role.bytes)),
                                buffers.empty() ? "" : fmt::format(" ({})", fmt::join(buffers, ", "))));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

bool is_activation(const std::string& role) {
  return role == name_of(Role::kept_activations) || role == name_of(Role::recomputed_activations) ||
         role == name_of(Role::activations);
}

// What `name` takes more and less than the other. Where one keeps more than the other because it has room,
// that is a choice and no reason: it is one clause at the end.
std::string reasons(std::string_view name, const PlanFigures& from, const PlanFigures& to,
                    bool fitted_alike) {
  std::vector<RoleDifference> roles;
  int64_t activation_bytes = 0;
  for (RoleDifference& role : different_roles(from, to)) {
    if (!fitted_alike && is_activation(role.role)) {
      activation_bytes += role.bytes;
    } else {
      roles.push_back(std::move(role));
    }
  }
  std::string more = name_roles(roles, true);
  std::string less = name_roles(roles, false);
  std::string text = more.empty() ? "" : fmt::format("{} has more {}", name, more);
  if (!less.empty()) {
    text += fmt::format("{} less {}", text.empty() ? fmt::format("{} has", name) : " and", less);
  }
  if (activation_bytes != 0) {
    text += fmt::format("{}{} keeps {} {} of activations, as there is {} room", text.empty() ? "" : "; ",
                        name, format_bytes(std::abs(activation_bytes)),
                        activation_bytes > 0 ? "more" : "less", activation_bytes > 0 ? "more" : "less");
  }
  if (from.parameters != to.parameters) {
    text += fmt::format("{}{} is a model of {} parameters, the other one of {}", text.empty() ? "" : "; ",
                        name, format_count(to.parameters), format_count(from.parameters));
  }
  return text;
}

std::string need(std::string_view name, const PlanFigures& plan, bool with_limit) {
  return fmt::format("{} needs {}{}", name, format_bytes(plan.peak_bytes),
                     with_limit ? " of " + format_bytes(*plan.limit_bytes) : "");
}

bool fitted_alike(const Compared& a, const Compared& b) {
  for (size_t i = 0; i < std::min(a.stages.size(), b.stages.size()); ++i) {
    if (!different_fitting(a.stages[i].fitted, b.stages[i].fitted).empty()) {
      return false;
    }
  }
  return true;
}

}  // namespace

const PlanFigures& Compared::largest() const {
  return std::max_element(stages.begin(), stages.end(),
                          [](const ComparedPlan& a, const ComparedPlan& b) {
                            return a.plan.peak_bytes < b.plan.peak_bytes;
                          })
      ->plan;
}

std::vector<SettingDifference> different_settings(const Recipe& a, const Recipe& b) {
  Recipe whole_a = with_absolute_paths(a);
  Recipe whole_b = with_absolute_paths(b);
  std::vector<SettingDifference> found;
  std::string_view absent_section;
  for (const RecipeKey& key : recipe_keys()) {
    bool in_a = has_section(a, key);
    bool in_b = has_section(b, key);
    if (is_fitting(key.name) || is_place(key.name) || (!in_a && !in_b)) {
      continue;
    }
    if (in_a != in_b) {
      if (key.section() != absent_section) {
        absent_section = key.section();
        std::string section(key.section());
        found.push_back({section, recipe_to_json(a)[section], recipe_to_json(b)[section]});
      }
      continue;
    }
    if (key.print(whole_a) != key.print(whole_b)) {
      found.push_back({std::string(key.name), key.print(a), key.print(b)});
    }
  }
  return found;
}

std::vector<SettingDifference> different_fitting(const Recipe& a, const Recipe& b) {
  std::vector<SettingDifference> found;
  for (const RecipeKey& key : recipe_keys()) {
    if (is_fitting(key.name) && key.print(a) != key.print(b)) {
      found.push_back({std::string(key.name), key.print(a), key.print(b)});
    }
  }
  return found;
}

std::vector<RoleDifference> different_roles(const PlanFigures& a, const PlanFigures& b) {
  std::vector<RoleDifference> found;
  for (const auto& [name, bytes] : differences(a.roles, b.roles)) {
    RoleDifference one{.role = name, .bytes = bytes, .buffers = {}};
    if (!a.buffers.empty() && !b.buffers.empty()) {
      auto of = [&](const PlanFigures& plan) {
        auto place = plan.buffers.find(one.role);
        return place == plan.buffers.end() ? BytesByName() : place->second;
      };
      one.buffers = differences(of(a), of(b));
    }
    found.push_back(std::move(one));
  }
  return found;
}

bool is_same(const Compared& a, const Compared& b) {
  if (a.stages.size() != b.stages.size()) {
    return false;
  }
  for (size_t i = 0; i < a.stages.size(); ++i) {
    const ComparedPlan& one = a.stages[i];
    const ComparedPlan& other = b.stages[i];
    bool same_bytes = one.plan.peak_bytes == other.plan.peak_bytes && one.plan.roles == other.plan.roles;
    if (!same_bytes || !different_settings(one.asked, other.asked).empty() ||
        !different_fitting(one.fitted, other.fitted).empty()) {
      return false;
    }
  }
  return true;
}

std::string verdict(const Compared& a, const Compared& b) {
  const PlanFigures& one = a.largest();
  const PlanFigures& other = b.largest();
  bool alike = fitted_alike(a, b);
  bool same_limit = one.limit_bytes == other.limit_bytes;
  std::string limit = same_limit && one.limit_bytes ? format_bytes(*one.limit_bytes) : "";
  if (is_same(a, b)) {
    std::string fits = !one.fits()   ? ""
                       : *one.fits() ? fmt::format(" and fit into {}", limit)
                                     : fmt::format(" and do not fit into {}", limit);
    return fmt::format("A and B are equal: no setting and no byte differs. Both need {}{}.",
                       format_bytes(one.peak_bytes), fits);
  }
  if (one.fits().has_value() && other.fits().has_value() && *one.fits() != *other.fits()) {
    bool a_fits = *one.fits();
    const PlanFigures& fitting = a_fits ? one : other;
    const PlanFigures& failing = a_fits ? other : one;
    std::string_view good = a_fits ? "A" : "B";
    std::string_view bad = a_fits ? "B" : "A";
    std::string why = reasons(bad, fitting, failing, alike);
    return fmt::format("{} and fits into {}; {} and does not fit{}{}.", need(good, fitting, false),
                       format_bytes(*fitting.limit_bytes), need(bad, failing, false),
                       same_limit ? "" : " into " + format_bytes(*failing.limit_bytes),
                       why.empty() ? "" : ": " + why);
  }
  bool limits_known = one.fits().has_value() && other.fits().has_value();
  std::string head;
  if (limits_known) {
    std::string where = same_limit ? " into " + limit : "";
    head = *one.fits() ? fmt::format("Both fit{}: ", where) : fmt::format("Neither fits{}: ", where);
  }
  bool with_limit = limits_known && !same_limit;
  std::string why = reasons("B", one, other, alike);
  return fmt::format("{}{}, {}{}.", head, need("A", one, with_limit), need("B", other, with_limit),
                     why.empty() ? "" : "; " + why);
}

}  // namespace snug
