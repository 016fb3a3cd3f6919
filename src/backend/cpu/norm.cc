// RMS norm: y = x * rsqrt(mean(x^2) + epsilon) * w, its gradient, and its fusion with the residual add.
// Everything is computed in fp32, one row at a time. For bf16 the normalised value is rounded before it is
// multiplied with w, as Hugging Face's LlamaRMSNorm does.
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/norm_rows.h"

namespace snug::cpu {
namespace {

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

int64_t rms_norm_backward_workspace(const Program& program, const Op& op, int /*threads*/) {
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
