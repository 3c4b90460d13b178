#include <tinytorch/pruning/strips.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <support/device.hpp>
#include <support/errors.hpp>

using namespace test;

namespace {

tt::Tensor random_matrix(int64_t N, int64_t K, tt::DType dtype, uint64_t seed) {
  tt::manual_seed(seed);
  return tt::randn({N, K}, tt::f32, tt::cpu).to(dtype);
}

// The largest distance of y from x w^T + bias in double, in units of the last place of the larger sums.
double distance(const tt::Tensor& y, const tt::Tensor& x, const tt::Tensor& w, const tt::Tensor& bias) {
  const auto wide = [](const tt::Tensor& t) { return t.to(tt::cpu).to(tt::f64); };
  tt::Tensor want = tt::matmul(wide(x), tt::transpose(wide(w), 0, 1));
  if (bias.defined()) want = want + wide(bias);
  const double unit = y.dtype() == tt::bf16 ? 1.0 / 256 : 1.0 / 2048;
  const tt::Tensor off = tt::abs(wide(y) - want) / (tt::abs(want) * unit + 1e-4);
  return off.numel() == 0 ? 0 : tt::max(off).item<double>();
}

}  // namespace

TEST_CASE("compression keeps the two largest of each four; strips multiply like the dense matrix") {
  for (const tt::DType t : {tt::bf16, tt::f16}) {
    for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 4}, {17, 20}, {16, 64}, {50, 200}, {3, 132}}) {
      INFO(N, " x ", K);
      const tt::Tensor w = random_matrix(N, K, t, 1).to(tt::default_device());
      const tt::TwoFourMatrix two = tt::compress_two_four(w);
      const tt::Tensor dense = two.dense();
      const tt::Tensor here = w.to(tt::cpu).to(tt::f64), kept = dense.to(tt::cpu).to(tt::f64);
      int64_t wrong = 0;
      for (int64_t g = 0; g < N * K / 4; ++g) {
        std::vector<std::pair<double, int>> order;
        for (int i = 0; i < 4; ++i) order.emplace_back(-std::abs(here.data<double>()[g * 4 + i]), i);
        std::sort(order.begin(), order.end());
        for (int i = 0; i < 4; ++i) {
          const int64_t at = g * 4 + order[static_cast<size_t>(i)].second;
          wrong += kept.data<double>()[at] != (i < 2 ? here.data<double>()[at] : 0.0);
        }
      }
      CHECK(wrong == 0);
      const tt::StripsMatrix s = tt::to_strips(two);
      for (const int64_t M : {1, 3, 40}) {
        const tt::Tensor x = random_matrix(M, K, t, 2).to(tt::default_device());
        const tt::Tensor bias = random_matrix(1, N, tt::f32, 3).to(tt::default_device());
        const tt::Tensor flat = tt::reshape(bias, {N});
        CHECK(distance(tt::linear(x, s), x, dense, {}) <= 1);
        CHECK(distance(tt::linear(x, s, flat), x, dense, flat) <= 1);
        CHECK(distance(tt::linear(x, s, flat.to(t)), x, dense, flat.to(t)) <= 1.5);
      }
    }
  }
}

TEST_CASE("strips are the same bytes on the CPU and on the device, and x may have any rank and strides") {
  const tt::Tensor w = random_matrix(37, 84, tt::bf16, 4);
  const tt::StripsMatrix here = tt::to_strips(tt::compress_two_four(w)),
                         there = tt::to_strips(tt::compress_two_four(w.to(tt::default_device())));
  CHECK(here.bytes() == 3 * 2 * 1152);
  CHECK(same_values(here.strips(), there.strips().to(tt::cpu)));
  CHECK(there.device() == tt::default_device());
  CHECK(there.to(tt::cpu).device() == tt::cpu);
  const tt::Tensor x = random_matrix(84, 6, tt::bf16, 5).to(tt::default_device());
  const tt::Tensor turned = tt::transpose(x, 0, 1);
  const tt::Tensor y = tt::linear(tt::reshape(turned, {2, 3, 84}), there);
  CHECK(y.shape() == tt::Shape{2, 3, 37});
  CHECK(distance(tt::reshape(y, {6, 37}), turned, tt::compress_two_four(w).dense(), {}) <= 1);
  CHECK(tt::linear(tt::zeros({84}, tt::bf16, tt::default_device()), there).shape() == tt::Shape{37});
  CHECK(tt::linear(tt::zeros({0, 84}, tt::bf16, tt::default_device()), there).shape() == tt::Shape{0, 37});
}

TEST_CASE("strips that begin between multiples of 16 bytes, and x with one row for all, are multiplied") {
  const tt::NoGrad no_grad;
  const tt::Device here = tt::default_device();
  const tt::Tensor w = random_matrix(20, 64, tt::bf16, 4).to(here),
                   row = random_matrix(1, 64, tt::bf16, 5).to(here);
  const tt::StripsMatrix s = tt::to_strips(tt::compress_two_four(w));
  const int64_t bytes = s.strips().numel();
  const tt::Tensor memory = tt::cat({tt::zeros({1}, tt::u8, here), s.strips().reshape({bytes})}, 0);
  const tt::Tensor later = tt::slice(memory, 0, 1, bytes + 1).reshape(s.strips().shape());
  const tt::StripsMatrix moved(later, tt::bf16, 20, 64);
  const tt::Tensor x = tt::expand(row, {70, 64});  // a stride of 0
  const tt::Tensor y = tt::linear(x, moved);
  CHECK(distance(y, x.contiguous(), s.dense(), {}) < 1.5);
}

TEST_CASE("operands that do not fit are refused") {
  const tt::Tensor w = random_matrix(8, 16, tt::bf16, 6);
  const tt::StripsMatrix s = tt::to_strips(tt::compress_two_four(w));
  CHECK(message_of([&] { (void)tt::compress_two_four(tt::zeros({2, 6})); }).find("TT-PRUNE-01") == 0);
  CHECK(message_of([&] { (void)tt::compress_two_four(tt::zeros({8})); }).find("TT-SHAPE-02") == 0);
  CHECK(message_of([&] {
          (void)tt::compress_two_four(tt::zeros({2, 4}, tt::i32));
        }).find("TT-DTYPE-02") == 0);
  CHECK(message_of([&] {
          (void)tt::to_strips(tt::compress_two_four(tt::zeros({2, 4})));
        }).find("TT-DTYPE-02") == 0);
  CHECK(message_of([&] { (void)tt::linear(tt::zeros({2, 16}), s); }).find("TT-DTYPE-02") == 0);
  CHECK(message_of([&] { (void)tt::linear(tt::zeros({2, 20}, tt::bf16), s); }).find("TT-SHAPE-02") == 0);
  CHECK(message_of([&] {
          (void)tt::linear(tt::zeros({2, 16}, tt::bf16), s, tt::zeros({7}));
        }).find("TT-SHAPE-02") == 0);
  CHECK(message_of([&] {
          (void)tt::linear(tt::zeros({2, 16}, tt::bf16), s, tt::zeros({8}, tt::i32));
        }).find("TT-DTYPE-02") == 0);
  CHECK(message_of([&] { (void)tt::StripsMatrix(s.strips(), tt::f32, 8, 16); }).find("TT-PRUNE-05") == 0);
  CHECK(message_of([&] { (void)tt::StripsMatrix(s.strips(), tt::bf16, 17, 16); }).find("TT-PRUNE-05") == 0);
  const tt::StripsMatrix there = s.to(tt::default_device());
  tt::Tensor trained = tt::ones({1, 16}, tt::bf16, tt::default_device());
  trained.requires_grad_();
  CHECK(message_of([&] { tt::linear(trained, there).sum().backward(); }).find("TT-GRAD-05") == 0);
}
