// Model folders: single file, shards and their index, and folders that hold something else.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "io/file_fixtures.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "test_paths.h"

namespace snug {
namespace {

// A file with one tensor of bytes.
std::string one_tensor(const std::string& name, const std::string& data) {
  std::string size = std::to_string(data.size());
  return safetensors_bytes(
      "{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + size + "],\"data_offsets\":[0," + size + "]}}",
      data);
}

std::string refusal(const std::filesystem::path& path) {
  return error_text(ErrorKind::bad_input, [&] { open_safetensors(path); });
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr const char* kIndexName = "model.safetensors.index.json";

// Two shards and their index.
void write_sharded(const TemporaryFolder& folder) {
  write_raw(folder / "model-1.safetensors", one_tensor("a", "first"));
  write_raw(folder / "model-2.safetensors", one_tensor("b", "second"));
  write_raw(folder / kIndexName, R"({"metadata":{"total_size":11},
      "weight_map":{"b":"model-2.safetensors","a":"model-1.safetensors"}})");
}

TEST(SafetensorsFolder, OpensFolderFileAndIndex) {
  TemporaryFolder single;
  write_raw(single / "model.safetensors", one_tensor("w", "data"));
  EXPECT_EQ(stored_text(open_safetensors(single.path()).find("w")), "data");
  EXPECT_EQ(stored_text(open_safetensors(single / "model.safetensors").find("w")), "data");

  TemporaryFolder sharded;
  write_sharded(sharded);
  for (const std::filesystem::path& path : {sharded.path(), sharded / kIndexName}) {
    TensorSource set = open_safetensors(path);
    EXPECT_EQ(set.names(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(set.stored_bytes(), 11);
    EXPECT_EQ(stored_text(set.find("a")), "first");
    EXPECT_EQ(stored_text(set.find("b")), "second");
    EXPECT_EQ(set.find("b").file(), (sharded / "model-2.safetensors").string());
    set.find("a").release();
    set.find("b").release();
    EXPECT_EQ(stored_text(set.find("b")), "second");
  }
}

TEST(SafetensorsFolder, FollowsLinksAsDownloadCachesUseThem) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "blobs");
  std::filesystem::create_directories(folder / "snapshot");
  write_raw(folder / "blobs/0123", one_tensor("w", "data"));
  std::filesystem::create_symlink("../blobs/0123", folder / "snapshot/model.safetensors");
  EXPECT_EQ(stored_text(open_safetensors(folder / "snapshot").find("w")), "data");
}

TEST(SafetensorsFolder, MissingShardsAreCountedAndNamed) {
  TemporaryFolder folder;
  write_sharded(folder);
  std::filesystem::remove(folder / "model-2.safetensors");
  std::string message = refusal(folder.path());
  EXPECT_SAYS(message, "1 of 2 shards is missing: model-2.safetensors");
  std::filesystem::remove(folder / "model-1.safetensors");
  EXPECT_SAYS(refusal(folder.path()), "2 of 2 shards are missing: model-1.safetensors, model-2.safetensors");
}

TEST(SafetensorsFolder, ATensorThatItsShardDoesNotHold) {
  TemporaryFolder folder;
  write_sharded(folder);
  write_raw(folder / "model-2.safetensors", one_tensor("c", "second"));
  std::string message = refusal(folder.path());
  EXPECT_SAYS(message, "tensor \"b\" is said to be in model-2.safetensors, which does not hold it");
}

TEST(SafetensorsFolder, ADamagedShardIsNamed) {
  TemporaryFolder folder;
  write_sharded(folder);
  std::filesystem::resize_file(folder / "model-2.safetensors",
                               std::filesystem::file_size(folder / "model-2.safetensors") - 1);
  EXPECT_SAYS(refusal(folder.path()), "model-2.safetensors: truncated");
}

TEST(SafetensorsFolder, ShardsOutsideTheFolderAreRefused) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "inner");
  write_raw(folder / "secret.safetensors", one_tensor("a", "x"));
  for (const std::string& shard :
       {std::string("../secret.safetensors"), (folder / "secret.safetensors").string(), std::string(""),
        std::string(".."), std::string("sub/../../secret.safetensors"), std::string("x\\\\y.safetensors"),
        std::string("a\\u0000b.safetensors")}) {
    write_raw(folder / "inner/model.safetensors.index.json", "{\"weight_map\":{\"a\":\"" + shard + "\"}}");
    EXPECT_SAYS(refusal(folder / "inner"), "plain file name");
  }
}

TEST(SafetensorsFolder, BrokenIndicesAreRefused) {
  TemporaryFolder folder;
  for (const char* index :
       {"{}", "[]", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})",
        R"({"weight_map":{"a":"s.safetensors","a":"t.safetensors"}})", "{"}) {
    write_raw(folder / kIndexName, index);
    EXPECT_SAYS(refusal(folder.path()), kIndexName);
  }
  write_raw(folder / kIndexName, R"({"weight_map":{"a":"pytorch_model-1.bin"}})");
  EXPECT_SAYS(refusal(folder.path()), "pickle");
}

TEST(SafetensorsFolder, PicklesAreRefusedWithTheReasonAndTheWayOut) {
  TemporaryFolder folder;
  write_raw(folder / "pytorch_model.bin", "PK");
  for (const std::filesystem::path& path : {folder.path(), folder / "pytorch_model.bin"}) {
    std::string message = refusal(path);
    EXPECT_SAYS(message, "pytorch_model.bin");
    EXPECT_SAYS(message, "can run any code");
    EXPECT_SAYS(message, "safe_serialization=True");
  }
}

TEST(SafetensorsFolder, WhatIsNotThere) {
  TemporaryFolder folder;
  EXPECT_SAYS(refusal(folder.path()), "holds neither model.safetensors nor model.safetensors.index.json");
  EXPECT_SAYS(refusal(folder / "absent"), "no such file or folder");
  write_raw(folder / "model-00001-of-00002.safetensors", one_tensor("a", "x"));
  EXPECT_SAYS(refusal(folder.path()), "index");
  write_raw(folder / "empty.safetensors", "");
  EXPECT_SAYS(refusal(folder / "empty.safetensors"), "truncated");
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  TemporaryFolder folder;
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { MappedFile file(folder.path()); }), "is a folder");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { MappedFile file(folder / "absent"); }), "no such file");
  EXPECT_SAYS(error_text(ErrorKind::bad_input, [&] { MappedFile file("/dev/null"); }), "not a file");
}

// Resident pages of the mapping that holds `address`, in kB, as the kernel counts them.
int64_t resident_kilobytes(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(maps, line)) {
    unsigned long long first = 0;
    unsigned long long last = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &last) == 2) {
      auto wanted = reinterpret_cast<uintptr_t>(address);
      inside = first <= wanted && wanted < last;
    }
    long long kilobytes = 0;
    if (inside && std::sscanf(line.c_str(), "Rss: %lld kB", &kilobytes) == 1) {
      return kilobytes;
    }
  }
  return -1;
}

TEST(MappedFile, ReleasedPagesLeaveMemoryAndComeBack) {
  TemporaryFolder folder;
  std::string content(4 << 20, 'r');
  write_raw(folder / "big", content);
  MappedFile file(folder / "big");
  ASSERT_EQ(text_of(file.bytes()), content);
  if (resident_kilobytes(file.bytes().data()) < 4096) {
    GTEST_SKIP() << "the kernel does not report resident pages here";
  }
  file.release(file.bytes());
  EXPECT_EQ(resident_kilobytes(file.bytes().data()), 0);
  EXPECT_EQ(text_of(file.bytes()), content);
}

TEST(SafetensorsFolder, OpensARealModel) {
  std::filesystem::path model = SNUG_SOURCE_DIR "/../shared/data/models/tinystories-656k";
  if (!std::filesystem::exists(model)) {
    GTEST_SKIP() << model << " is not there";
  }
  TensorSource set = open_safetensors(model);
  EXPECT_EQ(set.names().size(), 20U);
  EXPECT_EQ(set.stored_bytes(), 2624000);
  EXPECT_EQ(set.find("lm_head.weight").shape(), (std::vector<int64_t>{2048, 128}));
  EXPECT_EQ(set.find("model.norm.weight").stored_bytes(), 512);
  EXPECT_EQ(set.find("model.layers.1.self_attn.k_proj.weight").dtype(), DType::f32);
}

}  // namespace
}  // namespace snug
