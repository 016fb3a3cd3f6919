// safetensors: headers laid out by hand, every way in which a file can lie, and the round trip.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "io/file_fixtures.h"
#include "io/json.h"
#include "io/safetensors.h"

namespace snug {
namespace {

SafetensorsHeader parse(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), static_cast<int64_t>(bytes.size()),
                                  "m.st");
}

std::string refusal(const std::string& bytes) {
  std::string message = error_text(ErrorKind::bad_input, [&] { parse(bytes); });
  EXPECT_TRUE(message.starts_with("m.st")) << message;
  return message;
}

// One entry of a header.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, int64_t begin,
                  int64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype, shape, begin,
                     end);
}

// Every byte written out here, none by the program: 1.0 and -2.0 in fp32, then 1.0 and 0.5 in bf16.
TEST(Safetensors, ReadsAFileWrittenByteByByte) {
  TemporaryFolder folder;
  std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"shape":[2],"data_offsets":[8,12],"dtype":"BF16"},"e":{"dtype":"I64","shape":[0,3],"data_offsets":[12,12]},)"
      R"("s":{"dtype":"U8","shape":[],"data_offsets":[12,13]}}  )";
  const unsigned char data[] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0, 0x80, 0x3f, 0x00, 0x3f, 0x2a};
  write_raw(folder / "f.safetensors",
            safetensors_bytes(header, std::string(reinterpret_cast<const char*>(data), sizeof data)));

  TensorSource set = open_safetensors(folder / "f.safetensors");
  EXPECT_EQ(set.names(), (std::vector<std::string>{"b", "e", "s", "w"}));
  EXPECT_EQ(set.stored_bytes(), 13);
  EXPECT_TRUE(set.contains("w"));
  EXPECT_FALSE(set.contains("x"));
  const SourceTensor& w = set.find("w");
  EXPECT_EQ(w.dtype(), DType::f32);
  EXPECT_EQ(w.shape(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(w.file(), (folder / "f.safetensors").string());
  float values[2];
  EXPECT_EQ(w.elements(), 2);
  w.read(0, 2, DType::f32, values);
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], -2.0F);
  const SourceTensor& b = set.find("b");
  EXPECT_EQ(b.dtype(), DType::bf16);
  EXPECT_EQ(stored_text(b), std::string("\x80\x3f\x00\x3f", 4));
  b.read(1, 1, DType::f32, values);
  EXPECT_EQ(values[0], 0.5F);
  EXPECT_EQ(set.find("e").shape(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(set.find("e").stored_bytes(), 0);
  EXPECT_EQ(stored_text(set.find("s")), "*");
  w.release();  // dropped pages come back with the same bytes
  w.read(0, 2, DType::f32, values);
  EXPECT_EQ(values[1], -2.0F);
}

TEST(Safetensors, ReadsEveryDTypeItClaims) {
  std::string header = "{" + entry("a", "F64", "[1]", 0, 8) + "," + entry("b", "I64", "[1]", 8, 16) + "," +
                       entry("c", "F32", "[1]", 16, 20) + "," + entry("d", "I32", "[1]", 20, 24) + "," +
                       entry("e", "F16", "[1]", 24, 26) + "," + entry("f", "BF16", "[1]", 26, 28) + "," +
                       entry("g", "U8", "[1]", 28, 29) + "}";
  SafetensorsHeader parsed = parse(safetensors_bytes(header, std::string(29, 'x')));
  EXPECT_EQ(parsed.tensors.at("a").dtype, DType::f64);
  EXPECT_EQ(parsed.tensors.at("b").dtype, DType::i64);
  EXPECT_EQ(parsed.tensors.at("c").dtype, DType::f32);
  EXPECT_EQ(parsed.tensors.at("d").dtype, DType::i32);
  EXPECT_EQ(parsed.tensors.at("e").dtype, DType::f16);
  EXPECT_EQ(parsed.tensors.at("f").dtype, DType::bf16);
  EXPECT_EQ(parsed.tensors.at("g").dtype, DType::u8);
  EXPECT_EQ(parsed.data_begin, static_cast<int64_t>(8 + header.size()));
}

TEST(Safetensors, MisalignedOffsetsAndAnyOrderAreLegal) {
  std::string header =
      "{" + entry("late", "F32", "[1]", 3, 7) + "," + entry("early", "U8", "[3]", 0, 3) + "}";
  SafetensorsHeader parsed = parse(safetensors_bytes(header, "abcdefg"));
  EXPECT_EQ(parsed.tensors.at("late").begin, 3);
  EXPECT_TRUE(parse(safetensors_bytes("{}", "")).tensors.empty());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  std::string whole = safetensors_bytes("{" + entry("w", "F32", "[2]", 0, 8) + "}", "12345678");
  ASSERT_NO_THROW(parse(whole));
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_SAYS(refusal(whole.substr(0, length)), "truncated");
  }
}

TEST(Safetensors, HeaderLengthIsNotBelieved) {
  std::string huge = "\xff\xff\xff\xff\xff\xff\xff\xff{}";
  EXPECT_SAYS(refusal(huge), "18446744073709551615 bytes long");
  std::string above_limit = std::string("\x01\xe1\xf5\x05\x00\x00\x00\x00", 8) + "{}";  // 100,000,001
  EXPECT_SAYS(refusal(above_limit), "the format allows 100000000");
  EXPECT_SAYS(refusal(safetensors_bytes("", "")), "does not start with");
  EXPECT_SAYS(refusal(safetensors_bytes("[]", "")), "does not start with");
  EXPECT_SAYS(refusal(safetensors_bytes("{", "")), "not valid JSON");
  EXPECT_SAYS(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "git lfs pull");
}

TEST(Safetensors, OverlapsAndHolesAreNamed) {
  auto file = [](const std::string& entries, size_t data_bytes) {
    return safetensors_bytes("{" + entries + "}", std::string(data_bytes, 'x'));
  };
  std::string overlap = refusal(file(entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 3, 7), 7));
  EXPECT_SAYS(overlap, "tensor \"b\" [3, 7] overlaps tensor \"a\", which ends at 4");
  EXPECT_SAYS(refusal(file(entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 0, 4), 4)),
              "overlaps");
  EXPECT_SAYS(refusal(file(entry("a", "U8", "[4]", 0, 4) + "," + entry("b", "U8", "[4]", 6, 10), 10)),
              "2 bytes between tensor \"a\" and tensor \"b\"");
  EXPECT_SAYS(refusal(file(entry("a", "U8", "[4]", 1, 5), 5)), "1 bytes between the start of the data");
  EXPECT_SAYS(refusal(file(entry("a", "U8", "[4]", 0, 4), 9)), "the last 5 bytes belong to no tensor");
  EXPECT_SAYS(refusal(file(entry("a", "U8", "[4]", 0, 4), 3)), "truncated");
  // An empty tensor inside another one.
  refusal(file(entry("a", "U8", "[4]", 0, 4) + "," + entry("z", "U8", "[0]", 2, 2), 4));
}

TEST(Safetensors, ShapeAndOffsetsMustAgree) {
  auto one = [](const std::string& dtype, const std::string& shape, int64_t begin, int64_t end) {
    return safetensors_bytes("{" + entry("w", dtype, shape, begin, end) + "}", std::string(16, 'x'));
  };
  EXPECT_NO_THROW(parse(one("F32", "[2,2]", 0, 16)));
  std::string message = refusal(one("BF16", "[2,2]", 0, 16));
  EXPECT_SAYS(message, "tensor \"w\"");
  EXPECT_SAYS(message, "takes 8 bytes");
  EXPECT_SAYS(message, "span 16");
  refusal(one("F32", "[2,3]", 0, 16));
  refusal(one("F32", "[2,2]", 16, 0));
  refusal(one("F32", "[-2,-2]", 0, 16));
  refusal(one("F32", "[2.0,2]", 0, 16));
  refusal(one("F32", "4", 0, 16));
  refusal(one("F32", "[\"4\"]", 0, 16));
  // Products that wrap to 16 in 64 bits, and one that a zero dimension would hide.
  refusal(one("F32", "[4611686018427387905,4]", 0, 16));
  EXPECT_SAYS(refusal(one("F32", "[4294967296,4294967296]", 0, 16)), "more bytes than 2^63");
  EXPECT_SAYS(refusal(one("F32", "[0,4294967296,4294967296]", 0, 0)), "more bytes than 2^63");
  refusal(one("F32", "[18446744073709551615]", 0, 16));
  refusal(one("F32", "[1e30]", 0, 16));
  refusal(safetensors_bytes("{" + entry("w", "U8", "[9223372036854775807]", 0, INT64_MAX) + "}", "x"));
}

TEST(Safetensors, DTypesAreNamedWhenRefused) {
  auto stored_as = [](const std::string& dtype) {
    return refusal(safetensors_bytes("{" + entry("model.w", dtype, "[1]", 0, 1) + "}", "x"));
  };
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "BOOL", "U16"}) {
    std::string message = stored_as(dtype);
    EXPECT_SAYS(message, "tensor \"model.w\" is stored as " + std::string(dtype));
    EXPECT_SAYS(message, "convert");
  }
  EXPECT_SAYS(stored_as("FLOAT"), "dtype \"FLOAT\", which safetensors does not know");
  EXPECT_SAYS(stored_as("f32"), "does not know");
}

TEST(Safetensors, BrokenDescriptionsAreRefused) {
  for (const char* header :
       {R"({"w":1})", R"({"w":{}})", R"({"w":{"dtype":"U8","shape":[1]}})",
        R"({"w":{"dtype":"U8","data_offsets":[0,1]}})", R"({"w":{"shape":[1],"data_offsets":[0,1]}})",
        R"({"w":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})",
        R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0]}})",
        R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})",
        R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"shape":[1]}})", R"({"__metadata__":[]})",
        R"({"__metadata__":{"a":1}})"}) {
    refusal(safetensors_bytes(header, "x"));
  }
}

TEST(Safetensors, DuplicateNamesAreRefused) {
  std::string twice = "{" + entry("w", "U8", "[1]", 0, 1) + "," + entry("w", "U8", "[1]", 1, 2) + "}";
  EXPECT_SAYS(refusal(safetensors_bytes(twice, "xy")), "duplicate key \"w\"");
  // The same name in another spelling.
  std::string spelt = "{" + entry("w", "U8", "[1]", 0, 1) + "," + entry("\\u0077", "U8", "[1]", 1, 2) + "}";
  EXPECT_SAYS(refusal(safetensors_bytes(spelt, "xy")), "duplicate key");
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  TemporaryFolder folder;
  std::string bytes =
      "u"
      "12345678"
      "abcdefghijkl";  // in the order declared: u8, f32, bf16
  {
    SafetensorsWriter writer(folder / "out/w.safetensors", {{"tiny", DType::u8, {1}},
                                                            {"empty", DType::f32, {0, 4}},
                                                            {"wide", DType::f32, {2}},
                                                            {"half \"quoted\"", DType::bf16, {3, 2}}});
    for (char byte : bytes) {
      writer.write(std::as_bytes(std::span(&byte, 1)));
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "out/w.safetensors"));
    writer.finish();
  }
  TensorSource set = open_safetensors(folder / "out/w.safetensors");
  EXPECT_EQ(set.names().size(), 4U);
  EXPECT_EQ(stored_text(set.find("tiny")), "u");
  EXPECT_EQ(stored_text(set.find("wide")), "12345678");
  EXPECT_EQ(stored_text(set.find("half \"quoted\"")), "abcdefghijkl");
  EXPECT_EQ(set.find("half \"quoted\"").shape(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(set.find("empty").shape(), (std::vector<int64_t>{0, 4}));
  std::string file = read_raw(folder / "out/w.safetensors");
  SafetensorsHeader header = parse_safetensors_header(std::as_bytes(std::span(file)), std::ssize(file), "w");
  for (const auto& [name, tensor] : header.tensors) {
    EXPECT_EQ((header.data_begin + tensor.begin) % size_of(tensor.dtype), 0) << name;
  }
}

// The bytes on disk, taken apart without the reader.
TEST(SafetensorsWriter, TheFileIsWhatTheFormatSays) {
  TemporaryFolder folder;
  std::string data = "abcdefgh";
  SafetensorsWriter writer(folder / "w.safetensors", {{"a", DType::f16, {2}}, {"b", DType::f16, {1, 2}}});
  writer.write(std::as_bytes(std::span(data)));
  writer.finish();
  std::string file = read_raw(folder / "w.safetensors");
  size_t length = 0;
  for (size_t i = 0; i < 8; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(file[i])) << (8 * i);
  }
  EXPECT_EQ(length % 8, 0U);
  ASSERT_EQ(file.size(), 8 + length + data.size());
  EXPECT_EQ(file.substr(8 + length), data);
  Json header = Json::parse(file.substr(8, length));
  EXPECT_EQ(header, Json::parse(R"({"__metadata__":{"format":"pt"},
                                    "a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
                                    "b":{"dtype":"F16","shape":[1,2],"data_offsets":[4,8]}})"));
}

TEST(SafetensorsWriter, LeavesNothingUnlessFinished) {
  TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder / "w.safetensors", {{"a", DType::u8, {3}}});
    writer.write(std::as_bytes(std::span("xy", 2)));
  }
  EXPECT_EQ(folder.entry_count(), 0U);
}

TEST(SafetensorsWriter, ADiskTooSmallIsKnownBeforeAnythingIsWritten) {
  TemporaryFolder folder;
  std::string message = error_text(ErrorKind::environment, [&] {
    SafetensorsWriter writer(folder / "w.safetensors", {{"a", DType::u8, {int64_t{1} << 60}}});
  });
  EXPECT_SAYS(message, "disk full");
  EXPECT_EQ(folder.entry_count(), 0U);
}

TEST(SafetensorsWriterDeathTest, WrongCountsAreCaught) {
  TemporaryFolder folder;
  EXPECT_DEATH(
      {
        SafetensorsWriter writer(folder / "w", {{"a", DType::u8, {1}}});
        writer.write(std::as_bytes(std::span("xy", 2)));
      },
      "more bytes written than declared");
  EXPECT_DEATH(
      {
        SafetensorsWriter writer(folder / "w", {{"a", DType::u8, {1}}});
        writer.finish();
      },
      "fewer bytes written than declared");
  EXPECT_DEATH(SafetensorsWriter(folder / "w", {{"a", DType::u8, {1}}, {"a", DType::u8, {1}}}),
               "declared twice");
}

}  // namespace
}  // namespace snug
