// Small JSON documents (configs, indices, reports). Errors name the file, line and column.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

using Json = nlohmann::ordered_json;  // keys stay in the order in which we write them

// Throws bad_input with `path`, line and column. Duplicate keys and nesting deeper than 100 are errors.
Json parse_json(std::string_view text, const std::string& path);
Json read_json(const std::filesystem::path& path);
// The object of a text; nothing for any other text.
std::optional<Json> find_object(std::string_view text);

// For a report that is printed: paths and prompts need not be UTF-8, JSON has to be. U+FFFD stands for what
// is not. An indent of -1 is one line.
std::string json_text(const Json& json, int indent = 2);

// Typed reading of one key of an object. Throws bad_input naming the path, the key, what was found and
// what is allowed. The forms with a fallback accept an absent key or null.
int64_t json_integer(const Json& object, std::string_view key, const std::string& path);
int64_t json_integer(const Json& object, std::string_view key, int64_t fallback, const std::string& path);
double json_number(const Json& object, std::string_view key, double fallback, const std::string& path);
bool json_bool(const Json& object, std::string_view key, bool fallback, const std::string& path);
std::string json_string(const Json& object, std::string_view key, const std::string& fallback,
                        const std::string& path);

}  // namespace snug
