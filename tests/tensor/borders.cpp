// Tensors of rank 0 and tensors without elements, for every operation: the device gives the same values,
// gradients and errors as the CPU, and accesses no memory outside its tensors.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/tinytorch.hpp>
#include <vector>

namespace tt = tinytorch;
using tt::Tensor, tt::Tensors, tt::Shape;

namespace {

struct Op {
  std::string name;
  std::function<Tensors(const Tensor&)> run;  // all results of the operation
};

std::vector<Op> border_cases() {
  using namespace tt;
  const auto zero = [](const Tensor& x) { return zeros(x.shape(), i64, x.device()); };
  const auto last = [](const Tensor& x) { return x.rank() ? x.size(-1) : 1; };
  const auto vector = [=](const Tensor& x) { return linspace(0.5, 1.5, last(x), x.dtype(), x.device()); };
  const auto both = [](const ValuesAndIndices& v) { return Tensors{v.values, v.indices}; };
  return {
      {"neg", [](const Tensor& x) { return Tensors{-x}; }},
      {"exp", [](const Tensor& x) { return Tensors{exp(x)}; }},
      {"clamp", [](const Tensor& x) { return Tensors{clamp(x, 0, 1)}; }},
      {"gelu", [](const Tensor& x) { return Tensors{gelu(x)}; }},
      {"add", [](const Tensor& x) { return Tensors{x + x}; }},
      {"with a number", [](const Tensor& x) { return Tensors{x * 2 + 1}; }},
      {"with one element", [](const Tensor& x) { return Tensors{x * ones({1}, x.dtype(), x.device())}; }},
      {"pow", [](const Tensor& x) { return Tensors{pow(x, x)}; }},
      {"compare", [](const Tensor& x) { return Tensors{x < 1}; }},
      {"where", [](const Tensor& x) { return Tensors{where(x < 1, x, x * 2)}; }},
      {"sum", [](const Tensor& x) { return Tensors{sum(x)}; }},
      {"sum of the last dimension", [](const Tensor& x) { return Tensors{sum(x, {-1})}; }},
      {"mean", [](const Tensor& x) { return Tensors{mean(x, {0}, true)}; }},
      {"prod", [](const Tensor& x) { return Tensors{prod(x)}; }},
      {"max", [](const Tensor& x) { return Tensors{max(x, {-1})}; }},
      {"any, all",
       [](const Tensor& x) {
         return Tensors{any(x < 1), all(x < 1)};
       }},
      {"var", [](const Tensor& x) { return Tensors{var(x, {}, 0)}; }},
      {"stddev", [](const Tensor& x) { return Tensors{stddev(x, {}, 0)}; }},
      {"logsumexp", [](const Tensor& x) { return Tensors{logsumexp(x)}; }},
      {"norm", [](const Tensor& x) { return Tensors{norm(x)}; }},
      {"argmax", [](const Tensor& x) { return Tensors{argmax(x, -1)}; }},
      {"cumsum", [](const Tensor& x) { return Tensors{cumsum(x, 0)}; }},
      {"reshape", [](const Tensor& x) { return Tensors{reshape(x, {x.numel()})}; }},
      {"flatten", [](const Tensor& x) { return Tensors{flatten(x)}; }},
      {"transpose", [](const Tensor& x) { return Tensors{transpose(x, 0, -1)}; }},
      {"unsqueeze, expand",
       [](const Tensor& x) {
         const Tensor y = unsqueeze(x, 0);
         Shape shape = y.shape();
         shape[0] = 3;
         return Tensors{expand(y, shape).contiguous()};
       }},
      {"slice", [](const Tensor& x) { return Tensors{slice(x, 0, 1)}; }},
      {"select", [](const Tensor& x) { return Tensors{select(x, 0, 0)}; }},
      {"split", [](const Tensor& x) { return split(x, 2); }},
      {"clone", [](const Tensor& x) { return Tensors{clone(x)}; }},
      {"cast", [](const Tensor& x) { return Tensors{x.to(f64).to(bf16)}; }},
      {"cat",
       [](const Tensor& x) {
         return Tensors{cat({x, x})};
       }},
      {"stack",
       [](const Tensor& x) {
         return Tensors{stack({x, x})};
       }},
      {"pad",
       [](const Tensor& x) {
         return Tensors{
             pad(x, std::vector<std::pair<int64_t, int64_t>>(static_cast<size_t>(x.rank()), {1, 2}))};
       }},
      {"flip", [](const Tensor& x) { return Tensors{flip(x, {0})}; }},
      {"tril",
       [](const Tensor& x) {
         return Tensors{tril(x), triu(x, 1)};
       }},
      {"index_select",
       [](const Tensor& x) { return Tensors{index_select(x, 0, zeros({2}, i64, x.device()))}; }},
      {"index_select nothing",
       [](const Tensor& x) { return Tensors{index_select(x, 0, zeros({0}, i64, x.device()))}; }},
      {"gather", [=](const Tensor& x) { return Tensors{gather(x, 0, zero(x))}; }},
      {"scatter_add", [=](const Tensor& x) { return Tensors{scatter_add(x, 0, zero(x), x)}; }},
      {"masked_fill", [](const Tensor& x) { return Tensors{masked_fill(x, x < 1, 3)}; }},
      {"sort", [=](const Tensor& x) { return both(sort(x)); }},
      {"topk", [=](const Tensor& x) { return both(topk(x, 1)); }},
      {"topk with k = 0", [=](const Tensor& x) { return both(topk(x, 0)); }},
      {"matmul", [](const Tensor& x) { return Tensors{matmul(x, x.transpose(0, -1))}; }},
      {"linear",
       [=](const Tensor& x) {
         return Tensors{linear(x, ones({2, last(x)}, x.dtype(), x.device()))};
       }},
      {"softmax",
       [](const Tensor& x) {
         return Tensors{softmax(x), log_softmax(x)};
       }},
      {"layer_norm", [=](const Tensor& x) { return Tensors{layer_norm(x, vector(x), vector(x))}; }},
      {"rms_norm", [=](const Tensor& x) { return Tensors{rms_norm(x, vector(x))}; }},
      {"residual_layer_norm",
       [=](const Tensor& x) { return Tensors{residual_layer_norm(x, x, vector(x)).normalized}; }},
      {"bias_activation",
       [=](const Tensor& x) { return Tensors{bias_activation(x, vector(x), Activation::gelu)}; }},
      {"linear_activation",
       [=](const Tensor& x) {
         return Tensors{
             linear_activation(x, ones({2, last(x)}, x.dtype(), x.device()), {}, Activation::relu)};
       }},
      {"images",
       [](const Tensor& x) {
         const Tensor y = x.reshape({1, 1, 1, x.numel()});
         return Tensors{conv2d(y, ones({2, 1, 1, 1}, x.dtype(), x.device())), avg_pool2d(y, {.kernel = 1}),
                        max_pool2d(y, {.kernel = 1})};
       }},
      {"no images",
       [](const Tensor& x) {
         const Tensor y = zeros({0, 1, 3, 3}, x.dtype(), x.device()) * sum(x);
         return Tensors{conv2d(y, ones({2, 1, 2, 2}, x.dtype(), x.device())), avg_pool2d(y), max_pool2d(y),
                        adaptive_avg_pool2d(y, 1, 1)};
       }},
      {"batch_norm",
       [](const Tensor& x) {
         const Tensor y = x.reshape({x.numel(), 1}), w = ones({1}, x.dtype(), x.device());
         return Tensors{batch_norm_infer(y, w, w, w, w)};
       }},
      {"attention",
       [](const Tensor& x) {
         const Tensor y = x.reshape({1, 1, x.numel(), 1}) * ones({8}, x.dtype(), x.device());
         return Tensors{scaled_dot_product_attention(y, y, y)};
       }},
      {"embedding",
       [=](const Tensor& x) {
         return Tensors{embedding(ones({2, 3}, x.dtype(), x.device()), zero(x)) * sum(x)};
       }},
      {"dropout", [](const Tensor& x) { return Tensors{dropout(x, 0)}; }},
      {"cross_entropy",
       [](const Tensor& x) {
         return Tensors{cross_entropy(x.reshape({x.numel(), 1}), zeros({x.numel()}, i64, x.device()),
                                      {.reduction = Reduction::sum})};
       }},
      {"linear_cross_entropy",
       [](const Tensor& x) {
         return Tensors{linear_cross_entropy(x.reshape({x.numel(), 1}), ones({2, 1}, x.dtype(), x.device()),
                                             zeros({x.numel()}, i64, x.device()),
                                             {.reduction = Reduction::sum})};
       }},
      {"losses",
       [](const Tensor& x) {
         return Tensors{mse_loss(x, x * 2, Reduction::sum), bce_with_logits(x, x, Reduction::none)};
       }},
      {"in place",
       [](const Tensor& x) {
         Tensor y = x.detach().clone();
         y.fill_(2).add_(x.detach()).mul_(3).copy_(y + 1);
         return Tensors{y};
       }},
  };
}

// The text of the results, such as "f32 [2] {1, 2}", or the code of an error.
std::string shown(const std::function<Tensors()>& f) {
  std::string text;
  try {
    for (const Tensor& t : f()) {
      text += t.defined() ? std::string(tt::name_of(t.dtype())) + " " + t.shape().str() + " {" : "none {";
      for (const double v : t.defined() ? t.to_vector<double>() : std::vector<double>()) {
        char number[32];
        std::snprintf(number, sizeof number, "%.5g ", std::isnan(v) ? NAN : v);
        text += std::isnan(v) ? "nan " : number;
      }
      text += "} ";
    }
  } catch (const tt::Error& e) {
    return e.code();
  }
  return text;
}

// The results of the operation, and the gradient of their sum.
Tensors with_gradient(const Op& op, const Shape& shape, tt::DType dtype, tt::Device device) {
  Tensor x =
      (tt::arange(0, shape.numel(), 1, tt::f32, tt::cpu) * 0.25 + 0.5).reshape(shape).to(dtype).to(device);
  if (tt::is_floating(dtype)) x.requires_grad_();
  Tensors all = op.run(x);
  Tensor total;
  for (const Tensor& t : all) {
    if (t.requires_grad()) total = total.defined() ? total + tt::sum(t).to(tt::f64) : tt::sum(t).to(tt::f64);
  }
  if (total.defined()) total.backward();
  if (total.defined()) all.push_back(x.grad());
  if (device.is_cuda()) tt::backend::cuda::synchronize();  // throws the errors that kernels found
  return all;
}

}  // namespace

TEST_CASE("rank 0 and no elements: the device gives the same as the CPU") {
  for (const Op& op : border_cases()) {
    for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i64}) {
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{3, 0}, Shape{0, 3}}) {
        const std::string on_cpu = shown([&] { return with_gradient(op, shape, dtype, tt::cpu); });
        const std::string on_device =
            shown([&] { return with_gradient(op, shape, dtype, tt::default_device()); });
        INFO(op.name, " of ", tt::name_of(dtype), " ", shape.str());
        CHECK(on_device == on_cpu);
      }
    }
  }
}

TEST_CASE("rank 0: cumulative sum and extreme value") {
  const Tensor x = tt::full({}, 3);
  CHECK(tt::cumsum(x, 0).item<float>() == 3);
  CHECK(tt::cumsum(x, 0).shape() == Shape{});
  CHECK(tt::argmax(x, 0).item<int64_t>() == 0);
}
