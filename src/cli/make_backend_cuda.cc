// A build with CUDA.
#include "backend/cpu/cpu_backend.h"
#include "backend/cuda/card.h"
#include "backend/cuda/cuda_backend.h"
#include "cli/make_backend.h"
#include "cli/wait_for_device.h"
#include "data/tokens/cache_folder.h"

namespace snug {

bool build_has_cuda() {
  return true;
}

std::string describe_backends() {
  return "cpu: " + cpu_libraries() + "; cuda: " + cuda_libraries();
}

std::unique_ptr<Backend> open_card(const DeviceArguments& arguments, const CardChoice& choice) {
  int card = pick_card(choice, cuda::find_cards());
  return std::make_unique<CudaBackend>(CudaOptions{.card = card,
                                                   .tf32 = arguments.tf32,
                                                   .rates_folder = user_cache_folder(),
                                                   .measure_again = arguments.measure_again});
}

std::optional<cuda::CardUse> look_at_card(const DeviceArguments& arguments) {
  CardChoice choice = parse_card_choice(arguments.device).value_or(CardChoice{});
  return cuda::card_use(cuda::pci_bus_id(pick_card(choice, cuda::find_cards())));
}

}  // namespace snug
