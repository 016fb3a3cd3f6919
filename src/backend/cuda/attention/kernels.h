// Attention's kernels by kind of card, behind the launchers of launch.h.
#pragma once

#include <type_traits>

#include "backend/cuda/attention/work.cuh"

namespace snug::cuda {

struct Card {
  int shared_limit_bytes = 0;
  int processors = 0;
  bool has_bf16 = false;  // tensor cores, in the code that was built
};

// Any dtype, head size and alignment, without tensor cores.
cudaError_t plain_forward(const AttentionArguments& a, cudaStream_t stream);
cudaError_t plain_backward_queries(const AttentionArguments& a, cudaStream_t stream);
cudaError_t plain_backward_keys(const AttentionArguments& a, cudaStream_t stream);

// fp16 and bf16, head sizes that are multiples of 8, rows aligned to 16 bytes.
cudaError_t tensor_core_forward(const AttentionArguments& a, int64_t shared_limit_bytes, cudaStream_t stream);
cudaError_t tensor_core_backward_queries(const AttentionArguments& a, int64_t shared_limit_bytes,
                                         cudaStream_t stream);
cudaError_t tensor_core_backward_keys(const AttentionArguments& a, int64_t shared_limit_bytes,
                                      cudaStream_t stream);

// Likewise, both gradients at once; head sizes up to 128, without bias and dropout. False: not for this.
bool one_pass_backward(AttentionArguments a, const Card& card, cudaStream_t stream, cudaError_t& status);

// Hopper only, head sizes up to 128, with dropout up to kMostDroppedColumns. False: not for this card or this
// head; nothing was launched.
bool hopper_forward(const AttentionArguments& a, cudaStream_t stream, cudaError_t& status);
bool hopper_backward(AttentionArguments a, cudaStream_t stream, cudaError_t& status);

// Calls launch(T{}, dropout) with the type of half-precision numbers and whether weights are dropped, as a
// constant.
template <typename Launch>
cudaError_t for_half_precision(const AttentionArguments& a, const Launch& launch) {
  auto with_type = [&](auto number) {
    return a.p.random == nullptr ? launch(number, std::false_type{}) : launch(number, std::true_type{});
  };
  return a.p.number == AttentionNumber::f16 ? with_type(__half{}) : with_type(__nv_bfloat16{});
}

// What the gradients start from: AttentionArguments::rows; for the gradient in one pass, whose tiles were
// set, also turns and key_tiles.
void set_gradient_tiles(AttentionArguments& a, int keys, int queries);
cudaError_t make_rows(const AttentionArguments& a, cudaStream_t stream);

// dq = scale * dq_sums, rounded.
cudaError_t round_query_gradient(const AttentionArguments& a, cudaStream_t stream);

// The code that runs on this card, in any of attention's kernels.
cudaError_t attributes_of_built_code(cudaFuncAttributes& attributes);

// dbias[buckets, heads] += the sum of `tiles` partials [tiles, heads, buckets], in order.
cudaError_t reduce_bias_gradient(const AttentionArguments& a, int64_t tiles, cudaStream_t stream);

struct LaunchShape {
  int64_t blocks = 0;
  int threads = 0;
  int shared_bytes = 0;
  int parts = 1;    // the grid's second dimension
  int cluster = 1;  // blocks in a row that can read each other's shared memory (Hopper)
  // It may start while the kernel before it ends (Hopper): it calls wait_for_kernel_before, that one
  // let_next_kernel_start.
  bool starts_early = false;
};

// How many of its clusters can be at work at once on the whole card; 0: it cannot run.
template <typename Kernel>
int count_clusters(Kernel kernel, const LaunchShape& shape) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.cluster));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
  if (status != cudaSuccess || cudaOccupancyMaxActiveClusters(&count, kernel, &config) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

template <typename Kernel, typename... More>
cudaError_t launch_attention(Kernel kernel, const AttentionArguments& a, const LaunchShape& shape,
                             cudaStream_t stream, const More&... more) {
  cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
  if (status != cudaSuccess) {
    return status;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks), static_cast<unsigned>(shape.parts));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
  }
  if (shape.starts_early) {
    cudaLaunchAttribute& early = attributes[config.numAttrs++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, a, more...);
}

}  // namespace snug::cuda
