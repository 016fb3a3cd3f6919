// linear and its gradients: one GEMM each. A weight of codes is dequantised block by block on the way; what
// meets one of fp8 is rounded to 8 bits as well (base/float8.h).
#include <algorithm>
#include <cmath>

#include "backend/adapted_calls.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

bool is_fp8(const Format& format) {
  return format.coding == Coding::fp8;
}

GemmSizes sizes_of(const Buffer& a, const Buffer& b, const Buffer& c, int64_t k) {
  return {c.dims[0].max, c.dims[1].max, k, is_fp8(b.format) ? b.format : a.format, b.format, c.format};
}

// What a matrix that a weight of fp8 is multiplied with takes: its rows' scales, and the weight's.
int64_t rounding_bytes(const Buffer& a, const Buffer& weight) {
  return is_fp8(weight.format)
             ? padded_bytes_of<float>(a.dims[0].max) + padded_bytes_of<float>(weight.dims[0].max)
             : 0;
}

template <typename T>
void find_scales(const Tensor& x, const RowRounding& rounding, float* scales) {
  parallel_for(x.rows(), row_grain(x.columns()), [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      const T* row = x.as<T>() + t * x.columns();
      float largest = 0;
      for (int64_t j = 0; j < x.columns(); ++j) {
        float by = rounding.column_scales != nullptr ? rounding.column_scales[j] : 1.0F;
        largest = std::max(largest, std::fabs(to_float(row[j]) * by));
      }
      scales[t] = float8_scale(rounding.kind, largest);
    }
  });
}

// x as it meets a weight of fp8: rounded row by row. Of a gradient, the products with the scales of the
// weight's rows are what is rounded: a card has them as 8 bits, and no place for a scale within a sum.
RowRounding rounding_of(const Tensor& x, const Tensor& weight, const CodeLayout& layout, Float8 kind,
                        Scratch& scratch) {
  RowRounding rounding{.kind = kind};
  if (kind == Float8::e5m2) {
    float* weight_scales = scratch.take<float>(weight.rows());
    for (int i = 0; i < layout.part_count; ++i) {
      const CodedPart& part = layout.parts[static_cast<size_t>(i)];
      std::copy_n(reinterpret_cast<const float*>(weight.as<std::byte>() + part.scales), part.rows,
                  weight_scales + part.row_begin);
    }
    rounding.column_scales = weight_scales;
  }
  float* scales = scratch.take<float>(x.rows());
  with_type(x.dtype, [&](auto tag) { find_scales<typename decltype(tag)::type>(x, rounding, scales); });
  rounding.row_scales = scales;
  return rounding;
}

// dbias [out] += sum over tokens of dy [T,out]; each thread owns some columns. fp32 sums.
template <typename T>
void add_column_sums(const Tensor& dy, float* dbias) {
  parallel_for(dy.columns(), row_grain(dy.rows()), [&](int64_t first, int64_t last) {
    for (int64_t t = 0; t < dy.rows(); ++t) {
      const T* row = dy.as<T>() + t * dy.columns();
      for (int64_t j = first; j < last; ++j) {
        dbias[j] += to_float(row[j]);
      }
    }
  });
}

// c = or += scale * a W, or W^T and a bias, as `product` says: a is the op's first input, W its second.
// Beside a weight of fp8, a is rounded to 8 bits of this kind.
void multiply_with_weight(const KernelCall& call, Gemm product, Float8 kind, Scratch& scratch) {
  CodeLayout layout;
  product.a = matrix(call.inputs[0]);
  product.b = weight_matrix(call.inputs[1], layout);
  product.c = matrix(call.outputs[0]);
  RowRounding rounding;
  if (is_fp8(product.b.format())) {
    rounding = rounding_of(call.inputs[0], call.inputs[1], layout, kind, scratch);
    product.a.rounding = &rounding;
  }
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  gemm(product, scratch.rest());
}

}  // namespace

// y [T,out] = or += scale * x [T,in] W^T [in,out] + bias [out].
void linear(const KernelCall& call) {
  if (has_adapter(call.op)) {
    run_adapted_apart(call, lora_up, linear);
    return;
  }
  Scratch scratch(call.workspace);
  Gemm product;
  product.transpose_b = true;
  if (call.inputs.size() > 2 && call.inputs[2].data != nullptr) {
    const Tensor& bias = call.inputs[2];
    float* floats = scratch.take<float>(bias.elements());
    load_block({bias.data, bias.dtype, 1, bias.elements(), bias.elements()}, floats, bias.elements());
    product.bias = floats;
  }
  multiply_with_weight(call, product, Float8::e4m3, scratch);
}

int64_t linear_workspace(const Program& program, const Op& op, int threads) {
  const Buffer& x = program.buffer(op.inputs[0]);
  const Buffer& weight = program.buffer(op.inputs[1]);
  int64_t bias_bytes = op.has_input(2) ? padded_bytes_of<float>(weight.dims[0].max) : 0;
  int64_t bytes =
      bias_bytes + rounding_bytes(x, weight) +
      gemm_workspace_bytes(sizes_of(x, weight, program.buffer(op.outputs[0]), weight.dims[1].max), threads);
  return has_adapter(op) ? std::max(bytes, lora_up_workspace(program, adapter_of(op), threads)) : bytes;
}

// dx [T,in] = or += scale * dy [T,out] W [out,in].
void linear_backward_input(const KernelCall& call) {
  if (has_adapter(call.op)) {
    run_adapted_apart(call, linear_backward_input, linear_backward_input);
    return;
  }
  Scratch scratch(call.workspace);
  multiply_with_weight(call, {}, Float8::e5m2, scratch);
}

int64_t linear_backward_input_workspace(const Program& program, const Op& op, int threads) {
  const Buffer& dy = program.buffer(op.inputs[0]);
  const Buffer& weight = program.buffer(op.inputs[1]);
  GemmSizes sizes = {dy.dims[0].max,     weight.dims[1].max,
                     weight.dims[0].max, is_fp8(weight.format) ? weight.format : dy.format,
                     weight.format,      dy.format};
  int64_t bytes = rounding_bytes(dy, weight) + gemm_workspace_bytes(sizes, threads);
  return has_adapter(op) ? std::max(bytes, linear_backward_input_workspace(program, adapter_of(op), threads))
                         : bytes;
}

// dW [out,in] = or += scale * dy^T [out,T] x [T,in]; dbias [out] = or += column sums of dy.
void linear_backward_weight(const KernelCall& call) {
  const Tensor& dy = call.inputs[0];
  const Tensor& dweight = call.outputs[0];
  if (dweight.data != nullptr) {
    Gemm product;
    product.a = matrix(dy);
    product.b = matrix(call.inputs[1]);
    product.c = matrix(dweight);
    product.transpose_a = true;
    product.alpha = attributes_of<LinearAttributes>(call.op).scale;
    product.accumulate = call.op.accumulates_output(0);
    gemm(product, call.workspace);
  }
  if (call.outputs.size() > 1 && call.outputs[1].data != nullptr) {
    float* dbias = call.outputs[1].as<float>();
    if (!call.op.accumulates_output(1)) {
      std::fill_n(dbias, dy.columns(), 0.0F);
    }
    with_type(dy.dtype, [&](auto tag) { add_column_sums<typename decltype(tag)::type>(dy, dbias); });
  }
}

int64_t linear_backward_weight_workspace(const Program& program, const Op& op, int threads) {
  if (!op.has_output(0)) {
    return 0;
  }
  const Buffer& dy = program.buffer(op.inputs[0]);
  return gemm_workspace_bytes(
      sizes_of(dy, program.buffer(op.inputs[1]), program.buffer(op.outputs[0]), dy.dims[0].max), threads);
}

}  // namespace snug::cpu
