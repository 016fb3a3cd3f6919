// logging.webhooks: who is told of a run, over the network. Where the message goes is a secret (whoever has
// the URL can write there), so a recipe names the place where the URL is, and never has it.
#pragma once

#include "recipe/keys.h"

namespace snug {

RecipeKey webhooks_key();

}  // namespace snug
