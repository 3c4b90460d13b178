#include <algorithm>
#include <support/fresh.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("word i % 4 of Philox block first + i / 4 decides if dropout keeps element i" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const double p : {0.0, 0.1, 0.5, 0.97, 1.0}) {
      for (const Shape& shape :
           {Shape{1}, Shape{3}, Shape{31}, Shape{3, 11}, Shape{257}, Shape{5, 4, 50}, Shape{4099}}) {
        const Layout layout = kLayouts[fresh.next() % 3];
        INFO(text_of(t), " p ", p, " of ", shape.str(), " layout ", static_cast<int>(layout));
        // 0xfffffffe: block numbers exceed 32 bits
        const uint64_t seed = fresh.next(), first = fresh.next() % 2 ? 7 : 0xfffffffeu;
        DeviceArray x = fresh.array(t, shape, 1, 2, layout), y(t, shape, layout);
        kernels::dropout(y.view(), x.view(), p, seed, first);
        std::vector<double> want = x.values();
        const std::vector<double> got = y.values();
        for (size_t i = 0; i < want.size(); ++i) {
          const uint32_t word = philox(seed, first + i / 4).v[i % 4];
          want[i] = static_cast<double>(word) >= p * 0x1p32 ? want[i] / (1 - p) : 0;
        }
        check_close(got, want, t, 2, 0);
      }
    }
  }
}

TEST_CASE("dropout's gradient has the mask of the forward pass, and both equal the CPU's results" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    tinytorch::Tensor x = tinytorch::ones({5, 33}, t, tinytorch::cuda), same = tinytorch::ones({5, 33}, t);
    x.requires_grad_();
    same.requires_grad_();
    const uint64_t seed = fresh.next();
    tinytorch::manual_seed(seed);
    const tinytorch::Tensor y = tinytorch::dropout(x, 0.4);
    tinytorch::manual_seed(seed);
    const tinytorch::Tensor on_cpu = tinytorch::dropout(same, 0.4);
    y.sum().backward();
    on_cpu.sum().backward();
    const std::vector<double> values = y.detach().to(tinytorch::cpu).to_vector<double>();
    CHECK(values == on_cpu.detach().to_vector<double>());
    CHECK(values == x.grad().to(tinytorch::cpu).to_vector<double>());
    CHECK(values == same.grad().to_vector<double>());
    CHECK(std::count(values.begin(), values.end(), 0.0) > 20);
    CHECK(std::count(values.begin(), values.end(), 0.0) < 120);
  }
  tinytorch::manual_seed(0);
}

TEST_CASE("dropout sets dropped infinities and NaNs to 0, and keeps the right share of elements" *
          needs_devices()) {
  constexpr int64_t kCount = 4096;
  std::vector<double> values(kCount, 1);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = kNan, values[i + 1] = kInfinity;
  for (const DType t : {f32, bf16, f64}) {
    for (const Layout layout : {Layout::dense, Layout::gaps}) {
      DeviceArray x = DeviceArray::from(t, {kCount}, values, layout), y(t, {kCount}, layout);
      kernels::dropout(y.view(), x.view(), 0.25, 3, 0);
      const std::vector<double> got = y.values();
      size_t kept = 0;
      bool right = true;
      for (size_t i = 0; i < got.size(); ++i) {
        const bool keeps = static_cast<double>(philox(3, i / 4).v[i % 4]) >= 0x1p30;
        kept += keeps;
        right = right && (keeps ? std::isnan(got[i]) == std::isnan(values[i]) && got[i] != 0 : got[i] == 0);
      }
      INFO(text_of(t), " layout ", static_cast<int>(layout));
      CHECK(right);
      CHECK(std::abs(static_cast<double>(kept) - 3072) < 6 * 28);  // deviation: sqrt(4096 * 3 / 16)
    }
  }
}

TEST_CASE("dropout accepts empty tensors" * needs_devices()) {
  DeviceArray x(f32, {0, 3});
  kernels::dropout(x.view(), x.view(), 0.5, 1, 0);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
