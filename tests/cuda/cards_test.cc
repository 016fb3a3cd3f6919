// The cards of this machine, each by its number.
#include <algorithm>

#include "backend/cuda/card.h"
#include "cuda/card.h"

namespace snug {
namespace {

TEST(CudaCards, EachIsOpenedByItsNumber) {
  SKIP_WITHOUT_CARD();
  std::vector<Card> cards = cuda::find_cards();
  ASSERT_FALSE(cards.empty());
  for (const Card& card : cards) {
    // One card is not asked where nothing but opening it would tell.
    bool is_asked = cards.size() > 1 || cuda::card_use(cuda::pci_bus_id(card.number)).has_value();
    EXPECT_TRUE(card.free_bytes > 0 || !is_asked);
    EXPECT_LE(card.free_bytes, card.total_bytes);
    CudaBackend backend({.card = card.number});
    EXPECT_EQ(backend.label(), "cuda:" + std::to_string(card.number));
    EXPECT_NE(backend.description().find(card.name), std::string::npos) << backend.description();
    int current = -1;
    ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, card.number);
  }
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);  // for the tests that come after
}

TEST(CudaCards, TheFreestIsOneOfThem) {
  SKIP_WITHOUT_CARD();
  std::vector<Card> cards = cuda::find_cards();
  int freest = pick_card({.number = std::nullopt}, cards);
  for (const Card& card : cards) {
    EXPECT_GE(cards[static_cast<size_t>(freest)].free_bytes, card.free_bytes);
  }
}

}  // namespace
}  // namespace snug
