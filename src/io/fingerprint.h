// What tells whether two inputs are the same: 128 bits of a hash over their content. It finds damage and
// change, not forgery.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace snug {

class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;

  // Bytes without a mark of where they end.
  void add_bytes(std::string_view bytes);
  // With their length before them: "ab", "c" is not "a", "bc".
  void add(std::string_view text);
  void add(int64_t number);
  std::string hex() const;  // 32 digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t hash_bytes(std::string_view bytes);

}  // namespace snug
