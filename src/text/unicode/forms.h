// Unicode's normalization forms, letter case and accents, on text that is UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

enum class UnicodeForm : uint8_t { nfc, nfd, nfkc, nfkd };

// Writes the normalized text to `result` and returns true, or returns false where the text has that form
// already.
bool normalize_unicode(std::string_view text, UnicodeForm form, std::string& result);

// Canonical composition. Text that is not UTF-8 gets U+FFFD in the places that are not.
std::string normalize_nfc(std::string_view text);

// One character at a time, without regard to its neighbours.
void lowercase(std::string_view text, std::string& result);
void strip_accents(std::string_view text, std::string& result);  // removes combining marks

}  // namespace snug
