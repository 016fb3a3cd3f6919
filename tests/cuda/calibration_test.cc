// Measuring the card that is here.
#include "backend/cuda_plan/calibration.h"

#include <chrono>
#include <cmath>

#include "backend/cuda/measure.h"
#include "cuda/card.h"
#include "support/temporary_folder.h"

namespace snug {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(CudaCalibration, IsQuickAndRemembered) {
  SKIP_WITHOUT_CARD();
  TemporaryFolder folder;
  constexpr DType kDType = DType::f16;
  DeviceRates first;
  {
    CudaBackend card({.rates_folder = folder.path()});
    auto start = std::chrono::steady_clock::now();
    first = card.rates(kDType);
    double seconds = seconds_since(start);
    ASSERT_TRUE(card.rates_origin().is_measured) << card.rates_origin().text;
    EXPECT_LT(seconds, 3);
    DeviceRates assumed = card.assumed_rates(kDType);
    EXPECT_GT(first.product_flops, 0.2 * assumed.product_flops);
    EXPECT_LT(first.product_flops, 2 * assumed.product_flops);
    EXPECT_GT(first.bytes_per_second, 0.2 * assumed.bytes_per_second);
    EXPECT_LT(first.bytes_per_second, 1.2 * assumed.bytes_per_second);
    for (double pace : first.paces) {
      EXPECT_GT(pace, 0.2);
      EXPECT_LT(pace, 5);
    }
  }
  CudaBackend card({.rates_folder = folder.path()});
  auto start = std::chrono::steady_clock::now();
  DeviceRates second = card.rates(kDType);
  EXPECT_LT(seconds_since(start), 0.1) << "nothing is measured";
  EXPECT_EQ(second.product_flops, first.product_flops);
  EXPECT_EQ(second.bytes_per_second, first.bytes_per_second);
  EXPECT_EQ(second.paces, first.paces);
}

// All of it is given back before a plan takes its memory.
TEST(CudaCalibration, KeepsNoMemory) {
  SKIP_WITHOUT_CARD();
  CudaBackend card;
  auto free_now = [] {
    size_t free_bytes = 0;
    size_t all_bytes = 0;
    EXPECT_EQ(cudaMemGetInfo(&free_bytes, &all_bytes), cudaSuccess);
    return static_cast<int64_t>(free_bytes);
  };
  EXPECT_LE(cuda::measuring_bytes(DType::f16), int64_t{512} << 20);
  TemporaryFolder folder;
  CudaBackend measured({.rates_folder = folder.path(), .measure_again = true});
  int64_t before = free_now();
  ASSERT_TRUE(measured.rates_origin().is_measured) << measured.rates_origin().text;
  // What the driver loads for kernels when they first run is in the plan's context.
  EXPECT_LE(before - free_now(), int64_t{64} << 20);
}

TEST(CudaCalibration, DoesNotDisturbAPlanAtWork) {
  SKIP_WITHOUT_CARD();
  TemporaryFolder folder;
  CudaBackend card({.rates_folder = folder.path()});
  card.allocate_arena(Home::device, int64_t{1} << 20);
  EXPECT_FALSE(card.rates_origin().is_measured);
  EXPECT_GT(card.rates(DType::f16).product_flops, 0);
}

// Twice in a row a card is as fast as it is, within the steps that rates are rounded to and one more.
TEST(CudaCalibration, TellsTheSameTwice) {
  SKIP_WITHOUT_CARD();
  TemporaryFolder folder;
  auto measure = [&] {
    CudaBackend card({.rates_folder = folder.path(), .measure_again = true});
    EXPECT_TRUE(card.rates_origin().is_measured) << card.rates_origin().text;
    return card.rates(DType::f16);
  };
  DeviceRates a = measure();
  DeviceRates b = measure();
  EXPECT_NEAR(a.product_flops / b.product_flops, 1, 0.11);
  EXPECT_NEAR(a.bytes_per_second / b.bytes_per_second, 1, 0.11);
  for (size_t i = 0; i < kPaceCount; ++i) {
    EXPECT_NEAR(a.paces[i] / b.paces[i], 1, 0.16) << i;
  }
}

}  // namespace
}  // namespace snug
