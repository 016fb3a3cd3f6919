// Character classes by utf8proc.
#include "text/character_class.h"

#include <utf8proc.h>

namespace snug {

bool is_white_space(uint32_t codepoint) {
  if ((codepoint >= 0x09 && codepoint <= 0x0D) || codepoint == 0x85) {
    return true;
  }
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(codepoint));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool is_word_character(uint32_t codepoint) {
  utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(codepoint));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NO) ||
         category == UTF8PROC_CATEGORY_PC;
}

}  // namespace snug
