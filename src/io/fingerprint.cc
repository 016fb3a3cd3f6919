// Content hashes by XXH3.
#include "io/fingerprint.h"

#include <fmt/format.h>

#include <array>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace snug {

struct Fingerprint::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Fingerprint::Fingerprint() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh);
}

Fingerprint::~Fingerprint() = default;

void Fingerprint::add_bytes(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

void Fingerprint::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  add_bytes(text);
}

void Fingerprint::add(int64_t number) {
  std::array<char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) {  // the same on every machine
    bytes[i] = static_cast<char>(static_cast<uint64_t>(number) >> (8 * i));
  }
  add_bytes({bytes.data(), bytes.size()});
}

std::string Fingerprint::hex() const {
  XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

uint64_t hash_bytes(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace snug
