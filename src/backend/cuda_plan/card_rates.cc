// A card's units by compute capability, and the shares of their rates that were seen.
#include "backend/cuda_plan/card_rates.h"

#include <array>

namespace snug::cuda {
namespace {

// Floating-point operations a clock and multiprocessor; products of bf16 and fp16 with sums in fp32, at
// the full rate.
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

// On an H200 (132 multiprocessors at 1.98 GHz, 4.9 TB/s): products of 7B models reach 720 TFLOP/s one by one
// and 690 step after step, when the card is warm; kernels that move bytes reach 4.2 TB/s; in a recorded graph
// one begins 1.7 microseconds behind another.
constexpr double kProductShare = 0.645;
constexpr double kCeilingShare = 0.673;
constexpr double kMemoryShare = 0.86;
constexpr double kSecondsPerOp = 1.7e-6;

}  // namespace

bool adds_at_half_rate(std::string_view name) {
  constexpr auto kNone = std::string_view::npos;
  return name.find("GeForce") != kNone || name.find("A10G") != kNone;
}

bool has_bf16(const CardShape& shape) {
  return shape.capability >= 80;
}

bool scales_rows(int capability) {
  return capability == 90;
}

double peak_flops(const CardShape& shape, DType dtype, bool tf32) {
  Units units = kUnits[0];
  for (const Units& known : kUnits) {
    units = known.capability <= shape.capability ? known : units;
  }
  double products = units.fp32;
  if (dtype == DType::f16 || (dtype == DType::bf16 && has_bf16(shape))) {
    products = units.half_products * (shape.half_rate ? 0.5 : 1);
  } else if (dtype == DType::f32 && tf32 && units.tf32_products > 0) {
    products = units.tf32_products * (shape.half_rate ? 0.5 : 1);
  }
  return products * shape.multiprocessors * shape.clock_hz;
}

DeviceRates rates_of(const CardShape& shape, DType dtype, bool tf32) {
  double peak = peak_flops(shape, dtype, tf32);
  return {.product_flops = kProductShare * peak,
          .ceiling_flops = kCeilingShare * peak,
          .bytes_per_second = kMemoryShare * shape.memory_bytes_hz,
          .seconds_per_op = kSecondsPerOp,
          .scales_rows = scales_rows(shape.capability)};
}

}  // namespace snug::cuda
