// RMS norm: y = x * rsqrt(mean(x^2) + epsilon) * w, its gradient, and its fusion with the residual add.
// Everything is computed in fp32, one row at a time. For bf16 the normalised value is rounded before it is
// multiplied with w, as Hugging Face's LlamaRMSNorm does.
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/kernel_functions.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

template <typename T>
float reciprocal_rms(const T* x, int64_t width, float epsilon) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; ++i) {
    float value = to_float(x[i]);
    sum += value * value;
  }
  return 1.0F / std::sqrt(sum / static_cast<float>(width) + epsilon);
}

template <bool kAccumulate, typename T, typename W>
void norm_row(const T* x, const W* weight, T* y, int64_t width, float epsilon) {
  float scale = reciprocal_rms(x, width, epsilon);
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    float normalised = to_float(round_to<T>(to_float(x[i]) * scale));
    store<kAccumulate>(y[i], normalised * to_float(weight[i]));
  }
}

// The gradient of w is a sum over tokens. Tokens are cut into blocks by their number alone, each block sums
// its rows in order, and the blocks are summed in order: the result does not depend on the thread count.
constexpr int64_t kMostBlocks = 64;
constexpr int64_t kBlockTokens = 32;

int64_t block_count(int64_t tokens) {
  return std::clamp<int64_t>((tokens + kBlockTokens - 1) / kBlockTokens, 1, kMostBlocks);
}

template <typename T, typename W>
struct BackwardRow {
  const T* x;
  const W* weight;
  const T* dy;
  T* dx;            // may be null, may be x or dy
  float* dw_block;  // may be null; += always
  int64_t width;
  float epsilon;

  // With n = x * scale and g = dy * w:  dx = scale * (g - n * mean(g * n)),  dw = sum of dy * n.
  template <bool kAccumulate>
  void run() const {
    float scale = reciprocal_rms(x, width, epsilon);
    if (dw_block != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        dw_block[i] += to_float(dy[i]) * to_float(x[i]) * scale;
      }
    }
    if (dx == nullptr) {
      return;
    }
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i) {
      dot += to_float(dy[i]) * to_float(weight[i]) * to_float(x[i]);
    }
    float pull = dot * scale * scale / static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      store<kAccumulate>(dx[i], scale * (to_float(dy[i]) * to_float(weight[i]) - to_float(x[i]) * pull));
    }
  }
};

template <bool kAccumulate, typename T, typename W>
void backward_blocks(const KernelCall& call, float* partials) {
  const Tensor& x = call.inputs[0];
  int64_t tokens = x.rows();
  int64_t width = x.columns();
  float epsilon = attributes_of<NormAttributes>(call.op).epsilon;
  int64_t blocks = block_count(tokens);
  T* dx = call.outputs[0].as<T>();
  parallel_for(blocks, 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      float* dw_block = partials == nullptr ? nullptr : partials + block * width;
      if (dw_block != nullptr) {
        std::fill_n(dw_block, width, 0.0F);
      }
      for (int64_t row = tokens * block / blocks; row < tokens * (block + 1) / blocks; ++row) {
        BackwardRow<T, W> work{.x = x.as<T>() + row * width,
                               .weight = call.inputs[1].as<W>(),
                               .dy = call.inputs[2].as<T>() + row * width,
                               .dx = dx == nullptr ? nullptr : dx + row * width,
                               .dw_block = dw_block,
                               .width = width,
                               .epsilon = epsilon};
        work.template run<kAccumulate>();
      }
    }
  });
}

// dw[D] (= or +=) the sum over the blocks of partials[block][D], block by block.
void sum_blocks(float* partials, int64_t blocks, const Tensor& dw, bool accumulate) {
  int64_t width = dw.elements();
  float* destination = dw.as<float>();
  parallel_for(width, 1024, [&](int64_t first, int64_t last) {
    for (int64_t block = 1; block < blocks; ++block) {
      const float* source = partials + block * width;
#pragma omp simd
      for (int64_t i = first; i < last; ++i) {
        partials[i] += source[i];
      }
    }
    for (int64_t i = first; i < last; ++i) {
      destination[i] = accumulate ? destination[i] + partials[i] : partials[i];
    }
  });
}

}  // namespace

void rms_norm(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  int64_t width = x.columns();
  float epsilon = attributes_of<NormAttributes>(call.op).epsilon;
  with_type(x.dtype, [&](auto activation) {
    with_type(call.inputs[1].dtype, [&](auto weight_type) {
      with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
        using T = typename decltype(activation)::type;
        using W = typename decltype(weight_type)::type;
        parallel_for(x.rows(), row_grain(width), [&](int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row) {
            norm_row<decltype(accumulate)::value>(x.as<T>() + row * width, call.inputs[1].as<W>(),
                                                  call.outputs[0].as<T>() + row * width, width, epsilon);
          }
        });
      });
    });
  });
}

void add_rms_norm(const KernelCall& call) {
  const Tensor& a = call.inputs[0];
  int64_t width = a.columns();
  float epsilon = attributes_of<NormAttributes>(call.op).epsilon;
  SNUG_CHECK(call.op.accumulates == 0, "add_rms_norm writes its outputs, it does not add to them");
  with_type(a.dtype, [&](auto activation) {
    with_type(call.inputs[2].dtype, [&](auto weight_type) {
      using T = typename decltype(activation)::type;
      using W = typename decltype(weight_type)::type;
      parallel_for(a.rows(), row_grain(width), [&](int64_t first, int64_t last) {
        for (int64_t row = first; row < last; ++row) {
          const T* left = a.as<T>() + row * width;
          const T* right = call.inputs[1].as<T>() + row * width;
          T* sum = call.outputs[0].as<T>() + row * width;
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) {
            sum[i] = round_to<T>(to_float(left[i]) + to_float(right[i]));
          }
          norm_row<false>(sum, call.inputs[2].as<W>(), call.outputs[1].as<T>() + row * width, width, epsilon);
        }
      });
    });
  });
}

int64_t rms_norm_backward_workspace(const Program& program, const Op& op) {
  if (op.outputs[1] == kNoBuffer) {
    return 0;
  }
  const Buffer& x = program.buffer(op.inputs[0]);
  return block_count(x.dims[0].max) * x.dims[1].max * static_cast<int64_t>(sizeof(float));
}

void rms_norm_backward(const KernelCall& call) {
  const Tensor& dw = call.outputs[1];
  auto* partials = dw.data == nullptr ? nullptr : reinterpret_cast<float*>(call.workspace.data());
  with_type(call.inputs[0].dtype, [&](auto activation) {
    with_type(call.inputs[1].dtype, [&](auto weight_type) {
      with_flag(call.op.accumulates_output(0), [&](auto accumulate) {
        using T = typename decltype(activation)::type;
        using W = typename decltype(weight_type)::type;
        backward_blocks<decltype(accumulate)::value, T, W>(call, partials);
      });
    });
  });
  if (partials != nullptr) {
    sum_blocks(partials, block_count(call.inputs[0].rows()), dw, call.op.accumulates_output(1));
  }
}

}  // namespace snug::cpu
