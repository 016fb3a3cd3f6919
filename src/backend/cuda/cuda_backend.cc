// Opening the card, its arenas, and the order of things on its stream.
#include "backend/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backend/cuda/blas.h"
#include "backend/cuda/card.h"
#include "backend/cuda/check.h"
#include "backend/cuda/graphs.h"
#include "backend/cuda/kernels_version.h"
#include "backend/cuda/measure.h"
#include "backend/cuda/quantise.h"
#include "backend/cuda_plan/card_health.h"
#include "backend/cuda_plan/context.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/error.h"

namespace snug {
namespace {

using cuda::check;

// The driver takes so few bytes of pageable memory along with the command; for more it would first wait until
// the stream is done.
constexpr int64_t kSmallCopyBytes = int64_t{32} << 10;

// Who holds so much of a card computes on it, and what is measured beside them is half of the truth. A screen
// takes less.
constexpr int64_t kOthersAtWork = int64_t{1} << 30;

constexpr int kOldestMajor = 7;
constexpr int kOldestMinor = 5;

}  // namespace

CudaBackend::CudaBackend(const CudaOptions& options) : options_(options) {
  open();
}

void CudaBackend::open() {
  cuda::require_card();
  pci_bus_id_ = cuda::pci_bus_id(options_.card);
  std::optional<cuda::CardUse> before = cuda::card_use(pci_bus_id_);
  used_before_bytes_ = before ? before->used_bytes : 0;
  others_bytes_ = before ? before->used_bytes - before->reserved_bytes : 0;

  check(cudaSetDevice(options_.card), "opening the card");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, options_.card), "looking at the card");
  card_name_ = properties.name;
  if (properties.major < kOldestMajor ||
      (properties.major == kOldestMajor && properties.minor < kOldestMinor)) {
    throw environment_error(
        fmt::format("{} has compute capability {}.{}: snug needs {}.{} (Turing) or newer; use --device cpu",
                    card_name_, properties.major, properties.minor, kOldestMajor, kOldestMinor));
  }
  shape_ = cuda::read_card_shape(options_.card);
  check(cudaStreamCreateWithFlags(&queue_.stream, cudaStreamNonBlocking), "opening the card");
  for (cudaEvent_t& event : marks_) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "opening the card");
  }
  blas_ = std::make_unique<cuda::Blas>(options_.tf32);
  queue_.blas = blas_.get();
  graphs_ = std::make_unique<cuda::GraphCache>(queue_.stream);
  synchronize();

  size_t free_bytes = 0;
  size_t all_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  total_bytes_ = static_cast<int64_t>(all_bytes);
  int64_t measured = driver_bytes();
  context_bytes_ = (measured > 0 ? measured : cuda::kTypicalContextBytes) + cuda::kLateLoadingBytes;
}

CudaBackend::~CudaBackend() {
  graphs_.reset();
  blas_.reset();
  const Arena& device = arenas_.of(Home::device);
  const Arena& pinned = arenas_.of(Home::pinned);
  const Arena& host = arenas_.of(Home::host);
  // Nothing can be reported from here, and a card that failed has said so before.
  for (cudaEvent_t event : marks_) {
    cudaEventDestroy(event);
  }
  cudaStreamDestroy(queue_.stream);
  cudaFree(device.data);
  cudaFreeHost(pinned.data);
  if (host.data != nullptr) {
    ::munmap(host.data, static_cast<size_t>(host.bytes));
  }
}

std::string CudaBackend::label() const {
  return fmt::format("cuda:{}", options_.card);
}

std::string CudaBackend::description() const {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  std::optional<cuda::CardUse> use = cuda::card_use(pci_bus_id_);
  std::string others = use ? cuda::describe_others(*use) : "";
  return fmt::format("{}, {} of {} free{}{}", card_name_, format_bytes(static_cast<int64_t>(free_bytes)),
                     format_bytes(static_cast<int64_t>(all_bytes)),
                     use ? fmt::format(", driver {}", use->driver_version) : "",
                     others.empty() ? "" : "; " + others);
}

DeviceIdentity CudaBackend::identity() const {
  std::optional<cuda::CardUse> use = cuda::card_use(pci_bus_id_);
  return {.model = card_name_, .driver = use ? use->driver_version : ""};
}

std::optional<CardHealth> CudaBackend::health() const {
  return cuda::card_health(pci_bus_id_);
}

DeviceRates CudaBackend::assumed_rates(DType dtype) const {
  return cuda::rates_of(shape_, dtype, options_.tf32);
}

DeviceRates CudaBackend::rates(DType dtype) const {
  const cuda::Calibration& known = calibration();
  return known.reached ? cuda::measured_rates(shape_, dtype, options_.tf32, *known.reached)
                       : assumed_rates(dtype);
}

RatesOrigin CudaBackend::rates_origin() const {
  return {.is_measured = calibration().reached.has_value(), .text = calibration().text};
}

std::string CudaBackend::find_measuring_obstacle() const {
  if (arenas_.of(Home::device).taken) {
    return "a plan is at work on it";
  }
  if (others_bytes_ >= kOthersAtWork) {
    return fmt::format("others hold {} of it, and may be at work", format_bytes(others_bytes_));
  }
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  int64_t needed = cuda::measuring_bytes(cuda::probed_dtype(shape_));
  return static_cast<int64_t>(free_bytes) >= needed
             ? ""
             : fmt::format("to measure it takes {}, which are not free", format_bytes(needed));
}

const cuda::Calibration& CudaBackend::calibration() const {
  if (!calibration_ && !options_.rates_folder) {
    calibration_ = {.reached = std::nullopt, .text = "assumed from the card's shape"};
  }
  if (!calibration_) {
    cuda::CardKey key{.uuid = cuda::uuid_of(options_.card),
                      .name = card_name_,
                      .capability = shape_.capability,
                      .multiprocessors = static_cast<int64_t>(shape_.multiprocessors),
                      .memory_bytes_hz = static_cast<int64_t>(shape_.memory_bytes_hz),
                      .driver = identity().driver,
                      .kernels = kKernelsVersion};
    calibration_ =
        cuda::calibrate({.key = std::move(key),
                         .shape = shape_,
                         .find_obstacle = [&] { return find_measuring_obstacle(); },
                         .measure = [&] { return cuda::measure_probes(queue_, cuda::probed_dtype(shape_)); }},
                        *options_.rates_folder, options_.measure_again);
  }
  return *calibration_;
}

int64_t CudaBackend::driver_bytes() const {
  std::optional<cuda::CardUse> use = cuda::card_use(pci_bus_id_);
  if (!use) {
    return 0;
  }
  return cuda::own_card_bytes(*use).value_or(use->used_bytes - used_before_bytes_);
}

std::byte* CudaBackend::allocate_on_card(int64_t bytes) {
  void* address = nullptr;
  cudaError_t status = cudaMalloc(&address, static_cast<size_t>(bytes));
  if (status != cudaErrorMemoryAllocation) {
    check(status, "taking the card's memory");
    return static_cast<std::byte*>(address);
  }
  (void)cudaGetLastError();  // a refusal leaves the card usable
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory");
  std::optional<cuda::CardUse> use = cuda::card_use(pci_bus_id_);
  std::string others = use ? cuda::describe_others(*use) : "";
  int cards = 0;
  check(cudaGetDeviceCount(&cards), "looking for cards");
  throw environment_error(fmt::format(
      "the plan needs {} ({} bytes) of {}, but only {} of its {} are free{}. Stop what holds the rest, {}or "
      "plan for what is free: --memory {}MiB",
      format_bytes(bytes), bytes, card_name_, format_bytes(static_cast<int64_t>(free_bytes)),
      format_bytes(static_cast<int64_t>(all_bytes)), others.empty() ? "" : ": " + others,
      cards > 1 ? "take the freest card (--device cuda:auto), " : "",
      (static_cast<int64_t>(free_bytes) + context_bytes_) >> 20));
}

std::byte* CudaBackend::allocate_arena(Home home, int64_t bytes) {
  arenas_.require_free(home, bytes);
  void* address = nullptr;
  if (bytes > 0) {
    if (home == Home::device) {
      address = allocate_on_card(bytes);
    } else if (home == Home::pinned) {
      check(cudaHostAlloc(&address, static_cast<size_t>(bytes), cudaHostAllocDefault),
            "taking pinned memory of the machine (ulimit -l and the container's memory limit bound it)");
    } else {
      address = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (address == MAP_FAILED) {
        throw environment_error(fmt::format("the system refused {} ({} bytes) for the host arena: {}",
                                            format_bytes(bytes), bytes, std::strerror(errno)));
      }
      // Fewer page faults when it is first filled; a refusal costs speed only.
      ::madvise(address, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    }
  }
  arenas_.take(home, static_cast<std::byte*>(address), bytes);
  return static_cast<std::byte*>(address);
}

void CudaBackend::run(const KernelCall& call) {
  arenas_.announce(call);
  cuda::kernel_of(call.op.kind)(queue_, call);
}

void CudaBackend::run_phase(std::string_view phase, const Extents& extents,
                            const std::function<void()>& run_ops) {
  if (options_.graphs) {
    graphs_->run(std::string(phase), extents, run_ops);
  } else {
    run_ops();
  }
}

void CudaBackend::forget_phases() {
  synchronize();  // one of them may still be running
  graphs_ = std::make_unique<cuda::GraphCache>(queue_.stream);
}

void CudaBackend::upload(void* device, const void* host, int64_t bytes) {
  arenas_.announce(device, bytes);
  const auto* source = static_cast<const std::byte*>(host);
  bool is_pinned = arenas_.of(Home::pinned).contains(host);
  int64_t piece = is_pinned ? bytes : kSmallCopyBytes;
  for (int64_t done = 0; done < bytes; done += piece) {
    auto now = static_cast<size_t>(std::min(piece, bytes - done));
    check(cudaMemcpyAsync(static_cast<std::byte*>(device) + done, source + done, now, cudaMemcpyDefault,
                          queue_.stream),
          "copying to the card");
  }
}

void CudaBackend::download(void* host, const void* device, int64_t bytes) {
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDefault, queue_.stream),
        "copying from the card");
  synchronize();
}

void CudaBackend::quantise(const CodePiece& piece) {
  arenas_.announce(piece.codes, piece.code_bytes());
  arenas_.announce(piece.scales, piece.units() * size_of(DType::f32));
  cuda::quantise(queue_.stream, piece);
}

void CudaBackend::synchronize() {
  check(cudaStreamSynchronize(queue_.stream), "waiting for the card");
}

uint64_t CudaBackend::mark() {
  check(cudaEventRecord(marks_[next_mark_ % kKeptMarks], queue_.stream), "marking a place on the stream");
  return next_mark_++;
}

void CudaBackend::wait_for(uint64_t mark) {
  SNUG_CHECK(mark < next_mark_ && mark + kKeptMarks >= next_mark_, "the mark is not kept any more");
  check(cudaEventSynchronize(marks_[mark % kKeptMarks]), "waiting for the card");
}

std::string cuda_libraries() {
  size_t blas = cublasLtGetVersion();
  return fmt::format("CUDA {}.{}, cuBLASLt {}.{}.{}", CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100,
                     blas / 10000, blas / 100 % 100, blas % 100);
}

}  // namespace snug
