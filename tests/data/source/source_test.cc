// Reading data files in chunks: kinds, compression, borders of rows, errors.
#include "data/source/source.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "data/source/scanner.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string gzip(const std::string& text) {
  z_stream state = {};
  EXPECT_EQ(deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

struct FoundRow {
  std::string text;
  int64_t line;
  int64_t row;
  int64_t offset;
};

std::vector<FoundRow> read_all(const std::vector<fs::path>& files, SourceOptions options = {}) {
  RowSource source(files, options);
  std::vector<FoundRow> rows;
  int64_t index = 0;
  while (std::optional<RowChunk> chunk = source.next()) {
    EXPECT_EQ(chunk->index, index++);
    for (size_t i = 0; i < chunk->rows.size(); ++i) {
      rows.push_back({std::string(chunk->row(i)), chunk->rows[i].line,
                      chunk->first_row + static_cast<int64_t>(i),
                      chunk->byte_offset + static_cast<int64_t>(chunk->rows[i].offset)});
    }
  }
  return rows;
}

Strings texts(const std::vector<FoundRow>& rows) {
  Strings result;
  for (const FoundRow& row : rows) {
    result.push_back(row.text);
  }
  return result;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class SourceTest : public testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& bytes) {
    write(folder_ / name, bytes);
    return folder_ / name;
  }
  TemporaryFolder folder_;
};

// Whatever the size of the chunks, the rows and their places are the same.
TEST_F(SourceTest, ChunkBordersDoNotMatter) {
  const std::pair<const char*, std::string> kFiles[] = {
      {"a.jsonl", "\xEF\xBB\xBF{\"a\": 1}\r\n\n  \n{\"b\": \"x\\n\"}\n{\"c\": 3}"},
      {"a.json", " [ {\"a\": [1, \"]\\\"}\"]},\n{\"b\": 2} , 3\n]\n"},
      {"a.csv", "q,a\r\n\"one\r\ntwo\",\"say \"\"hi\"\"\"\r\n\nplain,5\"\n,\n\"\",x"},
      {"a.txt", "one\ntwo\n\n\n \t\nthree\r\nfour\r\n\r\nfive"},
      {"a.tsv", "q\ta\nx, y\t1\n\"t\tab\"\t2\n"},
  };
  for (const auto& [name, bytes] : kFiles) {
    fs::path path = file(name, bytes);
    std::vector<FoundRow> whole = read_all({path});
    EXPECT_GE(whole.size(), 2U) << name;
    for (size_t chunk = 1; chunk < 40; ++chunk) {
      std::vector<FoundRow> cut = read_all({path}, {.kind = {}, .chunk_bytes = chunk});
      ASSERT_EQ(texts(cut), texts(whole)) << name << " by " << chunk;
      for (size_t i = 0; i < cut.size(); ++i) {
        EXPECT_EQ(cut[i].line, whole[i].line) << name << " by " << chunk;
        EXPECT_EQ(cut[i].row, static_cast<int64_t>(i));
        EXPECT_EQ(bytes.substr(static_cast<size_t>(cut[i].offset), cut[i].text.size()), cut[i].text);
      }
    }
  }
}

TEST_F(SourceTest, LinesAndPlaces) {
  std::vector<FoundRow> rows = read_all({file("a.jsonl", "{1}\r\n\n  \n{2}\n{3}")});
  EXPECT_EQ(texts(rows), (Strings{"{1}", "{2}", "{3}"}));
  EXPECT_EQ(rows[1].line, 4);
  EXPECT_EQ(rows[1].offset, 9);
}

TEST_F(SourceTest, ElementsOfAList) {
  std::vector<FoundRow> rows = read_all({file("a.json", "[{\"a\": \"}],\\\"\"},\n\n {\"b\": [[]]}, 5 ]")});
  EXPECT_EQ(texts(rows), (Strings{"{\"a\": \"}],\\\"\"}", "{\"b\": [[]]}", "5 "}));
  EXPECT_EQ(rows[1].line, 3);
}

TEST_F(SourceTest, RecordsKeepLineEndsInQuotes) {
  std::vector<FoundRow> rows = read_all({file("a.csv", "q,a\n\"one\ntwo\",x\n\nb,\"c\"\"\n\"\n")});
  EXPECT_EQ(texts(rows), (Strings{"\"one\ntwo\",x", "b,\"c\"\"\n\""}));
  EXPECT_EQ(rows[0].line, 2);
  EXPECT_EQ(rows[1].line, 5);
}

TEST_F(SourceTest, Paragraphs) {
  std::vector<FoundRow> rows = read_all({file("a.txt", "\n\none\ntwo\n \nthree\n")});
  EXPECT_EQ(texts(rows), (Strings{"one\ntwo", "three"}));
  EXPECT_EQ(rows[0].line, 3);
  EXPECT_EQ(rows[1].line, 6);
  rows = read_all({file("b.txt", "one\ntwo\n\nthree")}, {.kind = FileKind::text_lines});
  EXPECT_EQ(texts(rows), (Strings{"one", "two", "three"}));
}

TEST_F(SourceTest, CompressedByContent) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += "{\"text\": \"row " + std::to_string(i) + "\"}\n";
  }
  Strings plain = texts(read_all({file("a.jsonl", text)}));
  ASSERT_EQ(plain.size(), 20'000U);
  EXPECT_EQ(texts(read_all({file("a.jsonl.gz", gzip(text))})), plain);
  EXPECT_EQ(texts(read_all({file("a.jsonl.zst", zstd(text))})), plain);
  EXPECT_EQ(texts(read_all({file("named_wrongly.jsonl", gzip(text))})), plain);
  std::string half1 = text.substr(0, text.size() / 2);
  std::string half2 = text.substr(text.size() / 2);
  EXPECT_EQ(texts(read_all({file("two.jsonl.gz", gzip(half1) + gzip(half2))})), plain);
  EXPECT_EQ(texts(read_all({file("two.jsonl.zst", zstd(half1) + zstd(half2))})), plain);

  std::string packed = gzip(text);
  fs::path cut = file("cut.gz", packed.substr(0, packed.size() / 2));
  EXPECT_NE(error_of([&] { read_all({cut}); }).find("cut.gz: the gzip data is damaged or cut off"),
            std::string::npos);
  packed = zstd(text);
  cut = file("cut.zst", packed.substr(0, packed.size() - 5));
  EXPECT_NE(error_of([&] { read_all({cut}); }).find("cut.zst: the zstd data is damaged or cut off"),
            std::string::npos);
}

TEST_F(SourceTest, SeveralFiles) {
  file("b.jsonl", "{2}\n");
  file("a.jsonl", "{1}\n");
  file("c.txt", "three");
  Strings patterns = {"*.jsonl", "c.txt", "a.jsonl"};
  std::vector<fs::path> files = find_data_files(patterns, folder_.path());
  EXPECT_EQ(texts(read_all(files)), (Strings{"{1}", "{2}", "three"}));
  EXPECT_NE(error_of([&] { find_data_files({"*.parquet"}, folder_.path()); }).find("no file matches"),
            std::string::npos);
}

TEST_F(SourceTest, Errors) {
  auto error = [&](const char* name, const std::string& bytes) {
    fs::path path = file(name, bytes);
    return error_of([&] { read_all({path}, {.kind = {}, .chunk_bytes = 16, .max_row_bytes = 1000}); });
  };
  EXPECT_NE(error("empty.jsonl", " \n\n").find("is empty"), std::string::npos);
  EXPECT_NE(error("a.json", "[{1}, {2}").find("']' is missing"), std::string::npos);
  EXPECT_NE(error("a.json", "[{1}] x").find("more text after"), std::string::npos);
  EXPECT_NE(
      error("a.jsonl", "{1}\n{" + std::string(5'000'000, 'x')).find(":2: a row begins here that is larger"),
      std::string::npos);
  EXPECT_NE(error("a.csv", "a,b,a\n1,2,3\n").find("\"a\" is there twice"), std::string::npos);
  EXPECT_NE(error("a.jsonl", "\xFF\xFE{").find("UTF-16"), std::string::npos);
  EXPECT_NE(error_of([&] { read_all({folder_.path()}); }).find("is a folder"), std::string::npos);
  EXPECT_NE(error_of([&] { read_all({folder_ / "none"}); }).find("cannot be read: No such file"),
            std::string::npos);
}

// Links that go in circles stand for a file that this user may not read: root may read all of them.
TEST_F(SourceTest, AFileThatIsThereAndCannotBeOpenedIsNoFaultOfTheRecipe) {
  std::filesystem::path loop = folder_ / "loop.jsonl";
  std::filesystem::create_symlink(loop, loop);
  try {
    open_byte_stream(loop);
    FAIL() << "it was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment) << error.what();
    EXPECT_NE(std::string(error.what()).find("loop.jsonl: cannot be read: "), std::string::npos);
  }
}

TEST_F(SourceTest, NoticesAFileThatGrows) {
  std::string text;
  while (text.size() < 3'000'000) {
    text += "{\"text\": \"row\"}\n";
  }
  fs::path path = file("a.jsonl", text);
  RowSource source({path}, {.kind = {}, .chunk_bytes = 1000});
  ASSERT_TRUE(source.next().has_value());
  std::ofstream(path, std::ios::app) << "{}\n";
  std::string error = error_of([&] {
    while (source.next()) {
    }
  });
  EXPECT_NE(error.find("changed while it was read"), std::string::npos) << error;
}

}  // namespace
}  // namespace snug
