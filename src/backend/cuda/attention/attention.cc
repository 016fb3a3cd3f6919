// attention and its gradient: from buffers of a program to the arguments of the launchers.
#include "backend/cuda/attention/launch.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

void* column(const Tensor& tensor, int64_t index) {
  return tensor.data == nullptr ? nullptr : tensor.as<std::byte>() + index * size_of(tensor.dtype);
}

// Of both: the gradient has these inputs at the same places.
AttentionParameters actual(const KernelCall& call) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  const Tensor& q = call.inputs[AttentionInput::q];
  const Tensor& kv = call.inputs[AttentionInput::kv];
  AttentionParameters parameters = attention_shape(attributes, q.dtype);
  parameters.q = column(q, attributes.q_column);
  parameters.k = column(kv, attributes.k_column);
  parameters.v = column(kv, attributes.v_column);
  parameters.q_stride = q.columns();
  parameters.kv_stride = kv.columns();
  parameters.q_offsets = call.inputs[AttentionInput::q_offsets].as<int32_t>();
  parameters.kv_offsets = call.inputs[AttentionInput::kv_offsets].as<int32_t>();
  parameters.queries = q.rows();
  parameters.keys = kv.rows();
  parameters.sequences = call.inputs[AttentionInput::q_offsets].rows() - 1;
  parameters.workspace = call.workspace.data();
  return parameters;
}

const int64_t* random_of(const KernelCall& call, size_t place) {
  return attributes_of<AttentionAttributes>(call.op).dropout.probability > 0
             ? call.inputs[place].as<int64_t>()
             : nullptr;
}

}  // namespace

// o =, lse =.
void attention(const Queue& queue, const KernelCall& call) {
  AttentionParameters parameters = actual(call);
  parameters.bias = call.has_input(AttentionInput::bias) ? call.inputs[AttentionInput::bias].data : nullptr;
  parameters.random = random_of(call, AttentionInput::random);
  parameters.o = call.outputs[0].data;
  parameters.lse = call.outputs[1].as<float>();
  check(attention_forward(parameters, queue.stream), "attention");
}

// dq =, dkv =, dbias (= or +=). Queries, keys and values in one buffer have one gradient buffer.
void attention_backward(const Queue& queue, const KernelCall& call) {
  using In = AttentionBackwardInput;
  using Out = AttentionBackwardOutput;
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  AttentionParameters parameters = actual(call);
  parameters.o = call.inputs[In::o].data;
  parameters.lse = call.inputs[In::lse].as<float>();
  parameters.dout = call.inputs[In::dout].data;
  parameters.bias = call.has_input(In::bias) ? call.inputs[In::bias].data : nullptr;
  parameters.random = random_of(call, In::random);
  const Tensor& dq = call.outputs[Out::dq];
  const Tensor& dkv = call.outputs[Out::dkv];
  parameters.dq = column(dq, attributes.q_column);
  parameters.dk = column(dkv, attributes.k_column);
  parameters.dv = column(dkv, attributes.v_column);
  parameters.dq_stride = dq.columns();
  parameters.dkv_stride = dkv.columns();
  if (call.has_output(Out::dbias)) {
    const Tensor& dbias = call.outputs[Out::dbias];
    parameters.dbias = dbias.data;
    parameters.dbias_is_f32 = dbias.dtype == DType::f32;
    if (!call.op.accumulates_output(Out::dbias)) {
      check(cudaMemsetAsync(dbias.data, 0, static_cast<size_t>(dbias.bytes()), queue.stream),
            "clearing a gradient");
    }
  }
  check(attention_backward(parameters, queue.stream), "the gradient of attention");
}

}  // namespace snug::cuda
