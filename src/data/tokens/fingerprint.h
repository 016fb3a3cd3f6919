// What tells whether two inputs are the same: 128 bits of a hash over their content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

// Told how many bytes of a file were read.
using ByteCounter = std::function<void(int64_t bytes)>;

// Of a file's content. `notes` is a folder where the answer is kept for as long as the file's inode, size and
// times stay the same, so that gigabytes are not read again at every start.
std::string file_fingerprint(const std::filesystem::path& path, const std::filesystem::path& notes,
                             const ByteCounter& count);

}  // namespace snug
