// A model's config.json from arbitrary bytes: reading it ends in a ModelSpec or in an Error. A small spec is
// also built, because its program must keep every rule whatever the config said.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "model/model_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    snug::ModelSpec spec =
        snug::parse_model_config({reinterpret_cast<const char*>(data), size}, "config.json");
    if (spec.all_layers() <= 4 && snug::first_of<snug::Attention>(spec.decoder).head_dim <= 1024) {
      snug::build_forward(spec, {.dtype = snug::DType::f32, .max_tokens = 3, .max_sequences = 2});
    }
  } catch (const snug::Error& error) {
    SNUG_CHECK(error.kind() == snug::ErrorKind::bad_input, error.what());
  }
  return 0;
}
