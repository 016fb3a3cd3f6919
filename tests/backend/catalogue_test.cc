// The catalogue of cards against what their makers publish, and finding one by its names.
#include "backend/cuda_plan/catalogue.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "backend/cuda_plan/planned_card.h"
#include "base/error.h"
#include "test_paths.h"

namespace snug {
namespace {

std::string error_of(std::string_view name) {
  try {
    find_catalogue_card(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

// TFLOP/s of 16-bit products with sums in fp32, dense, from the makers' data sheets. Theirs are for the boost
// clock, which some cards' highest one is up to 9% above.
const std::map<std::string_view, double> kPublished = {
    {"T4", 65},
    {"RTX 2080 Ti", 53.8},
    {"RTX 3060 12GB", 25.6},
    {"RTX 3090", 71},
    {"A10", 125},
    {"A10G", 70},
    {"RTX A6000", 154.8},
    {"RTX 4090", 165.2},
    {"L4", 121},
    {"L40S", 362},
    {"RTX 6000 Ada", 364.2},
    {"RTX 5090", 209.5},
    {"A100 40GB", 312},
    {"A100 80GB", 312},
    {"H100", 989},
    {"H100 PCIe", 756},
    {"H200", 989},
    {"B200", 2250},
    {"Quadro RTX 6000", 130.5},
};

TEST(Catalogue, ProductsAreAsPublished) {
  for (const auto& [name, published] : kPublished) {
    double ours = cuda::peak_flops(find_catalogue_card(name).shape, DType::f16, false) / 1e12;
    EXPECT_GT(ours, 0.97 * published) << name;
    EXPECT_LT(ours, 1.09 * published) << name;
  }
}

TEST(Catalogue, MemoryIsLessThanTheBoxSaysAndRises) {
  const std::map<std::string_view, double> boxes = {{"RTX 3090", 24}, {"A10G", 24},      {"RTX 5090", 32},
                                                    {"T4", 16},       {"RTX A6000", 48}, {"H100", 80}};
  for (const auto& [name, gib] : boxes) {
    double ours = static_cast<double>(find_catalogue_card(name).memory_bytes) / (1 << 30);
    EXPECT_LT(ours, gib) << name;
    EXPECT_GT(ours, 0.9 * gib) << name;
  }
  int64_t before = 0;
  for (const CatalogueCard& card : card_catalogue()) {
    EXPECT_GE(card.memory_bytes, before) << card.name;
    before = card.memory_bytes;
  }
}

TEST(Catalogue, KnowsTheNamesOfPeopleAndDrivers) {
  const std::map<std::string_view, std::string_view> names = {
      {"3090", "RTX 3090"},
      {"rtx-3090", "RTX 3090"},
      {"NVIDIA GeForce RTX 3090", "RTX 3090"},
      {"3060", "RTX 3060 12GB"},
      {"4060ti", "RTX 4060 Ti 16GB"},
      {"Tesla T4", "T4"},
      {"a100-80gb", "A100 80GB"},
      {"NVIDIA A100-SXM4-40GB", "A100 40GB"},
      {"NVIDIA H100 80GB HBM3", "H100"},
      {"H100 PCIe", "H100 PCIe"},
      {"RTX 6000 Ada Generation", "RTX 6000 Ada"},
      {"Quadro RTX 6000", "Quadro RTX 6000"},
      {"A6000", "RTX A6000"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"},
      {"NVIDIA H200", "H200"},
      {"5090 32GB", "RTX 5090"},
  };
  for (const auto& [given, meant] : names) {
    EXPECT_EQ(find_catalogue_card(given).name, meant) << given;
  }
  for (const CatalogueCard& card : card_catalogue()) {
    EXPECT_EQ(&find_catalogue_card(card.name), &card);
  }
}

TEST(Catalogue, SaysWhatIsWrongWithAName) {
  EXPECT_NE(error_of("a100").find("which of A100 40GB, A100 80GB?"), std::string::npos) << error_of("a100");
  EXPECT_NE(error_of("RTX 3091").find("did you mean RTX 3090?"), std::string::npos) << error_of("RTX 3091");
  EXPECT_NE(error_of("abacus").find("It has RTX 2080 Ti, "), std::string::npos) << error_of("abacus");
  EXPECT_NE(error_of("V100-32GB").find("7.5"), std::string::npos) << error_of("V100-32GB");
  EXPECT_NE(error_of(""), "");
}

TEST(Catalogue, TuringMultipliesBf16WithoutItsMatrixUnits) {
  const cuda::CardShape& turing = find_catalogue_card("Quadro RTX 6000").shape;
  EXPECT_LT(cuda::peak_flops(turing, DType::bf16, false), cuda::peak_flops(turing, DType::f16, false) / 4);
  const cuda::CardShape& ampere = find_catalogue_card("RTX 3090").shape;
  EXPECT_EQ(cuda::peak_flops(ampere, DType::bf16, false), cuda::peak_flops(ampere, DType::f16, false));
}

TEST(Catalogue, ACardOfItIsALimitAndHasASpeed) {
  PlannedCard unknown;
  EXPECT_FALSE(unknown.device_total_bytes().has_value());
  EXPECT_EQ(unknown.rates(DType::bf16).product_flops, 0);
  PlannedCard card(&find_catalogue_card("L4"));
  EXPECT_EQ(card.device_total_bytes(), find_catalogue_card("L4").memory_bytes);
  EXPECT_GT(card.rates(DType::bf16).product_flops, 0);
  EXPECT_NE(card.description().find("L4"), std::string::npos);
}

TEST(Catalogue, ThePageIsTheTable) {
  std::ifstream file(std::filesystem::path(SNUG_SOURCE_DIR) / "docs/cards.md", std::ios::binary);
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), catalogue_markdown()) << "run `snug docs cards > docs/cards.md`";
}

// A price without a source and a day is a rumour.
TEST(Catalogue, PricesSayWhereAndWhenTheyWereRead) {
  for (const CatalogueCard& card : card_catalogue()) {
    if (card.rent) {
      EXPECT_GT(card.rent->dollars_an_hour, 0) << card.name;
      EXPECT_FALSE(card.rent->source.empty()) << card.name;
      EXPECT_EQ(card.rent->date.size(), std::string_view("2026-11-09").size()) << card.name;
    }
  }
}

}  // namespace
}  // namespace snug
