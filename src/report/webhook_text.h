// What a webhook is told, in the words of each kind.
#pragma once

#include <string>

#include "io/json.h"
#include "recipe/recipe.h"

namespace snug {

struct RunMessage {
  WebhookEvent event = WebhookEvent::start;
  std::string run;   // its name
  std::string text;  // what a person reads; of errors and files too, so it is not trusted
  Json facts = {};   // the same for programs
};

// The body of the request. Nobody is mentioned and nothing is formatted by what a text has in it.
std::string webhook_body(WebhookKind kind, const RunMessage& message, double unix_seconds);

}  // namespace snug
