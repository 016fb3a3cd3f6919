// Names of formats.
#include "base/format.h"

namespace snug {
namespace {

std::string name_of(Coding coding) {
  switch (coding) {
    case Coding::nf4:
      return "nf4";
    case Coding::fp4:
      return "fp4";
    case Coding::fp8:
      return "fp8";
    case Coding::dynamic:
      return "dynamic";
    case Coding::dynamic_unsigned:
      return "dynamic_unsigned";
    default:
      return "int8";
  }
}

}  // namespace

std::string name_of(const Format& format) {
  if (!format.is_coded()) {
    return std::string(name_of(format.dtype));
  }
  std::string name = name_of(format.coding) + (format.nested ? "_double" : "");
  int32_t usual_block = is_dynamic(format.coding) ? kFirstMoment8bit.block : kNf4.block;
  bool is_usual = format.block == 0 || format.block == usual_block;
  return is_usual ? name : name + " in blocks of " + std::to_string(format.block);
}

}  // namespace snug
