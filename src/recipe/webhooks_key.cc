// Reading entries; no message repeats a value that may be a URL.
#include "recipe/webhooks_key.h"

#include <algorithm>
#include <utility>

#include "recipe/choices.h"
#include "recipe/key_types.h"

namespace snug {
namespace {

constexpr size_t kMostWebhooks = 16;

BadValue refuse_url(const YamlNode& where) {
  return {.where = where,
          .element = std::nullopt,
          .did_you_mean = "",
          .remedy =
              "the URL of a webhook is a secret, and recipes are kept with every run. Put it into an "
              "environment variable and name that, as in {kind: discord, url_env: DISCORD_WEBHOOK}, "
              "or into a file of yours, as in {kind: slack, url_file: ~/.slack_webhook}",
          .is_secret = true};
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_variable_name(const std::string& text) {
  return !text.empty() && is_letter(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::optional<BadValue> read_kind(const YamlNode& node, WebhookKind& kind) {
  size_t index = 0;
  std::optional<BadValue> bad = read_choice(node, names_in(kWebhookKinds), index);
  kind = kWebhookKinds[index].second;
  return bad;
}

std::optional<BadValue> read_events(const YamlNode& node, std::vector<WebhookEvent>& events) {
  std::vector<std::string> names;
  if (std::optional<BadValue> bad = read_text_or_list(node, names)) {
    return bad;
  }
  events.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    size_t index = 0;
    const YamlNode& element = is_list(node) ? node.value->items[i] : node;
    if (std::optional<BadValue> bad = read_choice(element, names_in(kWebhookEvents), index)) {
      return bad;
    }
    events.push_back(kWebhookEvents[index].second);
  }
  return std::nullopt;
}

std::optional<BadValue> read_webhook(const YamlNode& node, Webhook& webhook) {
  const std::vector<YamlNode>& items = node.value->items;
  bool has_kind = false;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const YamlNode& name = items[i];
    const YamlNode& value = items[i + 1];
    const std::string& key = name.value->text;
    std::optional<BadValue> wrong;
    if (key == "kind") {
      wrong = read_kind(value, webhook.kind);
      has_kind = true;
    } else if (key == "events") {
      wrong = read_events(value, webhook.events);
    } else if (key == "url_env") {
      bool is_read = !read_text(value, webhook.url_env) && is_variable_name(webhook.url_env);
      wrong = is_read ? std::nullopt : std::optional(refuse_url(value));
    } else if (key == "url_file") {
      bool is_read = !read_text(value, webhook.url_file) && webhook.url_file.find("://") == std::string::npos;
      wrong = is_read ? std::nullopt : std::optional(refuse_url(value));
    } else if (key.find("url") != std::string::npos) {
      wrong = refuse_url(value);
    } else {
      wrong = BadValue{.where = name, .element = std::nullopt, .did_you_mean = ""};
    }
    if (wrong) {
      return wrong;
    }
  }
  bool has_one_place = webhook.url_env.empty() != webhook.url_file.empty();
  return has_kind && has_one_place
             ? std::nullopt
             : std::optional(BadValue{.where = node, .element = std::nullopt, .did_you_mean = ""});
}

std::optional<BadValue> read_webhooks(const YamlNode& node, std::vector<Webhook>& out) {
  if (is_null(node)) {
    out.clear();
    return std::nullopt;
  }
  if (!is_list(node)) {
    return refuse_url(node);
  }
  const std::vector<YamlNode>& items = node.value->items;
  std::vector<Webhook> webhooks;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i >= kMostWebhooks) {
      return BadValue{.where = node, .element = std::nullopt, .did_you_mean = ""};
    }
    if (items[i].value->kind != YamlValue::Kind::map) {
      return refuse_url(items[i]);
    }
    if (std::optional<BadValue> wrong = read_webhook(items[i], webhooks.emplace_back())) {
      wrong->element = i;
      return wrong;
    }
  }
  out = std::move(webhooks);
  return std::nullopt;
}

Json webhooks_json(const std::vector<Webhook>& webhooks) {
  Json list = Json::array();
  for (const Webhook& webhook : webhooks) {
    Json& entry = list.emplace_back(Json::object());
    entry["kind"] = name_of(webhook.kind);
    entry[webhook.url_env.empty() ? "url_file" : "url_env"] =
        webhook.url_env.empty() ? webhook.url_file : webhook.url_env;
    if (webhook.events != Webhook().events) {
      for (WebhookEvent event : webhook.events) {
        entry["events"].push_back(name_of(event));
      }
    }
  }
  return webhooks.empty() ? Json() : list;
}

}  // namespace

RecipeKey webhooks_key() {
  RecipeKey key{
      .name = "logging.webhooks",
      .allowed = fmt::format("a list of {{kind: {}, url_env or url_file, events: some of {}}}, or null",
                             allowed_text(names_in(kWebhookKinds)), allowed_text(names_in(kWebhookEvents))),
      .example =
          "[{kind: discord, url_env: DISCORD_WEBHOOK}, {kind: json, url_file: ~/.webhook, "
          "events: [trouble, failure]}]",
      .help =
          "Who is [told of the run](runs.md#messages). The URL is a secret: it stands in the "
          "environment variable or in the file that is named here, and nowhere in the run's "
          "folder. Without `events` all of them are told."};
  key.read = [](const YamlNode& node, Recipe& recipe) {
    return read_webhooks(node, recipe.logging.webhooks);
  };
  key.print = [](const Recipe& recipe) { return webhooks_json(recipe.logging.webhooks); };
  return key;
}

}  // namespace snug
