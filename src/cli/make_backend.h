// Devices to run on and to plan for. Which of them this build has is one file's business: make_backend_cpu.cc
// or make_backend_cuda.cc.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cuda_plan/cards.h"

// NOLINTNEXTLINE(readability-identifier-naming): the name is CLI11's
namespace CLI {
class App;
}

namespace snug {

struct DeviceArguments {
  std::string device;  // "": the build's own
  bool tf32 = false;
  std::string gpu;             // a card of the catalogue, of commands that only plan; "": none
  bool measure_again = false;  // the card's rates, whatever is remembered
};
// --device and what belongs to it, of a command that computes or plans.
void add_device_arguments(CLI::App& command, DeviceArguments& arguments);
// --gpu in its place, of a command that only plans.
void add_gpu_argument(CLI::App& command, DeviceArguments& arguments);

// To run on. Throws if the device is not there: another is used only when it is asked for.
std::unique_ptr<Backend> make_backend(const DeviceArguments& arguments);

// To plan for, on any machine and in every build: where there is no card, one is planned for all the same.
std::unique_ptr<Device> make_planning_device(const DeviceArguments& arguments);

// For the first line of a plan: which device it is for, and how to plan for a card where the build chose the
// CPU.
std::string describe_device(const Device& device, const DeviceArguments& arguments);

// By the build.
bool build_has_cuda();
// "cpu: OpenBLAS 0.3.21 (kernels for Haswell)", for --version.
std::string describe_backends();
std::unique_ptr<Backend> open_card(const DeviceArguments& arguments, const CardChoice& choice);

}  // namespace snug
