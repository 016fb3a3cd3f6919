// What CLI11 does not look at.
#include "cli/argument_checks.h"

#include <cmath>
#include <cstdlib>

namespace snug {

std::string find_emptiness(const std::string& text) {
  return text.empty() ? "it is empty: give a value, or leave it out" : "";
}

std::string find_no_number(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? "Value " + text + " is not a number" : "";
}

}  // namespace snug
