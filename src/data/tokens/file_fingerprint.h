// The fingerprint of a file's content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace snug {

// Told how many bytes of a file were read.
using ByteCounter = std::function<void(int64_t bytes)>;

// Of a file's content. `notes` is a folder where the answer is kept for as long as the file's inode, size and
// times stay the same, so that gigabytes are not read again at every start.
std::string file_fingerprint(const std::filesystem::path& path, const std::filesystem::path& notes,
                             const ByteCounter& count);

}  // namespace snug
