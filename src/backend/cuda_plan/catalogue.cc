// The table of cards, and finding one by the names that people and drivers give it.
#include "backend/cuda_plan/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/names.h"

namespace snug {
namespace {

int64_t gib(double count) {
  return std::llround(count * 1024) << 20;
}

// One card of its own data centres ("secure"), on demand. Prices of other cards were not read there.
constexpr std::string_view kRunPod = "runpod.io/pricing";
constexpr RentalPrice kRentH100 = {3.99, kRunPod, "2026-11-09"};
constexpr RentalPrice kRentH100Pcie = {2.89, kRunPod, "2026-11-09"};
constexpr RentalPrice kRentA100 = {1.79, kRunPod, "2026-11-09"};
constexpr RentalPrice kRentH200 = {4.59, kRunPod, "2026-10-07"};
constexpr RentalPrice kRentB200 = {6.79, kRunPod, "2026-10-07"};

// Name, memory; compute capability, multiprocessors, boost clock in Hz, memory bandwidth in bytes a second
// (both as published), half rate. A100 and H100 are those of a server's socket (SXM) where nothing else is
// said.
const std::vector<CatalogueCard>& cards() {
  static const std::vector<CatalogueCard> kCards = {
      {"RTX 2080 Ti", gib(10.57), {75, 68, 1.545e9, 616e9, true}},
      {"RTX 3060 12GB", gib(11.63), {86, 28, 1.777e9, 360e9, true}},
      {"T4", gib(14.56), {75, 40, 1.590e9, 320e9}},
      {"RTX 5070 Ti", gib(15.46), {120, 70, 2.452e9, 896e9, true}},
      {"RTX 5060 Ti 16GB", gib(15.47), {120, 36, 2.572e9, 448e9, true}},
      {"RTX 4060 Ti 16GB", gib(15.55), {89, 34, 2.535e9, 288e9, true}},
      {"L4", gib(22.03), {89, 58, 2.040e9, 300e9}},
      {"A10", gib(22.06), {86, 72, 1.695e9, 600e9}},
      {"A10G", gib(22.06), {86, 80, 1.710e9, 600e9, true}},
      {"RTX 4090", gib(23.52), {89, 128, 2.520e9, 1008e9, true}},
      {"RTX 3090", gib(23.55), {86, 82, 1.695e9, 936e9, true}},
      {"Quadro RTX 6000", gib(23.64), {75, 72, 1.770e9, 672e9}},
      {"RTX 5090", gib(31.36), {120, 170, 2.407e9, 1792e9, true}},
      {"A100 40GB", gib(39.39), {80, 108, 1.410e9, 1555e9}},
      {"L40S", gib(44.39), {89, 142, 2.520e9, 864e9}},
      {"RTX 6000 Ada", gib(47.38), {89, 142, 2.505e9, 960e9}},
      {"RTX A6000", gib(47.40), {86, 84, 1.800e9, 768e9}},
      {"H100", gib(79.10), {90, 132, 1.980e9, 3350e9}, kRentH100},
      {"A100 80GB", gib(79.14), {80, 108, 1.410e9, 2039e9}, kRentA100},
      {"H100 PCIe", gib(79.18), {90, 114, 1.755e9, 2000e9}, kRentH100Pcie},
      {"RTX PRO 6000", gib(94.97), {120, 188, 2.617e9, 1792e9}},
      {"H200", gib(139.80), {90, 132, 1.980e9, 4800e9}, kRentH200},
      {"B200", gib(178.35), {100, 148, 1.965e9, 8000e9}, kRentB200},
  };
  return kCards;
}

// Without the maker, the series and what separates words: "NVIDIA GeForce RTX 3090" is "3090".
std::string plain(std::string_view name) {
  std::string text;
  for (char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  for (std::string_view word :
       {"nvidia", "geforce", "tesla", "rtx", "generation", "blackwell", "workstationedition", "serveredition",
        "sxm4", "sxm5", "sxm", "hbm3e", "hbm3"}) {
    if (size_t at = text.find(word); at != std::string::npos) {
      text.erase(at, word.size());
    }
  }
  return text;
}

std::string without_size(std::string text) {
  // "306012gb" is "3060": of most cards there is one size.
  for (std::string_view size : {"12gb", "16gb", "24gb", "32gb", "40gb", "48gb", "80gb", "96gb", "141gb"}) {
    if (text.size() > size.size() && text.ends_with(size)) {
      text.resize(text.size() - size.size());
    }
  }
  return text;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const CatalogueCard& card : cards()) {
    all.emplace_back(card.name);
  }
  return all;
}

}  // namespace

std::span<const CatalogueCard> card_catalogue() {
  return cards();
}

const CatalogueCard& find_catalogue_card(std::string_view name) {
  std::string wanted = plain(name);
  if (without_size(wanted).starts_with("v100")) {
    throw bad_input(
        "the V100 has compute capability 7.0: snug needs 7.5 (Turing) or newer; its matrix units take "
        "another "
        "instruction, and CUDA 13 no longer compiles for it");
  }
  for (bool exact : {true, false}) {
    std::vector<std::string> found;
    const CatalogueCard* card = nullptr;
    for (const CatalogueCard& known : cards()) {
      std::string one = plain(known.name);
      if (exact ? one == wanted : without_size(one) == without_size(wanted)) {
        found.emplace_back(known.name);
        card = &known;
      }
    }
    if (found.size() == 1) {
      return *card;
    }
    if (found.size() > 1) {
      throw bad_input(fmt::format("--gpu is \"{}\": which of {}?", name, fmt::join(found, ", ")));
    }
  }
  std::string near = nearest_name(name, names());
  throw bad_input(fmt::format(
      "--gpu is \"{}\", which is not in the catalogue{}. It has {}. For another card: "
      "--device cuda --memory with what its driver reports",
      name, near.empty() ? "" : fmt::format(" (did you mean {}?)", near), fmt::join(names(), ", ")));
}

std::string catalogue_markdown() {
  std::string page =
      "# Cards\n\n"
      "`snug plan RECIPE --gpu NAME` plans for one of these on any machine. Memory is what the driver "
      "reports in\n"
      "all: the least that was seen with drivers of the last two years. The box says more, and the driver's\n"
      "context takes some 600 MiB of it. \"16-bit products\" are what the matrix units could do with sums in "
      "fp32,\n"
      "without sparsity, at the highest clock. The speed that a plan expects assumes of every card the "
      "shares of\n"
      "these rates that snug reached on an H200; on others nobody has measured it. A card that is there is "
      "measured\n"
      "instead. An hour's rent is that of one card on demand, in dollars, where it could be read with its "
      "date;\n"
      "prices change, and `--price` says another. Made by `snug docs cards`.\n\n"
      "| card | memory, GiB | compute capability | 16-bit products, TFLOP/s | memory, GB/s | bf16 | an hour "
      "|\n"
      "|---|---|---|---|---|---|---|\n";
  for (const CatalogueCard& card : cards()) {
    const cuda::CardShape& shape = card.shape;
    page += fmt::format("| {} | {:.2f} | {}.{} | {:.0f} | {:.0f} | {} | {} |\n", card.name,
                        static_cast<double>(card.memory_bytes) / (1 << 30), shape.capability / 10,
                        shape.capability % 10, cuda::peak_flops(shape, DType::f16, false) / 1e12,
                        shape.memory_bytes_hz / 1e9, cuda::has_bf16(shape) ? "yes" : "slow: use fp16",
                        card.rent ? fmt::format("{:.2f} ({}, {})", card.rent->dollars_an_hour,
                                                card.rent->source, card.rent->date)
                                  : "");
  }
  return page;
}

}  // namespace snug
