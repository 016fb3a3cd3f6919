// attention and its gradient: from buffers of a program to the arguments of the launchers.
#include "backend/cuda/attention/launch.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"

namespace snug::cuda {
namespace {

void* column(const Tensor& tensor, int64_t index) {
  return tensor.data == nullptr ? nullptr : tensor.as<std::byte>() + index * size_of(tensor.dtype);
}

AttentionParameters actual(const KernelCall& call) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  const Tensor& q = call.inputs[0];
  const Tensor& kv = call.inputs[1];
  AttentionParameters parameters = attention_shape(attributes, q.dtype);
  parameters.q = column(q, attributes.q_column);
  parameters.k = column(kv, attributes.k_column);
  parameters.v = column(kv, attributes.v_column);
  parameters.q_stride = q.columns();
  parameters.kv_stride = kv.columns();
  parameters.q_offsets = call.inputs[2].as<int32_t>();
  parameters.kv_offsets = call.inputs[3].as<int32_t>();
  parameters.queries = q.rows();
  parameters.keys = kv.rows();
  parameters.sequences = call.inputs[2].rows() - 1;
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
  parameters.bias = call.inputs.size() > 4 ? call.inputs[4].data : nullptr;
  parameters.random = random_of(call, 5);
  parameters.o = call.outputs[0].data;
  parameters.lse = call.outputs[1].as<float>();
  check(attention_forward(parameters, queue.stream), "attention");
}

// dq =, dkv =, dbias (= or +=). Queries, keys and values in one buffer have one gradient buffer.
void attention_backward(const Queue& queue, const KernelCall& call) {
  const auto& attributes = attributes_of<AttentionAttributes>(call.op);
  AttentionParameters parameters = actual(call);
  parameters.o = call.inputs[4].data;
  parameters.lse = call.inputs[5].as<float>();
  parameters.dout = call.inputs[6].data;
  parameters.bias = call.inputs.size() > 7 ? call.inputs[7].data : nullptr;
  parameters.random = random_of(call, 8);
  const Tensor& dq = call.outputs[0];
  const Tensor& dkv = call.outputs[1];
  parameters.dq = column(dq, attributes.q_column);
  parameters.dk = column(dkv, attributes.k_column);
  parameters.dv = column(dkv, attributes.v_column);
  parameters.dq_stride = dq.columns();
  parameters.dkv_stride = dkv.columns();
  if (call.outputs.size() > 2 && call.outputs[2].data != nullptr) {
    const Tensor& dbias = call.outputs[2];
    parameters.dbias = dbias.data;
    parameters.dbias_is_f32 = dbias.dtype == DType::f32;
    if (!call.op.accumulates_output(2)) {
      check(cudaMemsetAsync(dbias.data, 0, static_cast<size_t>(dbias.elements() * size_of(dbias.dtype)),
                            queue.stream),
            "clearing a gradient");
    }
  }
  check(attention_backward(parameters, queue.stream), "the gradient of attention");
}

}  // namespace snug::cuda
