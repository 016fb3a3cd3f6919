// Encodes a file of texts with a model's tokenizer and says how fast; can write the ids and what they decode
// to, for tools/check_tokenizers.py.
//
//   tokenizers MODEL TEXTS [--threads N] [--rounds N] [--ids FILE] [--decoded FILE]
//
// TEXTS, and FILE of --decoded, hold each text after its length in bytes (uint32, little endian); FILE of
// --ids holds each text's ids (int32) after their number.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "io/atomic_file.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using Ids = std::vector<int32_t>;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_seconds_now() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::vector<std::string_view> split_texts(std::string_view bytes) {
  std::vector<std::string_view> texts;
  while (bytes.size() >= sizeof(uint32_t)) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    texts.push_back(bytes.substr(0, length));
    bytes.remove_prefix(std::min<size_t>(length, bytes.size()));
  }
  return texts;
}

void append_counted(std::string& out, const void* data, size_t count, size_t item_bytes) {
  auto number = static_cast<uint32_t>(count);
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
  out.append(static_cast<const char*>(data), count * item_bytes);
}

// Each thread takes the next text that nobody has.
std::vector<Ids> encode_all(const snug::Tokenizer& tokenizer, const std::vector<std::string_view>& texts,
                            int threads) {
  std::vector<Ids> ids(texts.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t i = next++; i < texts.size(); i = next++) {
      ids[i] = tokenizer.encode(texts[i]);
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < threads; ++i) {
    workers.emplace_back(work);
  }
  work();
  for (std::thread& worker : workers) {
    worker.join();
  }
  return ids;
}

int run(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--threads", "1"}, {"--rounds", "1"}};
  for (int i = 3; i + 1 < argc; i += 2) {
    options[argv[i]] = argv[i + 1];
  }
  if (argc < 3) {
    fmt::print(stderr,
               "usage: tokenizers MODEL TEXTS [--threads N] [--rounds N] [--ids FILE] [--decoded FILE]\n");
    return 2;
  }
  double start = seconds_now();
  auto tokenizer = snug::load_tokenizer(argv[1]);
  double load_seconds = seconds_now() - start;
  std::string bytes = snug::read_text_file(argv[2]);
  std::vector<std::string_view> texts = split_texts(bytes);
  size_t text_bytes = 0;
  for (std::string_view text : texts) {
    text_bytes += text.size();
  }
  int threads = std::stoi(options["--threads"]);
  double best = 0;
  double best_processor = 0;
  std::vector<Ids> ids;
  for (int round = 0; round < std::stoi(options["--rounds"]); ++round) {
    start = seconds_now();
    double processor_start = processor_seconds_now();
    ids = encode_all(*tokenizer, texts, threads);
    double seconds = seconds_now() - start;
    double processor_seconds = processor_seconds_now() - processor_start;
    best = round == 0 ? seconds : std::min(best, seconds);
    best_processor = round == 0 ? processor_seconds : std::min(best_processor, processor_seconds);
  }
  size_t tokens = 0;
  std::string id_bytes;
  std::string decoded;
  for (const Ids& one : ids) {
    tokens += one.size();
    append_counted(id_bytes, one.data(), one.size(), sizeof(int32_t));
    if (options.contains("--decoded")) {
      std::string text = tokenizer->decode(one, false);
      append_counted(decoded, text.data(), text.size(), 1);
    }
  }
  if (options.contains("--ids")) {
    snug::write_file_atomically(options["--ids"], id_bytes);
  }
  if (options.contains("--decoded")) {
    snug::write_file_atomically(options["--decoded"], decoded);
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      "{{\"threads\": {}, \"megabytes\": {:.2f}, \"tokens\": {}, \"mb_per_second\": {:.2f}, "
      "\"mb_per_cpu_second\": {:.2f}, \"load_seconds\": {:.2f}, "
      "\"peak_mib\": {}}}\n",
      threads, static_cast<double>(text_bytes) / 1e6, tokens, static_cast<double>(text_bytes) / 1e6 / best,
      static_cast<double>(text_bytes) / 1e6 / best_processor, load_seconds, usage.ru_maxrss / 1024);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
