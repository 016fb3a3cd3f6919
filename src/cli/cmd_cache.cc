// snug cache [PLACE...]
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "backend/cuda_plan/card_record.h"
#include "base/bytes.h"
#include "base/error.h"
#include "cli/argument_checks.h"
#include "cli/commands.h"
#include "data/source/files.h"
#include "data/tokens/cache_folder.h"
#include "io/json.h"
#include "io/printable.h"
#include "recipe/parse.h"
#include "report/terminal.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

struct CacheArguments {
  std::vector<std::string> places;
  bool clear = false;
  double unused_days = 0;
  bool json = false;
};

using Folders = std::vector<fs::path>;

void add_folder(Folders& folders, const fs::path& folder) {
  std::error_code ignored;
  fs::path path = fs::weakly_canonical(folder, ignored);
  if (!path.empty() && std::find(folders.begin(), folders.end(), path) == folders.end()) {
    folders.push_back(path);
  }
}

void add_folders_of_recipe(Folders& folders, const std::string& path) {
  for (const Recipe& recipe : read_recipes(path)) {
    if (!recipe.data.cache_dir.empty()) {
      add_folder(folders, recipe.data.cache_dir);
      continue;
    }
    std::vector<std::string> names = recipe.data.eval_file;
    for (const DataFile& file : recipe.data.train_file) {
      names.push_back(file.path);
    }
    for (const std::string& name : names) {
      add_folder(folders, cache_folder_of(find_data_files({name}, {}).front()));
    }
  }
}

// Where to look: a recipe's caches, those beside the data of a folder, or the folder itself.
Folders folders_of(const std::vector<std::string>& places) {
  Folders folders;
  if (places.empty()) {
    add_folder(folders, ".snug");
    add_folder(folders, user_cache_folder());
  }
  for (const std::string& place : places) {
    std::error_code ignored;
    if (fs::is_directory(place, ignored)) {
      fs::path beside = fs::path(place) / ".snug";
      add_folder(folders, fs::is_directory(beside, ignored) ? beside : fs::path(place));
    } else if (fs::is_regular_file(place, ignored)) {
      add_folders_of_recipe(folders, place);
    } else {
      throw bad_input(fmt::format("{}: no such recipe or folder", place));
    }
  }
  return folders;
}

std::string age(double days) {
  return days < 1 ? format_duration(days * 86400) + " ago" : fmt::format("{:.0f} days ago", days);
}

std::string folder_text(const fs::path& folder, const std::vector<CachedTokens>& caches,
                        const std::vector<cuda::CardRecord>& cards, const Style& style) {
  std::string text = fmt::format("  {}\n", style.bold(printable(folder.string())));
  for (const cuda::CardRecord& card : cards) {
    text += fmt::format("  rates of {}, {}, last used {}\n",
                        card.name.empty() ? "a card, not readable" : printable(card.name),
                        format_bytes(card.bytes), age(card.unused_days));
  }
  if (caches.empty()) {
    return text + "  no tokens\n";
  }
  Table table;
  table.header = {"tokens of", "rows", "tokens", "size", "last used", ""};
  for (const CachedTokens& cache : caches) {
    table.rows.push_back({cache.readable ? printable(cache.files, 60) : "?", format_count(cache.rows),
                          format_count(cache.tokens), format_bytes(cache.bytes), age(cache.unused_days),
                          cache.usable ? "" : "of another snug, not used"});
  }
  return text + table.to_text(style);
}

Json folder_json(const fs::path& folder, const std::vector<CachedTokens>& caches,
                 const std::vector<cuda::CardRecord>& cards) {
  Json list = Json::array();
  int64_t bytes = 0;
  for (const CachedTokens& cache : caches) {
    bytes += cache.bytes;
    list.push_back({{"path", cache.path.string()},
                    {"files", cache.files},
                    {"rows", cache.rows},
                    {"tokens", cache.tokens},
                    {"bytes", cache.bytes},
                    {"unused_days", cache.unused_days},
                    {"usable", cache.usable}});
  }
  Json measured = Json::array();
  for (const cuda::CardRecord& card : cards) {
    bytes += card.bytes;
    measured.push_back({{"path", card.path.string()},
                        {"name", card.name},
                        {"bytes", card.bytes},
                        {"unused_days", card.unused_days}});
  }
  return {{"folder", folder.string()}, {"bytes", bytes}, {"caches", list}, {"cards", measured}};
}

int cache_command(const CacheArguments& arguments) {
  Style style = Style::for_stdout();
  Json folders = Json::array();
  int64_t removed_bytes = 0;
  for (const fs::path& folder : folders_of(arguments.places)) {
    if (arguments.clear) {
      removed_bytes += clear_caches(folder, arguments.unused_days) +
                       cuda::clear_card_records(folder, arguments.unused_days);
    }
    std::vector<CachedTokens> caches = list_caches(folder);
    std::vector<cuda::CardRecord> cards = cuda::list_card_records(folder);
    if (arguments.json) {
      folders.push_back(folder_json(folder, caches, cards));
    } else {
      fmt::print("{}\n", folder_text(folder, caches, cards, style));
    }
  }
  if (arguments.json) {
    Json report = {{"folders", folders}, {"removed_bytes", removed_bytes}};
    fmt::print("{}\n", json_text(report));
  } else if (arguments.clear) {
    fmt::print("  {} removed\n", format_bytes(removed_bytes));
  }
  return kExitOk;
}

}  // namespace

void add_cache_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<CacheArguments>();
  CLI::App* command = app.add_subcommand(
      "cache", "What is kept for the next run, tokens and the rates of cards: shows and clears it");
  command->add_option("places", arguments->places,
                      "Recipes, or folders with data or caches; default: here and the user's own cache");
  CLI::Option* clear =
      command->add_flag("--clear", arguments->clear, "Remove them; the next run makes its own again");
  command
      ->add_option("--unused-days", arguments->unused_days,
                   "With --clear: only what was not used for so long")
      ->check(CLI::Range(0.0, 36500.0))
      ->check(find_no_number)
      ->needs(clear);
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "\nCaches go by themselves when tokens are made beside them: after 30 days without\n"
      "use, and the longest unused ones where a folder holds more than 50 GB.\n"
      "\nExamples:\n  snug cache recipes/ship_log.yml\n"
      "  snug cache data --clear --unused-days 7");
  command->callback([arguments, &action] { action = [arguments] { return cache_command(*arguments); }; });
}

}  // namespace snug
