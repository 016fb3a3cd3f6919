// Facts as JSON and back.
#include "data/table_facts.h"

#include <array>
#include <utility>

namespace snug {
namespace {

// One list of the findings' names, for both directions.
template <typename Facts>
auto findings_of(Facts& facts) {
  return std::array{std::pair{"nothing_learned", &facts.nothing_learned},
                    std::pair{"empty_answers", &facts.empty_answers},
                    std::pair{"wrong_role_order", &facts.wrong_role_order},
                    std::pair{"without_end", &facts.without_end}, std::pair{"duplicates", &facts.duplicates}};
}

}  // namespace

Json TableFacts::to_json() const {
  Json json = {{"files", files},
               {"format", format},
               {"rows", rows},
               {"chat_template", chat_template},
               {"bad_rows", bad_rows},
               {"bad", bad},
               {"end_id", end_id},
               {"decoder_start_id", decoder_start_id},
               {"vocabulary", vocabulary}};
  for (const auto& [name, finding] : findings_of(*this)) {
    json[name] = {{"count", finding->count}, {"first", finding->first}};
  }
  return json;
}

TableFacts TableFacts::from_json(const Json& json, const std::string& path) {
  TableFacts facts;
  facts.files = json_string(json, "files", "", path);
  facts.format = json_string(json, "format", "", path);
  facts.chat_template = json_string(json, "chat_template", "", path);
  facts.rows = json_integer(json, "rows", path);
  facts.bad_rows = json_integer(json, "bad_rows", path);
  facts.vocabulary = json_integer(json, "vocabulary", path);
  facts.end_id = static_cast<int32_t>(json_integer(json, "end_id", path));
  facts.decoder_start_id = static_cast<int32_t>(json_integer(json, "decoder_start_id", path));
  for (const Json& place : json.value("bad", Json::array())) {
    facts.bad.push_back(place.get<std::string>());
  }
  for (const auto& [name, finding] : findings_of(facts)) {
    Json found = json.value(name, Json::object());
    finding->count = json_integer(found, "count", 0, path);
    finding->first = json_string(found, "first", "", path);
  }
  return facts;
}

}  // namespace snug
