// From a recipe's text to a Recipe. Every problem stands at "path:line:column: " and says what was found,
// what is allowed, and the nearest known name; all of them are reported in one bad_input, in the order of the
// file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace snug {

// `overrides` are the arguments of --set, "training.learning_rate=1e-4": a dotted key and a YAML value. They
// apply after the text, in order; "lora=null" asks for full fine-tuning.
//
// Paths: data files become relative to the folder of `path`, and so does model.path if that names a folder
// there (else it is kept: it may be a hub id). output_dir stays relative to the current folder. "~/" is the
// home folder everywhere.
//
// A recipe with stages becomes one recipe a stage, in their order; any other becomes one. A plain key of
// `overrides` is set in all stages, "stages.NAME.training.learning_rate=1e-4" in one.
std::vector<Recipe> parse_recipes(std::string_view text, const std::string& path,
                                  const std::vector<std::string>& overrides = {});

// The same for text that has no stages.
Recipe parse_recipe(std::string_view text, const std::string& path,
                    const std::vector<std::string>& overrides = {});

// "-" reads the recipe from standard input; its paths are relative to the current folder.
inline constexpr const char* kStandardInput = "-";
std::string read_recipe_text(const std::filesystem::path& path);
std::vector<Recipe> read_recipes(const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides = {});
Recipe read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

}  // namespace snug
