// A card's units by compute capability, and the shares of their rates that were seen.
#include "backend/cuda/card_rates.h"

#include <array>

#include "backend/cuda/check.h"

namespace snug::cuda {
namespace {

// Floating-point operations a clock and multiprocessor; products of bf16 and fp16 with sums in fp32.
struct Units {
  int capability;
  double half_products;
  double tf32_products;
  double fp32;
};
constexpr std::array<Units, 7> kUnits = {{
    {75, 1024, 0, 128},
    {80, 2048, 1024, 128},
    {86, 1024, 512, 256},
    {89, 1024, 512, 256},
    {90, 4096, 2048, 256},
    {100, 8192, 4096, 256},
    {120, 1024, 512, 256},
}};

// On an H200 (132 multiprocessors at 1.98 GHz, 4.9 TB/s): products reach 790 TFLOP/s where memory does not
// hold them up and 720 at the shapes of 7B models; kernels that move bytes reach 3.4 TB/s.
constexpr double kProductShare = 0.74;
constexpr double kCeilingShare = 0.673;
constexpr double kMemoryShare = 0.70;
constexpr double kSecondsPerOp = 2.5e-6;

double attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "looking at the card");
  return value;
}

}  // namespace

CardShape read_card_shape(int device) {
  double bits = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  double memory_khz = attribute(cudaDevAttrMemoryClockRate, device);
  return {.capability = static_cast<int>(attribute(cudaDevAttrComputeCapabilityMajor, device)) * 10 +
                        static_cast<int>(attribute(cudaDevAttrComputeCapabilityMinor, device)),
          .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device),
          .clock_hz = 1e3 * attribute(cudaDevAttrClockRate, device),
          .memory_bytes_hz = 2 * 1e3 * memory_khz * bits / 8};
}

DeviceRates rates_of(const CardShape& shape, DType dtype, bool tf32) {
  Units units = kUnits[0];
  for (const Units& known : kUnits) {
    units = known.capability <= shape.capability ? known : units;
  }
  double products = dtype != DType::f32 ? units.half_products : units.fp32;
  if (dtype == DType::f32 && tf32 && units.tf32_products > 0) {
    products = units.tf32_products;
  }
  double peak = products * shape.multiprocessors * shape.clock_hz;
  return {.product_flops = kProductShare * peak,
          .ceiling_flops = kCeilingShare * peak,
          .bytes_per_second = kMemoryShare * shape.memory_bytes_hz,
          .seconds_per_op = kSecondsPerOp};
}

}  // namespace snug::cuda
