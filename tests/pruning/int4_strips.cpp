#include <tinytorch/pruning/int4_strips.hpp>

#include <cmath>
#include <pruning/formats.hpp>
#include <support/device.hpp>
#include <support/errors.hpp>

using namespace test;

namespace {

tt::Tensor wide(const tt::Tensor& t) { return t.to(tt::cpu).to(tt::f64); }

}  // namespace

TEST_CASE("4-bit strips: a fifth of the bytes, and products near those of the kept numbers") {
  tt::manual_seed(1);
  for (const tt::DType t : {tt::bf16, tt::f16, tt::f32}) {
    for (const auto& [N, K] : {std::pair<int64_t, int64_t>{16, 128}, {33, 320}, {70, 64}}) {
      const tt::Tensor w = tt::randn({N, K}, tt::f32, tt::cpu).to(t).to(tt::default_device());
      const tt::TwoFourMatrix two = tt::compress_two_four(w);
      const tt::Int4StripsMatrix s = tt::to_int4_strips(two);
      const tt::DType xt = t == tt::f32 ? tt::bf16 : t;
      const tt::Tensor x = tt::randn({9, K}, tt::f32, tt::cpu).to(xt).to(tt::default_device());
      const tt::Tensor bias = tt::randn({N}, tt::f32, tt::cpu).to(tt::default_device());
      const tt::Tensor want = tt::matmul(wide(x), tt::transpose(wide(two.dense()), 0, 1)) + wide(bias);
      const tt::Tensor off = wide(tt::linear(x, s, bias)) - want;
      const double noise = (off * off).sum().item<double>(), signal = (want * want).sum().item<double>();
      const double decibels = 10 * std::log10(signal / noise);
      CHECK(decibels > 17);  // 4 bits with a scale for 64 numbers: about 20
      CHECK(decibels < 30);
    }
  }
  const tt::Int4StripsMatrix s = tt::to_int4_strips(tt::compress_two_four(tt::randn({64, 1024})));
  CHECK(s.bytes() * 128 == 64 * 1024 * 2 * 25);
}

TEST_CASE("4-bit strips: the same codes on both devices; zeros and NaN; bad operands") {
  tt::manual_seed(2);
  tt::Tensor w = tt::randn({20, 200}, tt::f32, tt::cpu);
  for (int i = 0; i < 200; ++i) w.data<float>()[200 * 3 + i] = 0;
  w.data<float>()[200 * 5 + 7] = NAN;
  const tt::Int4StripsMatrix here = tt::to_int4_strips(tt::compress_two_four(w)),
                             there = tt::to_int4_strips(tt::compress_two_four(w.to(tt::default_device())));
  CHECK(same_values(here.codes(), there.codes().to(tt::cpu)));
  CHECK(same_values(here.scales(), there.scales().to(tt::cpu)));
  const tt::Tensor y = wide(tt::linear(tt::ones({1, 200}, tt::bf16, tt::default_device()), there));
  for (int n = 0; n < 20; ++n) CHECK(std::isnan(y.data<double>()[n]) == (n == 5));
  CHECK(y.data<double>()[3] == 0);
  CHECK(message_of([&] { (void)tt::linear(tt::zeros({2, 200}), here); }).find("TT-DTYPE-02") == 0);
  CHECK(message_of([&] { (void)tt::linear(tt::zeros({2, 204}, tt::bf16), here); }).find("TT-SHAPE-02") == 0);
  CHECK(message_of([&] {
          (void)tt::to_int4_strips(tt::to_two_four(tt::zeros({2, 4}, tt::i32)));
        }).find("TT-DTYPE-02") == 0);
  CHECK(message_of([&] {
          (void)tt::Int4StripsMatrix(here.codes(), here.scales(), 20, 260);
        }).find("TT-PRUNE-05") == 0);
}
