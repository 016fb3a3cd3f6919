// Which of cuBLASLt's guesses is taken on Hopper, against what each of them took there.
#include "backend/cuda_plan/tilings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace snug::cuda {
namespace {

constexpr int64_t kH200 = 132;  // multiprocessors

struct Timed {
  Tiling tiling;
  double milliseconds;
};

struct Product {
  std::string name;  // model and tokens, layer
  TiledProduct product;
  std::vector<Timed> guesses;
};

// bench/gpu/products.cu on an H200: bf16, cuBLASLt 13.1, its guesses in its order.
const std::vector<Product> kMeasured = {
    {"A 7B 8192, gate_up forward",
     {37888, 8192, 3584},
     {{{320, 128, 1, 2, 1}, 3.3434},
      {{192, 192, 2, 1, 1}, 3.3532},
      {{256, 128, 1, 2, 1}, 3.2869},
      {{128, 256, 2, 1, 1}, 3.2973},
      {{192, 128, 1, 2, 1}, 3.3529},
      {{128, 192, 2, 1, 1}, 3.3729},
      {{176, 128, 1, 2, 1}, 3.1322},
      {{168, 128, 1, 2, 1}, 3.1351}}},
    {"A 7B 8192, down dx",
     {18944, 8192, 3584},
     {{{192, 192, 2, 1, 1}, 1.7429},
      {{256, 128, 1, 2, 1}, 1.6620},
      {{128, 256, 2, 1, 1}, 1.6690},
      {{320, 128, 1, 2, 1}, 1.7404},
      {{192, 128, 1, 2, 1}, 1.6780},
      {{128, 192, 2, 1, 1}, 1.7042},
      {{256, 96, 1, 2, 1}, 1.7016},
      {{128, 160, 2, 1, 1}, 1.6033}}},
    {"C 7B 512, gate_up dx",
     {3584, 512, 37888},
     {{{256, 128, 2, 4, 2}, 0.2403},
      {{128, 256, 4, 2, 2}, 0.2413},
      {{448, 64, 1, 2, 2}, 0.3703},
      {{128, 128, 4, 2, 1}, 0.2061},
      {{192, 128, 1, 2, 3}, 0.2290},
      {{128, 192, 2, 1, 3}, 0.2375},
      {{192, 192, 4, 1, 2}, 0.2538},
      {{256, 96, 1, 2, 3}, 0.2429}}},
    {"C 7B 512, head of 512 dx",
     {3584, 512, 151936},
     {{{256, 128, 1, 2, 4}, 0.9519},
      {{128, 256, 2, 1, 4}, 0.9519},
      {{448, 64, 1, 2, 2}, 1.4600},
      {{192, 128, 1, 2, 3}, 0.8662},
      {{128, 128, 2, 1, 2}, 0.8511},
      {{128, 192, 2, 1, 3}, 0.8646},
      {{256, 96, 1, 2, 3}, 0.9128},
      {{192, 192, 2, 1, 2}, 1.0225}}},
    {"Qwen3-8B 4096, gate_up forward",
     {24576, 4096, 4096},
     {{{320, 128, 1, 2, 1}, 1.3049},
      {{256, 128, 1, 2, 1}, 1.3003},
      {{128, 256, 2, 1, 1}, 1.2961},
      {{192, 192, 2, 1, 1}, 1.3166},
      {{176, 128, 1, 2, 1}, 1.1816},
      {{192, 128, 1, 2, 1}, 1.2504},
      {{168, 128, 1, 2, 1}, 1.1722},
      {{128, 192, 2, 1, 1}, 1.3258}}},
    {"full 7B 4096, gate_up forward",
     {37888, 4096, 3584},
     {{{320, 128, 1, 2, 1}, 1.6508},
      {{256, 128, 1, 2, 1}, 1.6618},
      {{128, 256, 2, 1, 1}, 1.6656},
      {{192, 192, 2, 1, 1}, 1.7235},
      {{192, 128, 1, 2, 1}, 1.6790},
      {{168, 128, 1, 2, 1}, 1.5619},
      {{176, 128, 1, 2, 1}, 1.6178},
      {{144, 128, 1, 2, 1}, 1.5866}}},
    {"full 1.5B 32768, qkv forward",
     {2048, 32768, 1536},
     {{{256, 128, 1, 2, 1}, 0.3346},
      {{128, 256, 2, 1, 1}, 0.3347},
      {{128, 192, 2, 1, 1}, 0.3359},
      {{192, 192, 1, 2, 1}, 0.3439},
      {{128, 160, 2, 1, 1}, 0.2931},
      {{256, 96, 1, 2, 1}, 0.3199},
      {{192, 128, 1, 2, 1}, 0.3443},
      {{176, 128, 1, 2, 1}, 0.3097}}},
    {"full 1.5B 32768, gate_up forward",
     {17920, 32768, 1536},
     {{{320, 128, 1, 2, 1}, 2.8683},
      {{192, 192, 2, 1, 1}, 2.8726},
      {{256, 128, 1, 2, 1}, 2.8326},
      {{128, 256, 2, 1, 1}, 2.7967},
      {{128, 192, 2, 1, 1}, 2.8323},
      {{192, 128, 1, 2, 1}, 2.8126},
      {{176, 128, 1, 2, 1}, 2.5214},
      {{168, 128, 1, 2, 1}, 2.5253}}},
    {"full 0.5B 32768, down dx",
     {4864, 32768, 896},
     {{{256, 128, 1, 2, 1}, 0.4688},
      {{128, 256, 2, 1, 1}, 0.4689},
      {{192, 192, 2, 1, 1}, 0.4980},
      {{128, 192, 2, 1, 1}, 0.4839},
      {{128, 160, 2, 1, 1}, 0.4012},
      {{256, 96, 1, 2, 1}, 0.4744},
      {{192, 128, 1, 2, 1}, 0.4901},
      {{320, 128, 1, 2, 1}, 0.5152}}},
    {"full 0.5B 32768, head of 4096 forward",
     {151936, 4096, 896},
     {{{320, 128, 1, 2, 1}, 2.2992},
      {{256, 128, 1, 2, 1}, 2.1727},
      {{128, 256, 2, 1, 1}, 2.0846},
      {{192, 192, 2, 1, 1}, 2.1002},
      {{192, 128, 1, 2, 1}, 2.0420},
      {{176, 128, 1, 2, 1}, 1.5504},
      {{168, 128, 1, 2, 1}, 1.5763},
      {{128, 192, 2, 1, 1}, 2.2324}}},
};

size_t choice_for(const Product& product) {
  std::vector<Tiling> tilings;
  for (const Timed& guess : product.guesses) {
    tilings.push_back(guess.tiling);
  }
  return tiling_for_hopper(tilings, product.product, kH200);
}

TEST(Tilings, TakenAreNearlyTheFastest) {
  for (const Product& product : kMeasured) {
    double fastest = product.guesses[0].milliseconds;
    for (const Timed& guess : product.guesses) {
      fastest = std::min(fastest, guess.milliseconds);
    }
    double taken = product.guesses[choice_for(product)].milliseconds;
    EXPECT_LT(taken, 1.04 * fastest) << product.name;
    EXPECT_LT(taken, 0.97 * product.guesses[0].milliseconds) << product.name;
  }
}

TEST(Tilings, FirstGuessStands) {
  TiledProduct product{4096, 8192, 4096};
  std::vector<Tiling> large_first = {{256, 128, 1, 2, 1}, {128, 128, 2, 1, 1}};
  EXPECT_EQ(tiling_for_hopper(large_first, product, kH200), 1);
  EXPECT_EQ(tiling_for_hopper(large_first, {4096, 8192, 18944}, kH200), 0) << "long sums";
  EXPECT_EQ(tiling_for_hopper(large_first, {4096, 512, 4096}, kH200), 0) << "few sums";
  EXPECT_EQ(tiling_for_hopper(large_first, {4096, 8192, 18944, true}, kH200), 1) << "added to fp32";
  EXPECT_EQ(tiling_for_hopper(large_first, {4096, 8192, 128}, kH200), 0) << "thin";
  std::vector<Tiling> small_first = {{112, 128, 2, 1, 1}, {128, 128, 4, 2, 1}};
  EXPECT_EQ(tiling_for_hopper(small_first, product, kH200), 0);
  std::vector<Tiling> unknown_first = {{}, {128, 128, 2, 1, 1}};
  EXPECT_EQ(tiling_for_hopper(unknown_first, product, kH200), 0);
  std::vector<Tiling> large_alone = {{256, 128, 1, 2, 1}, {}, {512, 64, 1, 2, 1}, {128, 32, 1, 1, 1}};
  EXPECT_EQ(tiling_for_hopper(large_alone, product, kH200), 0);
  EXPECT_EQ(tiling_for_hopper({}, product, kH200), 0);
}

}  // namespace
}  // namespace snug::cuda
