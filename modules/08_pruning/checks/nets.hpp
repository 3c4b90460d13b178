// Three networks whose channels depend on each other: a shortcut, a concatenation, and heads of attention.
#pragma once

#include <08_pruning/checks/weights.hpp>
#include <tinytorch/layers/batch_norm.hpp>
#include <tinytorch/layers/conv2d.hpp>
#include <tinytorch/layers/linear.hpp>

namespace course {

// conv -> bn -> relu -> (conv -> bn -> relu -> conv -> bn) + shortcut -> relu -> pool -> flatten -> linear
struct Residual : Module {
  Conv2d stem{3, 16, 3, {.padding = 1}, false}, a{16, 24, 3, {.padding = 1}}, b{24, 16, 3, {.padding = 1}};
  BatchNorm2d stem_norm{16}, a_norm{24}, b_norm{16};
  Linear head{16 * 4, 5};
  Residual() {
    add("stem", stem), add("a", a), add("b", b), add("stem_norm", stem_norm), add("a_norm", a_norm);
    add("b_norm", b_norm), add("head", head);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(stem_norm(stem(x)));
    const Tensor z = relu(b_norm(b(relu(a_norm(a(y))))) + y);
    const Tensor p = avg_pool2d(z, {.kernel = 4});
    return head(p.reshape({p.size(0), p.numel() / p.size(0)}));
  }
};
// Two branches are joined along channels, and sigmoid(0) is not 0.
struct Concat : Module {
  Conv2d left{3, 8, 1}, right{3, 16, 3, {.padding = 1}}, mix{24, 16, 1}, out{16, 2, 8};
  Concat() { add("left", left), add("right", right), add("mix", mix), add("out", out); }
  Tensor forward(const Tensor& x) override { return out(sigmoid(mix(sigmoid(cat({left(x), right(x)}, 1))))); }
};
// Attention with 8 heads of 4, of which two share keys and values, then an MLP; x + ... stays as wide as x.
struct Attention : Module {
  Linear q{16, 32}, k{16, 16, false}, v{16, 16}, proj{32, 16}, up{16, 40}, down{40, 16};
  Attention() { add("q", q), add("k", k), add("v", v), add("proj", proj), add("up", up), add("down", down); }
  static Tensor heads(const Tensor& x) {
    return x.reshape({x.size(0), x.size(1), x.size(2) / 4, 4}).transpose(1, 2);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = scaled_dot_product_attention(heads(q(x)), heads(k(x)), heads(v(x))).transpose(1, 2);
    const Tensor z = x + proj(y.reshape({x.size(0), x.size(1), y.size(2) * 4}));
    return z + down(gelu(up(z)));
  }
};

// Random statistics and norms, so that channels differ.
inline void stir(Module& net) {
  const NoGrad no_grad;
  for (const NamedTensor& t : net.named_buffers())
    if (t.tensor.rank() == 1) Tensor(t.tensor).copy_(random_tensor(t.tensor.shape(), 0.5) + 1.0);
  for (const NamedTensor& t : net.named_parameters())
    if (t.tensor.rank() == 1) Tensor(t.tensor).detach().copy_(random_tensor(t.tensor.shape()));
  net.eval();
}
inline void take_values(Module& to, const Module& from) {
  const NoGrad no_grad;
  const StateDict values = from.state_dict();
  for (const auto& [name, tensor] : to.state_dict()) Tensor(tensor).detach().copy_(values.at(name));
}
inline int64_t numbers_of(const Module& net) {
  int64_t sum = 0;
  for (const NamedTensor& p : net.named_parameters()) sum += p.tensor.numel();
  return sum;
}

}  // namespace course
