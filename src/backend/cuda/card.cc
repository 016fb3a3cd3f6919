// Asking the runtime, and the driver where it knows more.
#include "backend/cuda/card.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <array>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace snug::cuda {
namespace {

// Without NVML a card has to be opened for that, and is left as it was found.
int64_t ask_free_bytes(int card) {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  check(cudaSetDevice(card), "looking at the cards");
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  check(cudaDeviceReset(), "looking at the cards");
  return static_cast<int64_t>(free_bytes);
}

double attribute(cudaDeviceAttr which, int card) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, card), "looking at the card");
  return value;
}

}  // namespace

void require_card() {
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int found = 0;
    check(cudaDriverGetVersion(&found), "looking for a driver");
    throw environment_error(driver_problem(found, CUDART_VERSION));
  }
  if (status == cudaSuccess && count == 0) {
    status = cudaErrorNoDevice;
  }
  check(status, "looking for a card");
}

std::vector<Card> find_cards() {
  require_card();
  int count = 0;
  check(cudaGetDeviceCount(&count), "looking for cards");
  std::vector<Card> cards;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, number), "looking at the cards");
    Card card{.number = number,
              .name = properties.name,
              .free_bytes = 0,
              .total_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
    if (std::optional<CardUse> use = card_use(pci_bus_id(number))) {
      card.free_bytes = use->total_bytes - use->used_bytes;
    } else if (count > 1) {
      card.free_bytes = ask_free_bytes(number);
    }
    cards.push_back(card);
  }
  return cards;
}

CardShape read_card_shape(int card) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, card), "looking at the card");
  double bits = attribute(cudaDevAttrGlobalMemoryBusWidth, card);
  double memory_khz = attribute(cudaDevAttrMemoryClockRate, card);
  return {.capability = properties.major * 10 + properties.minor,
          .multiprocessors = attribute(cudaDevAttrMultiProcessorCount, card),
          .clock_hz = 1e3 * attribute(cudaDevAttrClockRate, card),
          .memory_bytes_hz = 2 * 1e3 * memory_khz * bits / 8,
          .half_rate = adds_at_half_rate(properties.name)};
}

std::string pci_bus_id(int card) {
  std::array<char, 32> id{};
  check(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), card), "looking at the card");
  return id.data();
}

std::string uuid_of(int card) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, card), "looking at the card");
  std::string digits;
  for (char byte : properties.uuid.bytes) {
    digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return digits;
}

}  // namespace snug::cuda
