// Facts as JSON and back.
#include "data/tokens/table_facts.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace snug {
namespace {

// One list of the findings' names, for both directions.
template <typename Facts>
auto findings_of(Facts& facts) {
  return std::array{std::pair{"nothing_learned", &facts.nothing_learned},
                    std::pair{"empty_answers", &facts.empty_answers},
                    std::pair{"wrong_role_order", &facts.wrong_role_order},
                    std::pair{"without_end", &facts.without_end},
                    std::pair{"unknown_roles", &facts.unknown_roles},
                    std::pair{"unfound_answers", &facts.unfound_answers},
                    std::pair{"unknown_text", &facts.unknown_text},
                    std::pair{"duplicates", &facts.duplicates}};
}

const Json& member(const Json& json, const char* name, Json::value_t type, const std::string& path) {
  auto found = json.find(name);
  if (found == json.end() || found->type() != type) {
    throw bad_input(fmt::format("{}: key \"{}\" is missing or of another type", path, name));
  }
  return *found;
}

}  // namespace

Json TableFacts::to_json() const {
  Json json = {{"encoding", encoding},
               {"files", files},
               {"format", format},
               {"rows", rows},
               {"chat_template", chat_template},
               {"bad_rows", bad_rows},
               {"bad", bad},
               {"end_id", end_id},
               {"decoder_start_id", decoder_start_id},
               {"vocabulary", vocabulary},
               {"template_unused", template_unused}};
  for (const auto& [name, finding] : findings_of(*this)) {
    json[name] = {{"count", finding->count}, {"first", finding->first}};
  }
  return json;
}

TableFacts TableFacts::from_json(const Json& json, const std::string& path) {
  TableFacts facts;
  facts.encoding = json_string(json, "encoding", "", path);
  facts.files = json_string(json, "files", "", path);
  facts.format = json_string(json, "format", "", path);
  facts.chat_template = json_string(json, "chat_template", "", path);
  facts.template_unused = json_bool(json, "template_unused", false, path);
  facts.rows = json_integer(json, "rows", path);
  facts.bad_rows = json_integer(json, "bad_rows", path);
  facts.vocabulary = json_integer(json, "vocabulary", path);
  facts.end_id = static_cast<int32_t>(json_integer(json, "end_id", path));
  facts.decoder_start_id = static_cast<int32_t>(json_integer(json, "decoder_start_id", path));
  for (const Json& place : member(json, "bad", Json::value_t::array, path)) {
    if (!place.is_string()) {
      throw bad_input(
          fmt::format("{}: \"bad\" holds a {} where strings are wanted", path, place.type_name()));
    }
    facts.bad.push_back(place.get<std::string>());
  }
  if (facts.bad_rows > 0 && facts.bad.empty()) {
    throw bad_input(fmt::format("{}: \"bad\" does not name the bad rows", path));
  }
  for (const auto& [name, finding] : findings_of(facts)) {
    const Json& found = member(json, name, Json::value_t::object, path);
    finding->count = json_integer(found, "count", 0, path);
    finding->first = json_string(found, "first", "", path);
  }
  return facts;
}

}  // namespace snug
