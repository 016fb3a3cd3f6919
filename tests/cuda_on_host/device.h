// What nvcc gives to kernels beyond C++, for a host's compiler: included before everything else of a kernel's
// file (translate.cmake makes such files of .cu). CUDA's own headers know the rest.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <math.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include "cuda_on_host/grid.h"
#include "cuda_on_host/host_card.h"
#include "cuda_on_host/stream.h"

#undef __shared__
// Of blocks that come one after another, as those without dynamic shared memory do: none of them waits for
// another.
#define __shared__ static __attribute__((section("snug_shared")))
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

inline const snug::cuda_on_host::Index& threadIdx = snug::cuda_on_host::here.thread;
inline const snug::cuda_on_host::Index& blockIdx = snug::cuda_on_host::here.block;
inline const snug::cuda_on_host::Index& blockDim = snug::cuda_on_host::here.threads;
inline const snug::cuda_on_host::Index& gridDim = snug::cuda_on_host::here.blocks;

// ---- launches: kernel<<<blocks, threads, bytes, stream>>>(arguments), and by a configuration ----

namespace snug::cuda_on_host {

inline Index index_of(const dim3& size) {
  return {size.x, size.y, size.z};
}

// What a kernel is given is copied when it is launched.
template <typename... Arguments>
struct Launch {
  Grid grid;
  std::tuple<Arguments...> arguments;
};

// Launching{...}(arguments) is a Launch, and kernel->*Launch enqueues it.
struct Launching {
  Grid grid;

  Launching(const dim3& blocks, const dim3& threads, size_t shared_bytes = 0, cudaStream_t = nullptr)
      : grid{index_of(blocks), index_of(threads), shared_bytes} {}
  template <typename... Arguments>
  Launch<std::decay_t<Arguments>...> operator()(Arguments&&... arguments) const {
    return {grid, {std::forward<Arguments>(arguments)...}};
  }
};

// What calls a kernel, whose template arguments may follow from what it is given.
template <typename Call>
struct Kernel {
  Call call;
};
template <typename Call>
Kernel<Call> a_kernel(Call call) {
  return {call};
}

template <typename Call, typename... Arguments>
void operator->*(const Kernel<Call>& kernel, const Launch<Arguments...>& launch) {
  enqueue([=] { run_grid(launch.grid, [&] { std::apply(kernel.call, launch.arguments); }); });
}

template <typename T>
T exchanged(T value, int source) {
  struct Exchange {
    T given;
    T got;
    int source;
  };
  Exchange mine{value, value, source};
  meet(Those::warp, &mine, [](void* const* given, int count) {
    for (int i = 0; i < count; ++i) {
      auto* taker = static_cast<Exchange*>(given[i]);
      if (taker == nullptr || taker->source < 0 || taker->source >= count) {
        continue;  // out of the warp: what it gave
      }
      const auto* giver = static_cast<const Exchange*>(given[taker->source]);
      if (giver == nullptr) {
        fail("a thread asks for a value of one that has ended");
      }
      taker->got = giver->given;
    }
  });
  return mine.got;
}

// How many of those who meet say yes.
inline int count_yes(Those those, bool yes) {
  struct Vote {
    bool yes;
    int count;
  };
  Vote mine{yes, 0};
  meet(those, &mine, [](void* const* given, int count) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      found += given[i] != nullptr && static_cast<Vote*>(given[i])->yes ? 1 : 0;
    }
    for (int i = 0; i < count; ++i) {
      if (given[i] != nullptr) {
        static_cast<Vote*>(given[i])->count = found;
      }
    }
  });
  return mine.count;
}

// The lanes that say yes.
inline unsigned ballot(bool yes) {
  struct Vote {
    bool yes;
    unsigned lanes;
  };
  Vote mine{yes, 0};
  meet(Those::warp, &mine, [](void* const* given, int count) {
    unsigned lanes = 0;
    for (int i = 0; i < count; ++i) {
      lanes |= given[i] != nullptr && static_cast<Vote*>(given[i])->yes ? 1U << i : 0U;
    }
    for (int i = 0; i < count; ++i) {
      if (given[i] != nullptr) {
        static_cast<Vote*>(given[i])->lanes = lanes;
      }
    }
  });
  return mine.lanes;
}

}  // namespace snug::cuda_on_host

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  snug::cuda_on_host::Grid grid{snug::cuda_on_host::index_of(config->gridDim),
                                snug::cuda_on_host::index_of(config->blockDim), config->dynamicSmemBytes};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      grid.cluster = config->attrs[i].val.clusterDim.x;
    }
  }
  std::tuple<std::decay_t<Parameters>...> held(arguments...);
  snug::cuda_on_host::enqueue([=] { snug::cuda_on_host::run_grid(grid, [&] { std::apply(kernel, held); }); });
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel*) {
  attributes->maxThreadsPerBlock = snug::cuda_on_host::most_threads_of_hopper();
  attributes->ptxVersion = snug::cuda_on_host::capability();
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* count, Kernel*, const cudaLaunchConfig_t* config) {
  *count = snug::cuda_on_host::clusters_at_once(config->gridDim.x);
  return cudaSuccess;
}

// ---- threads together ----

inline void __syncthreads() {
  snug::cuda_on_host::meet(snug::cuda_on_host::Those::block);
}
inline int __syncthreads_or(int yes) {
  return snug::cuda_on_host::count_yes(snug::cuda_on_host::Those::block, yes != 0) > 0 ? 1 : 0;
}
inline void __syncwarp(unsigned = ~0U) {
  snug::cuda_on_host::meet(snug::cuda_on_host::Those::warp);
}
inline unsigned __ballot_sync(unsigned /*mask*/, int yes) {
  return snug::cuda_on_host::ballot(yes != 0);
}
template <typename T>
T __shfl_sync(unsigned /*mask*/, T value, int source, int width = snug::cuda_on_host::kWarpThreads) {
  return snug::cuda_on_host::exchanged(value, snug::cuda_on_host::lane() / width * width + source % width);
}
template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int mask) {
  return snug::cuda_on_host::exchanged(value, snug::cuda_on_host::lane() ^ mask);
}
template <typename T>
T __shfl_down_sync(unsigned /*mask*/, T value, unsigned distance) {
  return snug::cuda_on_host::exchanged(value, snug::cuda_on_host::lane() + static_cast<int>(distance));
}
template <typename T>
T __shfl_up_sync(unsigned /*mask*/, T value, unsigned distance) {
  return snug::cuda_on_host::exchanged(value, snug::cuda_on_host::lane() - static_cast<int>(distance));
}
inline void __nanosleep(unsigned /*nanoseconds*/) {}
inline void __threadfence() {}
template <typename T>
T atomicAdd(T* target, T value) {
  T before = *target;
  *target = before + value;
  return before;
}
[[noreturn]] inline void __trap() {
  snug::cuda_on_host::fail("__trap()");
}

// ---- numbers ----

template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
template <typename T>
T __ldg(const T* source) {
  return *source;
}
template <typename T>
T __ldcg(const T* source) {
  return *source;
}
template <typename T>
T __ldcs(const T* source) {
  return *source;
}
template <typename T>
void __stcg(T* target, const T& value) {
  *target = value;
}
inline float __fmul_rn(float a, float b) {
  volatile float product = a * b;  // no part of a fused sum
  return product;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fdividef(float a, float b) {
  return a / b;
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}
inline float normcdff(float x) {
  return 0.5F * std::erfc(-x * 0.70710678F);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline int __popc(unsigned value) {
  return std::popcount(value);
}
inline int __ffs(int value) {
  return ffs(value);
}
// Four bytes of a (0 to 3) and b (4 to 7).
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t both = uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    unsigned choice = selector >> 4 * i & 7U;
    result |= static_cast<unsigned>(both >> 8 * choice & 0xffU) << 8 * i;
  }
  return result;
}
