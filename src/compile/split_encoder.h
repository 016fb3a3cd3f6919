// Cuts a forward program in two: what depends on the source alone, run once, and the rest, run token by
// token.
#pragma once

#include <string>

#include "program/program.h"

namespace snug {

struct SplitPrograms {
  Program encode;  // everything that does not depend on "ids"
  Program rest;    // keeps its name
};

// What the first half hands to the second (the keys and values of cross attention) becomes persistent, in the
// role of a kv-cache.
SplitPrograms split_encoder(Program forward, const std::string& encode_name);

}  // namespace snug
