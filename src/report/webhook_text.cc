// Bodies, by what Discord and Slack document.
#include "report/webhook_text.h"

#include <fmt/format.h>

#include <string_view>

#include "base/utf8.h"
#include "io/printable.h"
#include "recipe/choices.h"

namespace snug {
namespace {

// Discord takes 2000 characters, and escaping at most doubles them. A telephone shows less.
constexpr size_t kMostBytes = 990;

std::string cut(std::string text) {
  if (text.size() <= kMostBytes) {
    return text;
  }
  text.resize(kMostBytes);
  text.resize(valid_utf8_prefix_bytes(text));
  return text + "…";
}

// Whatever Markdown would take for its own.
std::string escaped_for_discord(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    if (std::string_view("\\*_~`|>#[]()<@:-").find(c) != std::string_view::npos) {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string escaped_for_slack(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    escaped += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  }
  return escaped;
}

}  // namespace

std::string webhook_body(WebhookKind kind, const RunMessage& message, double unix_seconds) {
  std::string text =
      cut(replace_invalid_utf8(printable_lines(fmt::format("{}: {}", message.run, message.text))));
  Json body = Json::object();
  switch (kind) {
    case WebhookKind::discord:
      body["content"] = escaped_for_discord(text);
      body["allowed_mentions"] = {{"parse", Json::array()}};
      body["flags"] = 4;  // no previews of what looks like an address
      break;
    case WebhookKind::slack:
      body["text"] = escaped_for_slack(text);
      body["mrkdwn"] = false;
      body["unfurl_links"] = false;
      break;
    case WebhookKind::json:
      body = message.facts.is_object() ? message.facts : Json::object();
      body["event"] = name_of(message.event);
      body["run"] = message.run;
      body["text"] = text;
      body["time"] = unix_seconds;
      break;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace snug
