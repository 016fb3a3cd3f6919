// Splitting a model's tensors into files of Hugging Face's usual size, with their index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/disk_space.h"
#include "io/safetensors.h"

namespace snug {

// Writes the tensors to model.safetensors, or above 5 GB to numbered shards and their index. `write_data`
// gets the index of a tensor and the writer to stream its bytes to; it is called once a tensor, in order.
void write_shards(const std::filesystem::path& folder, const std::vector<SafetensorsWriter::Entry>& tensors,
                  const std::function<void(size_t tensor, SafetensorsWriter& writer)>& write_data);

// The files that write_shards makes, the index included. Headers are taken a little too large.
std::vector<PlannedFile> shard_files(const std::vector<SafetensorsWriter::Entry>& tensors);

// Of a safetensors file that holds these, likewise.
int64_t file_bytes(const std::vector<SafetensorsWriter::Entry>& tensors);

int64_t bytes_of(const SafetensorsWriter::Entry& tensor);

}  // namespace snug
