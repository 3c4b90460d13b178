// Undefined tensors (never assigned, or moved from): every function throws an error that names the function
// and the caller's line.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace tt = tinytorch;

namespace {

struct Call {
  std::string op;
  std::function<void(const tt::Tensor&)> with;  // calls the function with the undefined tensor
};

const tt::Tensor x = tt::ones({2, 3}), mask = tt::ones({2, 3}) > 0, index = tt::zeros({2}, tt::i64);

std::vector<Call> undefined_cases() {
  using namespace tt;
  const Tensor image = ones({1, 2, 4, 4}), weight = ones({2, 2, 1, 1}), three = ones({3}),
               heads = ones({1, 1, 2, 3});
  std::vector<Call> all{
      {"neg", [](auto& u) { neg(u); }},
      {"neg", [](auto& u) { -u; }},
      {"clamp", [](auto& u) { clamp(u, 0, 1); }},
      {"logical_not", [](auto& u) { logical_not(u); }},
      {"exp", [](auto& u) { exp(u); }},
      {"leaky_relu", [](auto& u) { leaky_relu(u); }},
      {"add", [](auto& u) { add(u, x); }},
      {"add", [](auto& u) { add(x, u); }},
      {"add", [](auto& u) { x + u; }},
      {"add", [](auto& u) { u + 1; }},
      {"sub", [](auto& u) { 1 - u; }},
      {"div", [](auto& u) { u / 2; }},
      {"pow", [](auto& u) { pow(u, u); }},
      {"lt", [](auto& u) { (void)(u < 3); }},
      {"eq", [](auto& u) { (void)(u == x); }},
      {"logical_and", [](auto& u) { mask&& u; }},
      {"where", [](auto& u) { where(u, x, x); }},
      {"where", [](auto& u) { where(mask, u, x); }},
      {"where", [](auto& u) { where(mask, x, u); }},
      {"scalar_like", [](auto& u) { scalar_like(1, u); }},
      {"zeros_like", [](auto& u) { zeros_like(u); }},
      {"ones_like", [](auto& u) { ones_like(u); }},
      {"sum", [](auto& u) { sum(u); }},
      {"sum", [](auto& u) { u.sum(); }},
      {"mean", [](auto& u) { mean(u, {0}); }},
      {"var", [](auto& u) { var(u); }},
      {"stddev", [](auto& u) { stddev(u); }},
      {"logsumexp", [](auto& u) { logsumexp(u); }},
      {"norm", [](auto& u) { norm(u); }},
      {"argmax", [](auto& u) { argmax(u, 0); }},
      {"argmin", [](auto& u) { argmin(u, 0); }},
      {"cumsum", [](auto& u) { cumsum(u, 0); }},
      {"reshape", [](auto& u) { reshape(u, {1}); }},
      {"flatten", [](auto& u) { flatten(u); }},
      {"transpose", [](auto& u) { transpose(u, 0, 1); }},
      {"permute", [](auto& u) { permute(u, {0}); }},
      {"squeeze", [](auto& u) { squeeze(u, 0); }},
      {"unsqueeze", [](auto& u) { unsqueeze(u, 0); }},
      {"expand", [](auto& u) { expand(u, {1}); }},
      {"slice", [](auto& u) { slice(u, 0, 0); }},
      {"select", [](auto& u) { select(u, 0, 0); }},
      {"select", [](auto& u) { u[0]; }},
      {"split", [](auto& u) { split(u, 1); }},
      {"chunk", [](auto& u) { chunk(u, 2); }},
      {"contiguous", [](auto& u) { contiguous(u); }},
      {"clone", [](auto& u) { clone(u); }},
      {"cast", [](auto& u) { cast(u, f64); }},
      {"cast", [](auto& u) { u.to(f64); }},
      {"to", [](auto& u) { u.to(cpu); }},
      {"cat",
       [](auto& u) {
         cat({x, u});
       }},
      {"cat",
       [](auto& u) {
         cat({u, x});
       }},
      {"stack",
       [](auto& u) {
         stack({x, u});
       }},
      {"stack", [](auto& u) { stack({u}); }},
      {"pad",
       [](auto& u) {
         pad(u, {{1, 1}});
       }},
      {"flip", [](auto& u) { flip(u, {0}); }},
      {"tril", [](auto& u) { tril(u); }},
      {"triu", [](auto& u) { triu(u); }},
      {"index_select", [](auto& u) { index_select(u, 0, index); }},
      {"index_select", [](auto& u) { index_select(x, 0, u); }},
      {"gather", [](auto& u) { gather(u, 0, index); }},
      {"gather", [](auto& u) { gather(x, 0, u); }},
      {"scatter_add", [](auto& u) { scatter_add(u, 0, index, x); }},
      {"scatter_add",
       [](auto& u) {
         scatter_add(x, 0, index.reshape({2, 1}), u);
       }},
      {"masked_fill", [](auto& u) { masked_fill(u, mask, 0); }},
      {"masked_fill", [](auto& u) { masked_fill(x, u, 0); }},
      {"sort", [](auto& u) { sort(u); }},
      {"topk", [](auto& u) { topk(u, 1); }},
      {"matmul", [](auto& u) { matmul(u, x); }},
      {"matmul", [](auto& u) { matmul(x, u); }},
      {"linear", [](auto& u) { linear(u, x); }},
      {"linear", [](auto& u) { linear(x, u); }},
      {"conv2d", [=](auto& u) { conv2d(u, weight); }},
      {"conv2d", [=](auto& u) { conv2d(image, u); }},
      {"max_pool2d", [](auto& u) { max_pool2d(u); }},
      {"avg_pool2d", [](auto& u) { avg_pool2d(u); }},
      {"adaptive_avg_pool2d", [](auto& u) { adaptive_avg_pool2d(u, 1, 1); }},
      {"softmax", [](auto& u) { softmax(u); }},
      {"log_softmax", [](auto& u) { log_softmax(u); }},
      {"layer_norm", [](auto& u) { layer_norm(u); }},
      {"rms_norm", [](auto& u) { rms_norm(u); }},
      {"batch_norm_train", [=](auto& u) { batch_norm_train(u, three, three); }},
      {"batch_norm_infer", [=](auto& u) { batch_norm_infer(u, three, three, three, three); }},
      {"batch_norm_infer", [=](auto& u) { batch_norm_infer(x, u, three, three, three); }},
      {"group_norm", [](auto& u) { group_norm(u, 1); }},
      {"bias_activation", [=](auto& u) { bias_activation(u, three, Activation::relu); }},
      {"bias_activation", [](auto& u) { bias_activation(x, u, Activation::relu); }},
      {"linear_activation", [](auto& u) { linear_activation(u, x, {}, Activation::relu); }},
      {"linear_activation", [](auto& u) { linear_activation(x, u, {}, Activation::relu); }},
      {"linear_residual", [](auto& u) { linear_residual(u, x, {}, x); }},
      {"linear_residual", [](auto& u) { linear_residual(x, x, {}, u); }},
      {"mlp", [](auto& u) { mlp(u, x, {}, x, {}, Activation::relu); }},
      {"mlp", [](auto& u) { mlp(x, u, {}, x, {}, Activation::relu); }},
      {"mlp", [](auto& u) { mlp(x, x, {}, u, {}, Activation::relu); }},
      {"lstm_cell", [](auto& u) { lstm_cell(u, x); }},
      {"lstm_cell", [](auto& u) { lstm_cell(x, u); }},
      {"lstm_pass",
       [](auto& u) {
         lstm_pass(u, {x, x}, {x, x});
       }},
      {"lstm_pass",
       [](auto& u) {
         lstm_pass(x, {u, x}, {x, x});
       }},
      {"lstm_pass",
       [](auto& u) {
         lstm_pass(x, {x, u}, {x, x});
       }},
      {"lstm_pass",
       [](auto& u) {
         lstm_pass(x, {x, x}, {u, x});
       }},
      {"lstm_pass",
       [](auto& u) {
         lstm_pass(x, {x, x}, {x, u});
       }},
      {"residual_layer_norm", [](auto& u) { residual_layer_norm(u, x); }},
      {"residual_layer_norm", [](auto& u) { residual_layer_norm(x, u); }},
      {"residual_rms_norm", [](auto& u) { residual_rms_norm(u, x); }},
      {"scaled_dot_product_attention", [=](auto& u) { scaled_dot_product_attention(u, heads, heads); }},
      {"scaled_dot_product_attention", [=](auto& u) { scaled_dot_product_attention(heads, u, heads); }},
      {"scaled_dot_product_attention", [=](auto& u) { scaled_dot_product_attention(heads, heads, u); }},
      {"joined_attention", [](auto& u) { joined_attention(u, 1, 1); }},
      {"embedding", [](auto& u) { embedding(u, index); }},
      {"embedding", [](auto& u) { embedding(x, u); }},
      {"dropout", [](auto& u) { dropout(u, 0.5); }},
      {"cross_entropy", [](auto& u) { cross_entropy(u, index); }},
      {"cross_entropy", [](auto& u) { cross_entropy(x, u); }},
      {"linear_cross_entropy", [](auto& u) { linear_cross_entropy(u, x, index); }},
      {"linear_cross_entropy", [](auto& u) { linear_cross_entropy(x, u, index); }},
      {"linear_cross_entropy", [](auto& u) { linear_cross_entropy(x, x, u); }},
      {"mse_loss", [](auto& u) { mse_loss(u, x); }},
      {"mse_loss", [](auto& u) { mse_loss(x, u); }},
      {"bce_with_logits", [](auto& u) { bce_with_logits(u, x); }},
      {"item", [](auto& u) { u.item(); }},
      {"fill_", [](auto u) { u.fill_(1); }},
      {"copy_", [](auto u) { u.copy_(x); }},
      {"copy_", [](auto& u) { x.clone().copy_(u); }},
      {"add_", [](auto u) { u.add_(x); }},
      {"add_", [](auto& u) { x.clone().add_(u); }},
      {"mul_", [](auto u) { u.mul_(2); }},
      {"requires_grad_", [](auto u) { u.requires_grad_(); }},
      {"set_grad", [](auto u) { u.set_grad(x); }},
      {"backward", [](auto& u) { backward(u); }},
      {"backward", [](auto u) { u.backward(); }},
  };
  return all;
}

}  // namespace

TEST_CASE("an undefined operand: the error names the operation and the caller's line") {
  for (const Call& call : undefined_cases()) {
    INFO(call.op);
    std::string message;
    try {
      call.with(tt::Tensor());
    } catch (const tt::Error& e) {
      message = e.what();
    }
    INFO(message);
    CHECK(message.starts_with("TT-TENSOR-01: " + call.op + ": "));
    CHECK(message.find("tensor/undefined.cpp:") != std::string::npos);
  }
}

TEST_CASE("a tensor that was moved from is undefined") {
  tt::Tensor a = tt::ones({2});
  const tt::Tensor b = std::move(a);
  CHECK_FALSE(a.defined());
  CHECK_THROWS_WITH_AS(exp(a), doctest::Contains("a tensor that was moved from is undefined"), tt::Error);
  CHECK(b.defined());
}
