// linear and its gradients: one GEMM each. A weight of codes is dequantised block by block on the way.
#include <algorithm>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "base/threads.h"

namespace snug::cpu {
namespace {

GemmSizes sizes_of(const Buffer& a, const Buffer& b, const Buffer& c, int64_t k) {
  return {c.dims[0].max, c.dims[1].max, k, a.format, b.format, c.format};
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

}  // namespace

// y [T,out] = or += scale * x [T,in] W^T [in,out] + bias [out].
void linear(const KernelCall& call) {
  Scratch scratch(call.workspace);
  Gemm product;
  CodeLayout layout;
  product.a = matrix(call.inputs[0]);
  product.b = weight_matrix(call.inputs[1], layout);
  product.c = matrix(call.outputs[0]);
  product.transpose_b = true;
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  if (call.inputs.size() > 2 && call.inputs[2].data != nullptr) {
    const Tensor& bias = call.inputs[2];
    float* floats = scratch.take<float>(bias.elements());
    load_block({bias.data, bias.dtype, 1, bias.elements(), bias.elements()}, floats, bias.elements());
    product.bias = floats;
  }
  gemm(product, scratch.rest());
}

int64_t linear_workspace(const Program& program, const Op& op, int threads) {
  const Buffer& x = program.buffer(op.inputs[0]);
  const Buffer& weight = program.buffer(op.inputs[1]);
  int64_t bias_bytes = op.has_input(2) ? padded_bytes_of<float>(weight.dims[0].max) : 0;
  return bias_bytes + gemm_workspace_bytes(
                          sizes_of(x, weight, program.buffer(op.outputs[0]), weight.dims[1].max), threads);
}

// dx [T,in] = or += scale * dy [T,out] W [out,in].
void linear_backward_input(const KernelCall& call) {
  Gemm product;
  CodeLayout layout;
  product.a = matrix(call.inputs[0]);
  product.b = weight_matrix(call.inputs[1], layout);
  product.c = matrix(call.outputs[0]);
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  gemm(product, call.workspace);
}

int64_t linear_backward_input_workspace(const Program& program, const Op& op, int threads) {
  const Buffer& weight = program.buffer(op.inputs[1]);
  return gemm_workspace_bytes(
      sizes_of(program.buffer(op.inputs[0]), weight, program.buffer(op.outputs[0]), weight.dims[0].max),
      threads);
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
