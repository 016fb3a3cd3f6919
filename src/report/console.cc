// fmt::print throws where a write fails; this does not.
#include "report/console.h"

namespace snug {

void say(std::string_view text, std::FILE* stream) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
  std::clearerr(stream);
}

}  // namespace snug
