#include <doctest/doctest.h>

#include <cmath>
#include <support/device.hpp>
#include <support/fresh.hpp>
#include <tinytorch/quantization/tensor.hpp>

using namespace tinytorch;

namespace {

uint64_t seed() {
  static test::Fresh fresh;
  return fresh.next();
}
// Whether linear has a kernel for weights in this format on the default device.
bool has_kernel(const BlockFormat& f) {
  const std::string name = f.name;
  return default_device().is_cpu() || name == "Q8_0" || name == "Q4_0" || name == "Q4_1";
}

}  // namespace

TEST_CASE("linear with packed weights is linear with the decoded ones") {
  manual_seed(seed());
  for (const BlockFormat& f : block_formats()) {
    if (!has_kernel(f)) continue;
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      for (const int64_t rows : {1, 5, 40}) {
        CAPTURE(f.name);
        CAPTURE(name_of(t));
        CAPTURE(rows);
        const int64_t K = 3 * f.block;
        const QuantizedTensor w = quantize(randn({33, K}), f);
        const Tensor x = randn({2, rows, 2 * K}).to(t), narrow = slice(x, -1, 0, K), bias = randn({33});
        const Tensor want = linear(narrow.to(DType::f64), w.dequantize(DType::f64), bias.to(DType::f64));
        for (const Activations a : {Activations::floats, Activations::int8}) {
          const Tensor y = linear(narrow, w, bias, a);
          CHECK(y.shape() == Shape{2, rows, 33});
          CHECK(y.dtype() == t);
          const Tensor error = y.to(DType::f64) - want;
          const double relative =
              std::sqrt(sum(error * error).item<double>() / sum(want * want).item<double>());
          CHECK(relative < (t == DType::bf16  ? 6e-3
                            : t == DType::f16 ? 1e-3
                                              : 1e-5) +
                               (a == Activations::int8 ? 8e-3 : 0));
        }
      }
    }
  }
}

TEST_CASE("the memory of a packed tensor is what its format says, and rows are views of it") {
  const Tensor x = randn({12, 512});
  for (const BlockFormat& f : block_formats()) {
    CAPTURE(f.name);
    const QuantizedTensor w = quantize(x, f);
    CHECK(static_cast<double>(w.bytes()) == 12 * 512 * f.bits_per_weight() / 8);
    CHECK(w.shape() == Shape{12, 512});
    const QuantizedTensor part = w.rows(3, 7);
    CHECK(part.shape() == Shape{4, 512});
    CHECK(part.blocks().storage() == w.blocks().storage());
    CHECK(all(part.dequantize() == slice(w.dequantize(), 0, 3, 7)).item<bool>());
    CHECK(w.describe().find(f.name) != std::string::npos);
    CHECK(sqnr_db(x, w) > 15);
    const QuantizedTensor moved = w.to(cpu);
    CHECK(all(moved.blocks() == w.blocks().to(cpu)).item<bool>());
  }
}

TEST_CASE("planted accuracies: normal numbers and numbers with heavy tails") {
  manual_seed(seed());
  const Tensor gauss = randn({128, 4096}, DType::f32, cpu);
  // Student's t with 5 degrees of freedom: a normal number over the root of the mean of 5 squares.
  Tensor squares = zeros({128, 4096}, DType::f32, cpu);
  for (int i = 0; i < 5; ++i) {
    const Tensor z = randn({128, 4096}, DType::f32, cpu);
    squares = squares + z * z;
  }
  const Tensor heavy = randn({128, 4096}, DType::f32, cpu) / sqrt(squares * 0.2);
  const auto near = [](double got, double want) { return std::fabs(got - want) < 0.5; };
  CHECK(near(sqnr_db(gauss, quantize(gauss, "Q8_0")), 45.5));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "Q8_0")), 43.4));
  CHECK(near(sqnr_db(gauss, quantize(gauss, "Q4_0")), 21.3));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "Q4_0")), 19.4));
  CHECK(near(sqnr_db(gauss, quantize(gauss, "Q4_1")), 22.1));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "Q4_1")), 20.9));
  CHECK(near(sqnr_db(gauss, quantize(gauss, "Q4_K")), 22.95));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "Q4_K")), 21.65));
  CHECK(near(sqnr_db(gauss, quantize(gauss, "Q6_K")), 35.25));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "Q6_K")), 33.55));
}

TEST_CASE("what does not fit is refused by name") {
  const auto code = [](auto&& f) {
    try {
      f();
    } catch (const Error& e) {
      return std::string(e.what()).substr(0, 11);
    }
    return std::string("nothing");
  };
  const QuantizedTensor w = quantize(randn({4, 64}), "Q4_0");
  CHECK(code([&] { quantize(randn({4, 64}), "Q9_9"); }) == "TT-QUANT-01");
  CHECK(code([&] { QuantizedTensor(w.format(), 64, zeros({4, 35}, DType::u8)); }) == "TT-QUANT-02");
  CHECK(code([&] { quantize(randn({4, 65}), "Q4_0"); }) == "TT-QUANT-03");
  CHECK(code([&] { quantize(full({4, 64}, NAN), "Q4_0"); }) == "TT-QUANT-04");
  CHECK(code([&] { quantize(ones({4, 64}) / zeros({4, 64}), "Q8_0"); }) == "TT-QUANT-04");
  CHECK(code([&] { linear(randn({2, 32}), w); }) == "TT-SHAPE-02");
  CHECK(code([&] { linear(randn({2, 64}), w, randn({5})); }) == "TT-SHAPE-02");
  CHECK(code([&] { linear(randn({2, 64}).to(DType::f64), w); }) == "TT-DTYPE-02");
  CHECK(linear(randn({0, 64}), w).shape() == Shape{0, 4});
  CHECK(quantize(randn({0, 64}), "Q4_0").bytes() == 0);
}
