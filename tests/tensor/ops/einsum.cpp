// einsum: loops over all letters, PyTorch's values and gradients for repeated letters and "...", errors.
#include <tinytorch/tensor/ops/einsum.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Shape;
using tt::Tensor;
using tt::Tensors;
using Values = std::vector<float>;
using Integers = std::vector<int64_t>;

namespace {

Tensor random(const Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f64, tt::default_device(), g);
}

void check_close(const Tensor& got, const std::vector<double>& want) {
  const auto values = got.to_vector<double>();
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) CHECK(values[i] == doctest::Approx(want[i]).epsilon(1e-12));
}

bool gradients_are_right(const std::function<Tensor(const Tensors&)>& f, Tensors at) {
  for (Tensor& t : at) t.requires_grad_();
  const auto result = tt::gradcheck(f, at);
  INFO(result.message);
  return result.passed;
}

}  // namespace

TEST_CASE("einsum equals loops over all letters") {
  const int64_t B = 2, I = 3, J = 4, K = 5;
  const Tensor a = random({B, I, J}, 4), b = random({J, B, K}, 5), v = random({K}, 6);
  const auto A = a.to_vector<double>(), C = b.to_vector<double>(), V = v.to_vector<double>();
  const auto sum = [&](auto&& keep, size_t size) {
    std::vector<double> out(size);
    for (int64_t n = 0; n < B; ++n)
      for (int64_t i = 0; i < I; ++i)
        for (int64_t j = 0; j < J; ++j)
          for (int64_t k = 0; k < K; ++k) {
            out[static_cast<size_t>(keep(n, i, j, k))] += A[static_cast<size_t>((n * I + i) * J + j)] *
                                                          C[static_cast<size_t>((j * B + n) * K + k)] *
                                                          V[static_cast<size_t>(k)];
          }
    return out;
  };
  const auto three = [&](const std::string& to) { return tt::einsum("bij, jbk, k -> " + to, {a, b, v}); };
  using N = int64_t;
  check_close(three("bik"), sum([&](N n, N i, N, N k) { return (n * I + i) * K + k; }, 30));
  check_close(three("kj"), sum([&](N, N, N j, N k) { return k * J + j; }, 20));
  check_close(three("jib"), sum([&](N n, N i, N j, N) { return (j * I + i) * B + n; }, 24));
  check_close(three(""), sum([&](N, N, N, N) { return 0; }, 1));
  CHECK(three("").rank() == 0);
  const Tensor x = random({3, 4}, 7), y = random({5, 4}, 8);
  CHECK(tt::einsum("ij,kj->ik", {x, y}).to_vector<double>() == tt::matmul(x, y.t()).to_vector<double>());
  CHECK(tt::einsum("ji", {x}).to_vector<double>() ==
        x.t().to_vector<double>());  // the result is in order: ij
  CHECK(tt::einsum("ij,jk", {x, y.t()}).shape() == Shape{3, 5});
  CHECK(tt::einsum("ij,jk->ik", {tt::zeros({2, 0}), tt::zeros({0, 3})}).to_vector() == Values(6, 0));
  CHECK(gradients_are_right([](const Tensors& in) { return tt::einsum("bij,jbk,k->kb", in); }, {a, b, v}));
}

TEST_CASE("einsum refuses what does not fit") {
  const Tensor x = tt::zeros({2, 3});
  for (const char* equation : {"ij", "ij,jk,k", "ijk,jk", "ij,jk->ix", "ij,jk->ii", "ii,jk", "i.,jk",
                               "ij,ij->", "......,jk", "...ijk,jk", "i..j,jk"}) {
    INFO(equation);
    test::expect_error("TT-SHAPE-13", "einsum", [&] { tt::einsum(equation, {x, x.t()}); });
  }
  test::expect_error("TT-SHAPE-13", "two sizes to j", [&] { tt::einsum("ij,jk", {x, x}); });
}

TEST_CASE("einsum with repeated letters and dots gives PyTorch's values and gradients") {
  const nlohmann::json golden = read_golden("division");
  for (const nlohmann::json& c : golden["cases"]) {
    if (c["name"] != "einsum") continue;
    const auto equation = c["options"]["equation"].get<std::string>();
    INFO(equation);
    Tensors in, gaps;
    for (const nlohmann::json& tensor : c["inputs"]) {
      in.push_back(golden::tensor_of(tensor, tt::f64).requires_grad_());
      gaps.push_back(golden::strided(in.back().detach()));
    }
    const Tensor y = tt::einsum(equation, in);
    golden::check_equal(y, c["result"], 1e-8);
    golden::check_equal(tt::einsum(equation, gaps), c["result"], 1e-8);
    std::vector<double> upstream(static_cast<size_t>(y.numel()));
    for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
    tt::sum(y * tt::from_data(upstream).reshape(y.shape()).to(y.device())).backward();
    for (size_t i = 0; i < in.size(); ++i) golden::check_equal(in[i].grad(), c["gradients"][i], 1e-8);
    CHECK(gradients_are_right([&](const Tensors& at) { return tt::einsum(equation, at); }, in));
  }
  CHECK(tt::einsum("ii->i", {tt::zeros({0, 0})}).shape() == Shape{0});
  CHECK(tt::einsum("...", {tt::ones({})}).rank() == 0);
  test::expect_error("TT-SHAPE-13", "two sizes to ...", [&] {
    tt::einsum("...,...", {tt::zeros({2}), tt::zeros({3})});
  });
}
