// Files that are no text: known by how they begin, whatever they are called, and with the way out.
#include "data/source/binary.h"

#include "data/data_fixture.h"
#include "data/source/source.h"

namespace snug {
namespace {

using std::string_literals::operator""s;

class BinaryFile : public DataTest {
 protected:
  std::string refusal(const std::string& name, const std::string& bytes) {
    return error_text(ErrorKind::bad_input, [&] { load(name, bytes); });
  }
};

// A member of a zip archive as PKWARE's note describes it: stored, without a checksum.
std::string zip_member(const std::string& name, const std::string& content) {
  auto number = [](size_t value, size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i, value >>= 8) {
      text += static_cast<char>(value);
    }
    return text;
  };
  return "PK\x03\x04"s + number(20, 2) + number(0, 12) + number(content.size(), 4) +
         number(content.size(), 4) + number(name.size(), 2) + number(0, 2) + name + content;
}

TEST_F(BinaryFile, IsNamedWithTheWayOut) {
  // Lengths and types follow the letters in the real ones too.
  std::string message = refusal("train.parquet", "PAR1\x15\x04\x15\x10{\"text\"}"s);
  EXPECT_SAYS(message, "train.parquet: is a Parquet file");
  EXPECT_SAYS(message,
              "pandas.read_parquet('train.parquet').to_json('train.jsonl', orient='records', lines=True)");
  EXPECT_SAYS(refusal("a.jsonl", "PAR1\x15\x04\x15\x10"s), "is a Parquet file");
  EXPECT_SAYS(refusal("a.arrow", "ARROW1\0\0\x10\0\0\0text that is UTF-8"s), "is an Arrow file");
  EXPECT_SAYS(refusal("a.arrow", "\xFF\xFF\xFF\xFF\x10\x01\0\0"s), "datasets.Dataset.from_file('a.arrow')");
  EXPECT_SAYS(refusal("a.db", "SQLite format 3\0\x10\0"s), "is an SQLite database");
  EXPECT_SAYS(refusal("a.pkl", "\x80\x04\x95\x1a\0\0\0"s), "only if you trust it");
  EXPECT_SAYS(refusal("a.npy", "\x93NUMPY\x01\0"s), "holds no rows of text");
  EXPECT_SAYS(refusal("a.pdf", "%PDF-1.7\nplain letters\n"), "pdftotext a.pdf a.txt");
  EXPECT_SAYS(refusal("a.bz2", "BZh91AY&SY\x01\x02"s), "bunzip2 -k a.bz2");
  EXPECT_SAYS(refusal("a.tar", "rows.jsonl" + std::string(247, '\0') + "ustar\0"s + std::string(300, '\0')),
              "is a tar archive");
}

TEST_F(BinaryFile, ZipArchivesAreToldApartByTheirMembers) {
  std::string types = zip_member("[Content_Types].xml", "<Types/>");
  EXPECT_SAYS(refusal("a.xlsx", types + zip_member("xl/workbook.xml", "<workbook/>")),
              "is an Excel workbook, which has to be made text first: python3 -c \"import pandas; "
              "pandas.read_excel('a.xlsx')");
  EXPECT_SAYS(refusal("a.docx", types + zip_member("word/document.xml", "<w/>")), "is a Word document");
  EXPECT_SAYS(refusal("a.pt", zip_member("archive/data.pkl", "x")), "is a PyTorch file");
  EXPECT_SAYS(refusal("a.zip", zip_member("rows.jsonl", "{}")),
              "is a zip archive, which has to be made text first: "
              "unzip a.zip");
}

TEST_F(BinaryFile, UnknownOnesAreNotReadAsText) {
  EXPECT_SAYS(refusal("a.bin", "some\0thing"s), "a.bin: is no text: byte 5 is 0");
  EXPECT_SAYS(refusal("a", "\0\x01\x02"s), "is no text: byte 1 is 0");
}

TEST_F(BinaryFile, TextThatBeginsLikeOneIsText) {
  for (const char* text : {"ORCa ab", "PAR1 is a mark\n", "PKa", "BZh ab", "GGUF ab\n\nab", "Obj ab"}) {
    EXPECT_GE(load("a.txt", text).size(), 1) << text;
  }
}

}  // namespace
}  // namespace snug
