// SNUG_CHECK: what must hold if the program is right. It stays on in release builds.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace snug {

[[noreturn]] inline void check_failed(const char* file, int line, const char* condition,
                                      const std::string& message) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold. %s\n", file, line, condition,
               message.c_str());
  std::abort();
}

}  // namespace snug

#define SNUG_CHECK(condition, message)                               \
  do {                                                               \
    if (!(condition)) {                                              \
      ::snug::check_failed(__FILE__, __LINE__, #condition, message); \
    }                                                                \
  } while (false)
