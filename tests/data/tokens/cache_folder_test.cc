// What lies in a folder of caches, what goes by itself, and that the program's own ways are part of their
// names.
#include "data/tokens/cache_folder.h"

#include <chrono>

#include "data/data_fixture.h"
#include "data/tokens/cache.h"
#include "data/tokens/encoding_version.h"
#include "test_paths.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

class CacheFolder : public DataTest {
 protected:
  // A file with a cache's name that was last used so long ago.
  fs::path cache(char digit, double unused_days, uintmax_t bytes = 100) const {
    fs::path path = folder_ / (std::string(32, digit) + ".tokens");
    write_raw(path, "");
    fs::resize_file(path, bytes);
    set_age(path, unused_days);
    return path;
  }
  static void set_age(const fs::path& path, double days) {
    auto age = std::chrono::duration<double, std::ratio<86400>>(days);
    fs::last_write_time(path, fs::file_time_type::clock::now() -
                                  std::chrono::duration_cast<fs::file_time_type::duration>(age));
  }
};

TEST_F(CacheFolder, OldOnesGoByAge) {
  fs::path fresh = cache('a', 1);
  fs::path old = cache('b', 31);
  fs::path kept = cache('c', 90);
  write_raw(folder_ / "mine.tokens", "a file of somebody else");
  set_age(folder_ / "mine.tokens", 400);
  remove_old_caches(folder_.path(), kept);
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(kept)) << "just made";
  EXPECT_TRUE(fs::exists(folder_ / "mine.tokens"));
}

TEST_F(CacheFolder, TheLongestUnusedGoBySize) {
  fs::path made = cache('a', 0, 4000);
  fs::path second = cache('b', 1, 4000);
  fs::path third = cache('c', 2, 4000);
  fs::path fourth = cache('d', 3, 1000);
  remove_old_caches(folder_.path(), made, {.unused_days = 30, .folder_bytes = 10000});
  EXPECT_TRUE(fs::exists(made));
  EXPECT_TRUE(fs::exists(second));
  EXPECT_FALSE(fs::exists(third)) << "12,000 bytes with it";
  EXPECT_TRUE(fs::exists(fourth)) << "9,000 with it";
}

TEST_F(CacheFolder, MakingTokensRemovesWhatIsOldAndUsingThemKeepsThem) {
  std::string path = file("d.jsonl", "{\"text\": \"abc ab\"}\n");
  recipe_.data.cache_dir = folder_.path().string();
  table_of(path);
  fs::path made = files_ending(folder_.path(), ".tokens").at(0);
  set_age(made, 60);
  table_of(path);  // used
  fs::path old = cache('b', 60);
  table_of(file("e.jsonl", "{\"text\": \"c\"}\n"));
  EXPECT_TRUE(fs::exists(made));
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(CacheFolder, IsListedAndCleared) {
  recipe_.data.cache_dir = folder_.path().string();
  table_of(file("d.jsonl", "{\"text\": \"abc ab\"}\n{\"text\": \"c\"}\n"));
  fs::path broken = cache('b', 10);
  std::vector<CachedTokens> caches = list_caches(folder_.path());
  ASSERT_EQ(caches.size(), 2U);
  EXPECT_EQ(caches[0].files, "d.jsonl");
  EXPECT_EQ(caches[0].rows, 2);
  EXPECT_EQ(caches[0].tokens, 5) << "abc, ab and c, and an end each";
  EXPECT_TRUE(caches[0].usable);
  EXPECT_LT(caches[0].unused_days, 1);
  EXPECT_FALSE(caches[1].readable);
  EXPECT_NEAR(caches[1].unused_days, 10, 1);
  EXPECT_EQ(clear_caches(folder_.path(), 5), 100);
  EXPECT_EQ(list_caches(folder_.path()).size(), 1U);
  EXPECT_EQ(clear_caches(folder_.path()), caches[0].bytes);
  EXPECT_TRUE(list_caches(folder_.path()).empty());
  EXPECT_TRUE(list_caches(folder_ / "none").empty());
}

// The script that hashes the sources by which rows become tokens, run by itself over others.
class EncodingVersion : public testing::Test {
 protected:
  std::string version_of(const std::string& source, const std::string& versions = "library 1") const {
    write_raw(folder_ / "a.cc", source);
    write_raw(folder_ / "b.cc", "the other");
    fs::path output = folder_ / "version.cc";
    std::string command = "cmake '-DOUTPUT=" + output.string() +
                          "' '-DSOURCES=" + (folder_ / "a.cc").string() + ";" + (folder_ / "b.cc").string() +
                          "' -DHEADER=a.h -DCONSTANT=kVersion '-DVERSIONS=" + versions +
                          "' -P " SNUG_SOURCE_DIR "/cmake/SnugSourceHash.cmake";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read_raw(output);
  }

  TemporaryFolder folder_;
};

TEST_F(EncodingVersion, FollowsTheSourcesAndTheLibraries) {
  std::string first = version_of("int a = 1;\n");
  EXPECT_EQ(version_of("int a = 1;\n"), first);
  EXPECT_NE(version_of("int a = 2;\n"), first);
  EXPECT_NE(version_of("int a = 1;\n", "library 2"), first);
}

TEST_F(EncodingVersion, IsAHash) {
  EXPECT_EQ(std::string(kEncodingVersion).size(), 64U);
}

// Tokens that another program made are made anew: its way is part of what the name is made from.
TEST_F(CacheFolder, WhatAnotherProgramMadeIsNotUsable) {
  TokenCacheWriter writer(folder_ / (std::string(32, 'e') + ".tokens"));
  writer.add(make_example({1, 2}, 0));
  TableFacts facts;
  facts.encoding = std::string(64, '0');
  writer.finish(facts);
  std::vector<CachedTokens> caches = list_caches(folder_.path());
  ASSERT_EQ(caches.size(), 1U);
  EXPECT_TRUE(caches[0].readable);
  EXPECT_FALSE(caches[0].usable);
}

}  // namespace
}  // namespace snug
