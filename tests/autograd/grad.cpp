// grad() and create_graph: which inputs get a gradient, second derivatives against differences and PyTorch,
// and every refusal.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;
using Values = std::vector<double>;
using Function = std::function<Tensor(const Tensors&)>;

namespace {

Tensor leaf(const tt::Shape& shape, uint64_t seed, double low = -1.5, double high = 1.5) {
  tt::Generator g(seed);
  Tensor t = tt::uniform(low, high, shape, tt::f64, tt::default_device(), g);
  return t.requires_grad_();
}
Tensor vector(const Values& values) { return tt::from_data(values).requires_grad_(); }

void check_second(const char* name, const Function& f, const Tensors& inputs,
                  tt::GradcheckOptions options = {}) {
  const tt::GradcheckResult result = tt::gradgradcheck(f, inputs, options);
  CHECK_MESSAGE(result.passed, name, ": ", result.message);
}
// A function of one operand, of an awkward size and not contiguous.
void check_unary(const char* name, const std::function<Tensor(const Tensor&)>& f, double low = -1.5,
                 double high = 1.5) {
  check_second(name, [&](const Tensors& in) { return f(in[0].t()); }, {leaf({3, 5}, 7, low, high)});
}

Tensor golden(const nlohmann::json& j) {
  Tensor t = tt::from_data(j["values"].get<Values>());
  const auto sizes = j["shape"].get<std::vector<int64_t>>();
  return t.reshape(tt::Shape(sizes.begin(), sizes.end()));
}
void check_close(const Tensor& got, const nlohmann::json& expected) {
  const Values values = got.to_vector<double>(), wanted = expected["values"].get<Values>();
  REQUIRE(values.size() == wanted.size());
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == doctest::Approx(wanted[i]).epsilon(1e-9));
}

// x^2 whose vjp leaves the graph.
struct Leaving final : tt::Primitive<Leaving> {
  static constexpr const char* kName = "leaving";
  tt::Specs infer(const Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override { out[0].copy_(tt::square(in[0].detach())); }
  tt::Save saves() const override { return tt::Save::inputs; }
  Tensors vjp(const tt::Saved& s, const Tensors& g) const override {
    return {(g[0].detach() * s.inputs[0].detach() * 2)};
  }
};

}  // namespace

TEST_CASE("grad() returns gradients and leaves grad() alone") {
  Tensor x = vector({1, 2, 3}), w = vector({2, 0, -1});
  const Tensor h = x * w, y = tt::sum(h * h);
  const Tensors g = tt::grad(y, {x, w, h}, {.retain_graph = true});
  CHECK(g[0].to_vector<double>() == Values{8, 0, 6});    // 2 x w^2
  CHECK(g[1].to_vector<double>() == Values{4, 0, -18});  // 2 x^2 w
  CHECK(g[2].to_vector<double>() == Values{4, 0, -6});   // 2 x w
  CHECK_FALSE(g[0].requires_grad());
  CHECK_FALSE(x.grad().defined());
  CHECK(tt::grad(y, x, {.gradient = tt::full({}, 3, tt::f64)})[0].to_vector<double>() == Values{24, 0, 18});
}

TEST_CASE("a result is its own input, and an input may be asked for twice") {
  Tensor x = vector({3});
  CHECK(tt::grad(x, x)[0].item<double>() == 1);
  const Tensor y = x * x;
  const Tensors g = tt::grad(y, {y, x, x});
  CHECK(g[0].item<double>() == 1);
  CHECK(g[1].item<double>() == 6);
  CHECK(g[2].item<double>() == 6);
}

TEST_CASE("derivatives of higher order") {
  Tensor x = vector({-1, 0.5, 2});
  Tensor d = tt::sum(x * x * x * x);
  const std::vector<Values> expected = {{-4, 0.5, 32}, {12, 3, 48}, {-24, 12, 48}, {24, 24, 24}};
  for (const Values& values : expected) {
    d = tt::grad(tt::sum(d), x, {.create_graph = true})[0];
    CHECK(d.to_vector<double>() == values);
  }
}

TEST_CASE("backward with create_graph leaves gradients with a history") {
  Tensor x = vector({1, 2});
  int hooked = 0;
  x.register_hook([&](const Tensor&) { return ++hooked, Tensor(); });
  tt::sum(x * x * x).backward({.create_graph = true});
  CHECK(hooked == 1);
  CHECK(x.grad().to_vector<double>() == Values{3, 12});
  CHECK(x.grad().requires_grad());
  const Tensor first = x.grad();
  x.zero_grad();
  tt::backward(tt::sum(first), {.retain_graph = true});
  CHECK(x.grad().to_vector<double>() == Values{6, 12});
  CHECK_FALSE(x.grad().requires_grad());
  tt::backward(tt::sum(first), {.gradient = tt::full({}, 2, tt::f64)});
  CHECK(x.grad().to_vector<double>() == Values{18, 36});  // added
}

TEST_CASE("the graph of a gradient keeps no tensor alive after its last use") {
  Tensor x = vector({1, 2});
  const std::weak_ptr<tt::TensorImpl> alive = x.handle();
  {
    Tensor g = tt::grad(tt::sum(x * x * x), x, {.create_graph = true})[0];
    tt::sum(g * g).backward();
    CHECK(x.grad().to_vector<double>() == Values{36, 288});  // d (3 x^2)^2 = 36 x^3
  }
  x = Tensor();
  CHECK(alive.expired());
}

TEST_CASE("an ordinary backward pass records nothing") {
  Tensor x = leaf({4, 4}, 1), w = leaf({4, 4}, 2);
  const auto in_use = [] {
    return tt::default_device().is_cpu() ? tt::allocator_stats().current
                                         : tt::backend::cuda::memory_stats(0).current;
  };
  const auto growth = [&](bool recorded) {  // bytes that stay in use while the gradients live
    const Tensor y = tt::sum(tt::tanh(tt::matmul(x, w)));
    const size_t before = in_use();
    if (recorded) {
      y.backward({.create_graph = true});
    } else {
      y.backward({}, true);
    }
    CHECK(x.grad().requires_grad() == recorded);
    const size_t grew = in_use() - before;
    x.zero_grad(), w.zero_grad();
    return grew;
  };
  const size_t before = in_use();
  const Tensor two[] = {tt::zeros({4, 4}, tt::f64), tt::zeros({4, 4}, tt::f64)};
  const size_t two_gradients = in_use() - before;
  CHECK(growth(false) == two_gradients);
  CHECK(growth(true) > two_gradients);
  CHECK(tt::grad_enabled());
  {
    const tt::NoGrad guard;
    const tt::GradMode on(true);
    CHECK(tt::grad_enabled());
  }
  CHECK(tt::grad_enabled());
}

TEST_CASE("second derivatives of operations with two operands") {
  const Tensors pair = {leaf({3, 1, 2}, 1, 0.5, 2), leaf({4, 2}, 2, 0.5, 2)};
  check_second(
      "mul", [](const Tensors& in) { return in[0] * in[1]; }, pair);
  check_second(
      "div", [](const Tensors& in) { return in[0] / in[1]; }, pair);
  check_second(
      "pow", [](const Tensors& in) { return tt::pow(in[0], in[1]); }, pair);
  check_second(
      "maximum", [](const Tensors& in) { return tt::maximum(in[0], in[1]) * in[0]; }, pair);
  check_second(
      "where", [](const Tensors& in) { return tt::where(in[0] > in[1], in[0] * in[1], in[1]); }, pair);
  check_second("one of two", [](const Tensors& in) { return in[0] * in[1] * in[1]; },
               {pair[0].detach(), leaf({4, 2}, 3)});
  check_second("matmul", [](const Tensors& in) { return tt::matmul(in[0], in[1]); },
               {leaf({2, 3, 4}, 4), leaf({4, 5}, 5)});
  check_second("linear", [](const Tensors& in) { return tt::linear(in[0], in[1], in[2]); },
               {leaf({5, 3}, 6), leaf({2, 3}, 7), leaf({2}, 8)});
}

TEST_CASE("second derivatives of reductions, softmax and norms") {
  check_unary("sum", [](const Tensor& x) { return tt::sum(x, {1}) * tt::sum(x); });
  check_unary("mean", [](const Tensor& x) { return tt::square(tt::mean(x, {0})); });
  check_unary(
      "prod", [](const Tensor& x) { return tt::prod(x, {1}); }, 0.5, 1.5);
  check_unary("norm", [](const Tensor& x) { return tt::norm(x, {1}); });
  check_unary("var", [](const Tensor& x) { return tt::var(x, {0}); });
  check_unary("stddev", [](const Tensor& x) { return tt::stddev(x, {1}, 0); });
  check_unary("max", [](const Tensor& x) { return tt::max(x * x, {1}); });
  check_unary("logsumexp", [](const Tensor& x) { return tt::logsumexp(x, {1}); });
  check_unary("cumsum", [](const Tensor& x) { return tt::square(tt::cumsum(x, 1)); });
  for (int dim : {0, 1}) {
    check_unary("softmax", [dim](const Tensor& x) { return tt::softmax(x, dim); });
    check_unary("log_softmax", [dim](const Tensor& x) { return tt::log_softmax(x, dim); });
  }
  const Tensors row = {leaf({4, 5}, 1), leaf({5}, 2), leaf({5}, 3)};
  check_second(
      "layer_norm", [](const Tensors& in) { return tt::layer_norm(in[0], in[1], in[2], 1e-2); }, row);
  check_second("rms_norm", [](const Tensors& in) { return tt::rms_norm(in[0], in[1], 1e-2); },
               {row[0], row[1]});
  const Tensors image = {leaf({2, 4, 3}, 4), leaf({4}, 5), leaf({4}, 6)};
  check_second(
      "group_norm", [](const Tensors& in) { return tt::group_norm(in[0], 2, in[1], in[2], 1e-2); }, image);
  // An operand that depends on another one: the derivatives of the op are partial ones.
  check_second(
      "layer_norm of its own weight",
      [](const Tensors& in) { return tt::layer_norm(in[0], in[0].select(0, 1) * in[1], in[2], 1e-2); }, row);
}

TEST_CASE("second derivatives of fused layers, losses, convolutions and indexing") {
  const Tensors dense = {leaf({3, 4}, 1), leaf({5, 4}, 2), leaf({5}, 3)};
  check_second(
      "linear_activation",
      [](const Tensors& in) { return tt::linear_activation(in[0], in[1], in[2], tt::Activation::gelu); },
      dense);
  check_second(
      "mlp",
      [](const Tensors& in) { return tt::mlp(in[0], in[1], in[2], in[3], in[4], tt::Activation::silu); },
      {dense[0], dense[1], dense[2], leaf({2, 5}, 4), leaf({2}, 5)});
  check_second("bias_activation",
               [](const Tensors& in) { return tt::bias_activation(in[0], in[1], tt::Activation::gelu_tanh); },
               {dense[0], leaf({4}, 6)});
  const Tensor target = tt::from_data(std::vector<int64_t>{2, -100, 0});
  for (tt::Reduction r : {tt::Reduction::mean, tt::Reduction::sum, tt::Reduction::none}) {
    if (tt::default_device().is_cpu()) {
      tt::CrossEntropyOptions options;
      options.label_smoothing = 0.1, options.reduction = r;
      check_second("cross_entropy",
                   [&](const Tensors& in) { return tt::cross_entropy(in[0], target, options); }, {dense[0]});
    }
    check_second("mse_loss", [&](const Tensors& in) { return tt::mse_loss(in[0] * in[0], in[1], r); },
                 {dense[0], leaf({3, 4}, 7)});
    check_second("bce_with_logits", [&](const Tensors& in) { return tt::bce_with_logits(in[0], in[1], r); },
                 {dense[0], leaf({3, 4}, 8, 0, 1)});
  }
  tt::Conv2dOptions options;
  options.stride = 2, options.padding = 1;
  check_second("conv2d", [&](const Tensors& in) { return tt::conv2d(in[0], in[1], in[2], options); },
               {leaf({1, 2, 4, 5}, 9), leaf({3, 2, 3, 2}, 10), leaf({3}, 11)});
  const Tensors image = {leaf({1, 2, 4, 6}, 12)};
  check_second(
      "max_pool2d", [](const Tensors& in) { return tt::max_pool2d(in[0] * in[0]); }, image);
  check_second(
      "avg_pool2d", [](const Tensors& in) { return tt::avg_pool2d(in[0] * in[0]); }, image);
  check_second(
      "adaptive_avg_pool2d", [](const Tensors& in) { return tt::adaptive_avg_pool2d(in[0] * in[0], 3, 2); },
      image);
  const Tensor rows = tt::from_data(std::vector<int64_t>{1, 0, 1});
  check_second("embedding", [&](const Tensors& in) { return tt::square(tt::embedding(in[0], rows)); },
               {dense[0]});
  check_second("index_select",
               [&](const Tensors& in) { return tt::square(tt::index_select(in[0], 1, rows)); }, {dense[0]});
  check_second("slice, cat and flip",
               [](const Tensors& in) {
                 const Tensor part = in[0].slice(1, 1, 4, 2);
                 return tt::cat({part * part, tt::flip(in[0], {1}) * in[0]}, 1);
               },
               {dense[0]});
}

TEST_CASE("second derivatives of batch norm, statistics included") {
  check_second("batch_norm_train",
               [](const Tensors& in) {
                 const auto out = tt::batch_norm_train(in[0], in[1], in[2], 1e-2);
                 return tt::cat({out[0].reshape({-1}), out[1] * out[1], out[2] * out[2]});
               },
               {leaf({3, 2, 2, 1}, 1), leaf({2}, 2), leaf({2}, 3)});
}

TEST_CASE("values of PyTorch: the gradient penalty of an MLP") {
  const auto file = read_golden("double_backward")["gradient_penalty"];
  Tensors p;
  for (const auto& j : file["parameters"]) p.push_back(golden(j).requires_grad_());
  Tensor x = golden(file["x"]).requires_grad_();
  const Tensor y = tt::linear(tt::tanh(tt::linear(x, p[0], p[1])), p[2], p[3]);
  const Tensor g = tt::grad(tt::sum(y), x, {.create_graph = true})[0];
  const Tensor penalty = tt::mean(tt::square(tt::norm(g, {1}) - 1));
  CHECK(penalty.item<double>() == doctest::Approx(file["penalty"].get<double>()).epsilon(1e-10));
  penalty.backward();
  for (size_t i = 0; i < 3; ++i) check_close(p[i].grad(), file["gradients"][i]);
  CHECK_FALSE(p[3].grad().defined());  // the last bias does not move the gradient of x; PyTorch's is None
}

TEST_CASE("values of PyTorch: a Hessian-vector product") {
  const auto file = read_golden("double_backward")["hessian_vector_product"];
  Tensors p, v;
  for (const auto& j : file["parameters"]) p.push_back(golden(j).requires_grad_());
  for (const auto& j : file["vectors"]) v.push_back(golden(j));
  const Tensor x = golden(file["x"]), target = tt::from_data(file["target"].get<std::vector<int64_t>>());
  const Tensor h = tt::layer_norm(tt::gelu(tt::linear(x, p[0], p[1])), p[2], p[3], 1e-5);
  tt::CrossEntropyOptions options;
  options.label_smoothing = 0.1;
  const Tensor scores = tt::linear(h, p[4], p[5]);
  // On a GPU, cross_entropy keeps a finished gradient instead of the logits, and refuses a second derivative.
  const Tensor each = tt::log_softmax(scores, 1), kept = (target != -100).to(tt::f64);
  const Tensor at = tt::reshape(tt::maximum(target, tt::zeros_like(target)), {-1, 1});
  const Tensor composed =
      tt::sum((tt::gather(each, 1, at).reshape({-1}) * -0.9 - tt::mean(each, {1}) * 0.1) * kept) /
      tt::sum(kept);
  const Tensor loss = tt::default_device().is_cpu() ? tt::cross_entropy(scores, target, options) : composed;
  CHECK(loss.item<double>() == doctest::Approx(file["loss"].get<double>()).epsilon(1e-10));
  const Tensors g = tt::grad(loss, p, {.create_graph = true});
  Tensor product = tt::sum(g[0] * v[0]);
  for (size_t i = 1; i < p.size(); ++i) product = product + tt::sum(g[i] * v[i]);
  const Tensors hessian = tt::grad(product, p);
  for (size_t i = 0; i < p.size(); ++i) check_close(hessian[i], file["products"][i]);
}

TEST_CASE("16-bit gradients, empty tensors and NaN") {
  for (tt::DType t : {tt::f16, tt::bf16, tt::f32}) {
    Tensor x = tt::from_data(std::vector<float>{1, 2}).to(t).requires_grad_();
    const Tensor g = tt::grad(tt::sum(x * x * x + x), x, {.create_graph = true})[0];
    CHECK(g.dtype() == t);
    CHECK(tt::grad(tt::sum(g), x)[0].to_vector<float>() == std::vector<float>{6, 12});
  }
  Tensor none = tt::zeros({0, 3}, tt::f64).requires_grad_();
  const Tensor g = tt::grad(tt::sum(tt::exp(none)), none, {.create_graph = true})[0];
  CHECK(tt::grad(tt::sum(g), none)[0].shape() == tt::Shape{0, 3});
  Tensor x = vector({NAN, 1});
  const Tensor d = tt::grad(tt::sum(tt::exp(x)), x, {.create_graph = true})[0];
  const Values second = tt::grad(tt::sum(d), x)[0].to_vector<double>();
  CHECK(std::isnan(second[0]));
  CHECK(second[1] == doctest::Approx(std::exp(1.0)));
}

TEST_CASE("errors of grad") {
  Tensor x = vector({1, 2}), other = vector({1, 2});
  const Tensor constant = tt::ones({2}, tt::f64), y = tt::sum(x * x);
  const auto thrown = [](const std::function<void()>& f) { return errors::thrown_by(f); };
  errors::check_error(
      "TT-GRAD-01: grad: input 1, " + constant.describe() +
          ", does not require a gradient\n  hint: call requires_grad_() on it before computing "
          "the result",
      [&] {
        tt::grad(y, {x, constant});
      });
  errors::check_error("TT-GRAD-01: grad: the result " + y.describe() + " does not depend on input 1, " +
                          other.describe() +
                          "\n  hint: allow_unused = true gives an undefined gradient for it",
                      [&] {
                        tt::grad(y, {x, other}, {.retain_graph = true});
                      });
  CHECK_FALSE(tt::grad(y, {x, other}, {.allow_unused = true})[1].defined());
  CHECK(thrown([&] { tt::grad(y, x); }).code == "TT-GRAD-03");  // the graph was used
  CHECK(thrown([&] { tt::grad(x * x, x); }).code == "TT-GRAD-08");
  CHECK(thrown([&] { tt::grad(x * x, x, {.gradient = tt::ones({3}, tt::f64)}); }).code == "TT-GRAD-09");
  CHECK(thrown([&] { tt::grad(constant, x); }).code == "TT-GRAD-01");
  Tensor h = x * 2;
  const Tensor z = tt::sum(h * h);
  {
    const tt::NoGrad guard;
    h.mul_(2);
  }
  CHECK(thrown([&] { tt::grad(z, x, {.create_graph = true}); }).code == "TT-GRAD-02");
}

TEST_CASE("what cannot be differentiated twice is named by the second pass, and only by it") {
  const auto message = [](const std::string& op) {
    return "TT-GRAD-05: " + op + "_grad: the derivative of '" + op +
           "' cannot be differentiated again\n  hint: leave create_graph = false, or compose the op of "
           "others, "
           "such as matmul and softmax";
  };
  const auto second = [](const Tensor& g, const Tensor& x) {
    return errors::thrown_by([&] { tt::grad(tt::sum(g), x); }).text;
  };
  Tensor q = leaf({1, 2, 3, 4}, 1);
  const Tensor out = tt::scaled_dot_product_attention(q, q, q);
  const Tensor dq = tt::grad(tt::sum(out * out), q, {.create_graph = true})[0];
  CHECK(second(dq, q) == message("scaled_dot_product_attention"));

  Tensor x = vector({1, 2});
  const Tensor y = tt::apply(Leaving(), {x}), g = tt::grad(tt::sum(y * y), x, {.create_graph = true})[0];
  CHECK(g.to_vector<double>() == Values{4, 32});
  CHECK(second(g, x) == message("leaving"));

  Tensor written = x * x;
  written[0] = 5.0;
  const Tensor w = tt::grad(tt::sum(written * written), x, {.create_graph = true})[0];
  CHECK(w.to_vector<double>() == Values{0, 32});
  // w = (0, 4 x^3), because x[0] was overwritten: the derivative of its sum is (0, 12 x^2)
  CHECK(tt::grad(tt::sum(w), x)[0].to_vector<double>() == Values{0, 48});

  Tensor zero = vector({0, 2});
  CHECK(errors::thrown_by([&] { tt::grad(tt::prod(zero), zero, {.create_graph = true}); }).code ==
        "TT-GRAD-05");
  CHECK(tt::grad(tt::prod(zero), zero)[0].to_vector<double>() == Values{2, 0});
}
