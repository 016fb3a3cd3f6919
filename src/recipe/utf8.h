// Where text stops being UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace snug {

// The offset of the first byte that is not part of a well-formed character; npos if all is well. Overlong
// forms, surrogates and values above U+10FFFF are not well-formed.
size_t first_invalid_utf8(std::string_view text);

}  // namespace snug
