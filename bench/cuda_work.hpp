// Makes one set of operands for a case of cuda_cases.hpp, and the call on them.
#pragma once

#include <algorithm>
#include <cmath>
#include <codes_work.hpp>
#include <common/op_calls.hpp>
#include <functional>
#include <memory>
#include <tinytorch/data/digits.hpp>
#include <tinytorch/layers/activation.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/clip.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/pooling.hpp>
#include <tinytorch/layers/sequential.hpp>

#include "cuda_cases.hpp"

namespace bench {

inline Tensor leaf(const tt::Shape& shape, tt::DType dtype, tt::Device device) {
  Tensor x = normal(shape, dtype, device);
  x.requires_grad_();
  return x;
}
inline Tensors take_grads(Tensors& leaves) {
  Tensors grads;
  for (Tensor& t : leaves) {
    grads.push_back(t.grad());
    t.zero_grad();
  }
  return grads;
}

inline Work copy_work(const CudaCase& c, tt::Device device) {
  const tt::Shape shape(c.shape.begin(), c.shape.end());
  const Tensor x = normal(shape, c.dtype, device);
  Tensor to = tt::empty(shape, c.dtype, device);
  return [x, to]() mutable -> Tensors { return {to.copy_(x)}; };
}

// A row of OP, forward, or backward with the graph of a forward call that is kept. The weight of a linear
// layer is scaled, so that the results have the size of the inputs.
inline Work row_work(const CudaCase& c, tt::Device device) {
  const Call call = call_of(c.row);
  const bool backward = c.op.ends_with("_backward"), linear = c.op.starts_with("linear_");
  Tensors in;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const tt::Shape shape(c.operands[i].begin(), c.operands[i].end());
    const bool is_weight = linear && i == 1;
    const Tensor x = normal(shape, is_weight ? tt::f32 : c.dtype, device);
    in.push_back(is_weight ? (x / std::sqrt(static_cast<double>(shape.back()))).to(c.dtype) : x);
    if (backward) in.back().requires_grad_();
  }
  Five t;
  std::ranges::copy(in, t.begin());
  if (!backward) return [t, call]() -> Tensors { return call.call(t).list; };
  const Tensor y = call.call(t).list[0], dy = normal(y.shape(), c.dtype, device);
  return [in, y, dy]() mutable -> Tensors {
    y.backward(dy, true);  // the graph is kept: only the backward kernels are called
    return take_grads(in);
  };
}

inline Work cross_entropy_work(const CudaCase& c, tt::Device device) {
  Tensors logits{leaf({c.shape[0], c.shape[1]}, c.dtype, device)};
  const Call call = call_of(c.row);
  const Tensor target = tt::randint(0, c.shape[1], {c.shape[0]}, tt::i64, device);
  return [logits, target, call]() mutable -> Tensors {
    const Tensor loss = call.call({logits[0], target}).list[0];
    loss.backward();
    Tensors out = take_grads(logits);
    out.push_back(loss.detach());
    return out;
  };
}

inline Work conv_work(const CudaCase& c, tt::Device device) {
  const auto option = [&](const char* name) { return c.options.at(name); };
  const tt::Conv2dOptions options{.stride = option("stride"), .padding = option("padding")};
  Tensors in{leaf({c.shape[0], c.shape[1], c.shape[2], c.shape[3]}, c.dtype, device),
             leaf({option("out"), c.shape[1], option("kernel"), option("kernel")}, c.dtype, device)};
  const Tensor dy = normal(tt::conv2d(in[0].detach(), in[1].detach(), {}, options).shape(), c.dtype, device);
  return [in, dy, options]() mutable -> Tensors {
    tt::conv2d(in[0], in[1], {}, options).backward(dy);
    return take_grads(in);
  };
}

inline Work attention_work(const CudaCase& c, tt::Device device) {
  Tensors in;
  for (int i = 0; i < 3; ++i)
    in.push_back(normal(tt::Shape(c.shape.begin(), c.shape.end()), c.dtype, device));
  const auto f = [](const Tensors& t) {
    return tt::scaled_dot_product_attention(t[0].transpose(1, 2), t[1].transpose(1, 2), t[2].transpose(1, 2),
                                            {.causal = true});
  };
  if (c.op == "attention") return [in, f]() -> Tensors { return {f(in)}; };
  for (Tensor& t : in) t.requires_grad_();
  const Tensor y = f(in), dy = normal(in[0].shape(), c.dtype, device).transpose(1, 2);
  return [in, y, dy]() mutable -> Tensors {
    y.backward(dy, true);  // the graph is kept: only the backward kernels are called
    return take_grads(in);
  };
}

inline Work decode_work(const CudaCase& c, tt::Device device) {
  const DecodeShape shape = DecodeShape::of(c.options);
  const tt::KvMemory memory = filled_cache(shape, 1, device);
  const Tensor q = normal({shape.sequences, shape.heads, shape.head_size}, c.dtype, device);
  return [memory, q]() -> Tensors { return {tt::cached_attention(q, memory)}; };
}
inline Work append_work(const CudaCase& c, tt::Device device) {
  const DecodeShape shape = DecodeShape::of(c.options);
  const int64_t rows = c.options.at("rows");
  const tt::KvMemory memory = filled_cache(shape, rows, device);
  const tt::Shape step{shape.sequences * rows, shape.groups, shape.head_size};
  const Tensor k = normal(step, c.dtype, device), v = normal(step, c.dtype, device);
  return [memory, k, v]() -> Tensors {
    tt::kv_append(memory, k, v);
    return {};
  };
}

inline Work adamw_work(const CudaCase& c, tt::Device device) {
  tt::NamedTensors parameters;
  for (const tt::Shape& shape : CudaCaseList::adamw_shapes(c.shape)) {
    parameters.push_back({"p" + std::to_string(parameters.size()), leaf(shape, tt::f32, device)});
    parameters.back().tensor.set_grad(normal(shape, tt::f32, device));
  }
  const auto optimizer = std::make_shared<tt::AdamW>(parameters);
  // The limit is below the norm, so every step scales.
  return [optimizer, limit = 1e3]() mutable -> Tensors {
    optimizer->step_clipped(limit);
    limit *= 0.999;
    return {};
  };
}

// The net of examples/digits_conv.cpp: forward, backward and AdamW.
inline Work digits_work(const CudaCase& c, tt::Device device) {
  const auto stage = [](int64_t in, int64_t out) {
    return tt::Sequential(tt::Conv2d(in, out, 3, {.padding = 1}, false), tt::BatchNorm2d(out), tt::ReLU(),
                          tt::MaxPool2d(2));
  };
  const auto model = std::make_shared<tt::Sequential>(stage(1, 8), stage(8, 16), tt::Flatten(),
                                                      tt::Linear(784, 64), tt::ReLU(), tt::Linear(64, 10));
  model->to(device);
  const auto optimizer = std::make_shared<tt::AdamW>(model->named_parameters());
  const tt::Digits digits = tt::digits(c.shape[0], 1);
  const Tensor images = digits.images.to(device), labels = digits.labels.to(device);
  return [model, optimizer, images, labels]() -> Tensors {
    optimizer->zero_grad();
    const Tensor loss = tt::cross_entropy((*model)(images), labels);
    loss.backward();
    optimizer->step();
    return {loss.detach()};
  };
}

// Makes the calls of a case; the result is null if the case is unknown.
inline Work make_work(const CudaCase& c, tt::Device device) {
  if (c.op == "copy") return copy_work(c, device);
  if (c.op == "cross_entropy") return cross_entropy_work(c, device);
  if (c.op == "conv2d") return conv_work(c, device);
  if (c.op.starts_with("attention")) return attention_work(c, device);
  if (c.op == "decode") return decode_work(c, device);
  if (c.op == "kv_append") return append_work(c, device);
  if (is_codes_op(c.op)) return codes_work(c, device);
  if (c.op == "adamw") return adamw_work(c, device);
  if (c.op == "digits_step") return digits_work(c, device);
  if (c.op == "gpt2_step") return Gpt2Step::of(c.shape, c.options).work(c.dtype, device);
  return c.row.empty() ? nullptr : row_work(c, device);
}

}  // namespace bench
