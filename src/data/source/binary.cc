// The table of first bytes.
#include "data/source/binary.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace snug {
namespace {

using std::string_view_literals::operator""sv;

// What to do about it, with {0} for the file's name and {1} for the name without its last ending.
constexpr std::string_view kByPandas =
    "python3 -c \"import pandas; pandas.read_{}('{{0}}').to_json('{{1}}.jsonl', orient='records', "
    "lines=True)\"";
constexpr std::string_view kNoRows = "";
constexpr size_t kLookedAtBytes = 4096;

struct Signature {
  std::string_view bytes;
  size_t offset;
  std::string_view what;
  std::string_view remedy;  // "" if there are no rows to be had
};

const std::vector<Signature>& signatures() {
  static const std::string kParquet = fmt::format(kByPandas, "parquet");
  static const std::string kFeather = fmt::format(kByPandas, "feather");
  static const std::string kExcel = fmt::format(kByPandas, "excel");
  static const std::string kHdf = fmt::format(kByPandas, "hdf");
  static const std::string kOrc = fmt::format(kByPandas, "orc");
  static const std::string kPickle =
      "only if you trust it, for a pickle can run any code: " + fmt::format(kByPandas, "pickle");
  static const std::vector<Signature> kSignatures = {
      {"PAR1"sv, 0, "a Parquet file", kParquet},
      {"ARROW1\0\0"sv, 0, "an Arrow file", kFeather},
      {"FEA1"sv, 0, "a Feather file", kFeather},
      {"\xFF\xFF\xFF\xFF"sv, 0, "an Arrow stream, as the datasets library keeps it",
       "python3 -c \"import datasets; datasets.Dataset.from_file('{0}').to_json('{1}.jsonl')\""},
      {"ORC"sv, 0, "an ORC file", kOrc},
      {"Obj\x01"sv, 0, "an Avro file", "python3 -m fastavro {0} > {1}.jsonl"},
      {"SQLite format 3\0"sv, 0, "an SQLite database", "sqlite3 -json {0} 'SELECT * FROM table' > {1}.json"},
      {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, 0, "an old Office document, such as .xls", kExcel},
      {"%PDF-1."sv, 0, "a PDF document", "pdftotext {0} {1}.txt"},
      {"\x89HDF\r\n\x1A\n"sv, 0, "an HDF5 file", kHdf},
      {"\x93NUMPY"sv, 0, "a NumPy array", kNoRows},
      {"GGUF"sv, 0, "a GGUF model", kNoRows},
      {"\x80\x02"sv, 0, "a Python pickle", kPickle},
      {"\x80\x03"sv, 0, "a Python pickle", kPickle},
      {"\x80\x04\x95"sv, 0, "a Python pickle", kPickle},
      {"\x80\x05\x95"sv, 0, "a Python pickle", kPickle},
      {"BZh"sv, 0, "compressed with bzip2", "bunzip2 -k {0}"},
      {"\xFD"
       "7zXZ\0"sv,
       0, "compressed with xz", "unxz -k {0}"},
      {"\x04\x22\x4D\x18"sv, 0, "compressed with lz4", "unlz4 {0}"},
      {"7z\xBC\xAF\x27\x1C"sv, 0, "a 7z archive", "7z x {0}"},
      {"ustar"sv, 257, "a tar archive", "tar xf {0}"},
      {"\x89PNG\r\n\x1A\n"sv, 0, "a PNG image", kNoRows},
      {"\xFF\xD8\xFF"sv, 0, "a JPEG image", kNoRows},
      {"\x7F"
       "ELF"sv,
       0, "a program", kNoRows},
  };
  return kSignatures;
}

bool is_control(char character) {
  auto byte = static_cast<unsigned char>(character);
  return byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t' && byte != '\f';
}

bool has_control_character(std::string_view bytes) {
  return std::any_of(bytes.begin(), bytes.end(), is_control);
}

// A few letters are no proof: a text may well begin with "ORC".
bool is_few_letters(std::string_view bytes) {
  return bytes.size() < 6 && std::all_of(bytes.begin(), bytes.end(), [](char character) {
           return !is_control(character) && static_cast<unsigned char>(character) < 0x7F;
         });
}

// Many formats are zip archives; the names of their members, which stand in clear, tell them apart.
const std::vector<Signature>& zip_members() {
  static const std::string kExcel = fmt::format(kByPandas, "excel");
  static const std::vector<Signature> kMembers = {
      {"xl/"sv, 0, "an Excel workbook", kExcel},
      {"data.pkl"sv, 0, "a PyTorch file", kNoRows},
      {".npy"sv, 0, "NumPy arrays", kNoRows},
      {"word/"sv, 0, "a Word document", "pandoc {0} -t plain -o {1}.txt"},
      {"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"sv, 0, "an OpenDocument spreadsheet", kExcel},
      {""sv, 0, "a zip archive", "unzip {0}"},
  };
  return kMembers;
}

std::string problem(const Signature& found, const std::string& name) {
  if (found.remedy.empty()) {
    return fmt::format("is {}, which holds no rows of text: give JSONL, CSV or plain text", found.what);
  }
  std::string stem = name.substr(0, name.find_last_of('.'));
  return fmt::format("is {}, which has to be made text first: {}", found.what,
                     fmt::format(fmt::runtime(found.remedy), name, stem));
}

}  // namespace

std::string binary_file_problem(std::string_view start, const std::string& name) {
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    for (const Signature& member : zip_members()) {
      if (start.find(member.bytes) != std::string_view::npos) {
        return problem(member, name);
      }
    }
  }
  for (const Signature& signature : signatures()) {
    bool found = start.substr(std::min(signature.offset, start.size())).starts_with(signature.bytes);
    if (found &&
        (!is_few_letters(signature.bytes) || has_control_character(start.substr(0, kLookedAtBytes)))) {
      return problem(signature, name);
    }
  }
  return "";
}

std::string unreadable_text_problem(std::string_view start) {
  size_t zero = start.substr(0, kLookedAtBytes).find('\0');
  if (zero == std::string_view::npos) {
    return "";
  }
  return fmt::format(
      "is no text: byte {} is 0. If it is UTF-16, convert it with iconv -f utf-16le -t utf-8; else give the "
      "rows as "
      "JSONL",
      zero + 1);
}

}  // namespace snug
