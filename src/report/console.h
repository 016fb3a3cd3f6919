// Printing during a run that must not depend on it: a reader that went away (`| head`), a terminal that was
// closed or a full disk behind the standard output end the printing, not the run.
#pragma once

#include <cstdio>
#include <string_view>

namespace snug {

// Writes and flushes; says nothing about failures.
void say(std::string_view text, std::FILE* stream = stdout);

}  // namespace snug
