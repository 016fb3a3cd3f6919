// A whole file as bytes, unpacked where it is compressed with gzip.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace snug {

// `max_bytes` bounds what a damaged or hostile file can unpack to. Throws Error naming the file and the
// cause.
std::string read_packed_file(const std::filesystem::path& path, int64_t max_bytes = int64_t{256} << 20);

}  // namespace snug
