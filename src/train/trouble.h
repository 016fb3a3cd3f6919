// What can go wrong in a run that goes on: each kind has a name and a remedy.
#pragma once

#include <string>
#include <string_view>

namespace snug {

struct Trouble {
  std::string_view name;  // of its kind: "loss is not finite"
  std::string what;       // the facts, with the step
  std::string remedy;     // whole sentences
  // Whether the rest of the run is worth nothing: training.on_trouble: stop ends it then.
  bool is_fatal = false;

  std::string text() const { return what + ". " + remedy; }
};

}  // namespace snug
