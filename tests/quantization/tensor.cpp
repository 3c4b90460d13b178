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
// Returns true if linear has a kernel for weights in this format on the default device.
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

TEST_CASE("linear with codes and scales beside them is linear with the decoded ones") {
  manual_seed(seed());
  for (const BlockFormat& f : code_formats()) {
    for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
      for (const int64_t rows : {1, 5, 40}) {
        CAPTURE(f.name);
        CAPTURE(name_of(t));
        CAPTURE(rows);
        const int64_t K = 150;
        const QuantizedTensor w = quantize(randn({33, K}) + 0.3, f);
        const Tensor x = randn({2, rows, 2 * K}).to(t), narrow = slice(x, -1, 0, K), bias = randn({33});
        const Tensor want = linear(narrow.to(DType::f64), w.dequantize(DType::f64), bias.to(DType::f64));
        for (const Activations a : {Activations::floats, Activations::int8}) {
          const Tensor y = linear(narrow, w, bias, a);
          CHECK(y.shape() == Shape{2, rows, 33});
          CHECK(y.dtype() == t);
          const Tensor error = y.to(DType::f64) - want;
          const double relative =
              std::sqrt(sum(error * error).item<double>() / sum(want * want).item<double>());
          // Codes of 8 bits have an error of 1/127 of the largest of a row; those of fp8 have 3 bits.
          const double rounding = a == Activations::floats                 ? 0
                                  : f.codes == CodeType::int8              ? 2e-2
                                  : !default_device().is_cpu() && rows > 8 ? 5e-2
                                                                           : 0;
          CHECK(relative < (t == DType::bf16 ? 6e-3 : t == DType::f16 ? 1e-3 : 1e-5) + rounding);
        }
      }
    }
  }
}

TEST_CASE("scales beside the codes: memory, views of rows, and moves") {
  const Tensor x = randn({3, 4, 100}) * 5;
  for (const BlockFormat& f : code_formats()) {
    CAPTURE(f.name);
    const QuantizedTensor w = quantize(x, f);
    const int64_t scales = f.scales == Scales::of_rows ? 12 : 1;
    CHECK(w.bytes() == 1200 + scales * (f.zero_points ? 8 : 4));
    CHECK(w.shape() == Shape{3, 4, 100});
    const QuantizedTensor part = w.rows(1, 3);
    CHECK(part.blocks().storage() == w.blocks().storage());
    CHECK(part.scales().storage() == w.scales().storage());
    CHECK(all(part.dequantize() == slice(w.dequantize(), 0, 1, 3)).item<bool>());
    CHECK(w.describe().find(f.name) != std::string::npos);
    CHECK(sqnr_db(x, w) > (f.codes == CodeType::fp8_e5m2 ? 22 : 28));
    const QuantizedTensor moved = w.to(cpu);
    CHECK(all(moved.scales() == w.scales().to(cpu)).item<bool>());
    CHECK(all(moved.dequantize() == w.dequantize().to(cpu)).item<bool>());
    // A row is packed by itself, and one row has the same bytes as a tensor of rank 1.
    if (f.scales == Scales::of_rows) {
      const QuantizedTensor row = quantize(x[1][2], f);
      CHECK(all(row.blocks() == w.blocks()[1][2]).item<bool>());
      CHECK(all(row.dequantize() == w.dequantize()[1][2]).item<bool>());
    }
  }
}

TEST_CASE("codes are those of the rule: extremes get the extreme codes, halves go to even, 0 stays 0") {
  const Tensor x = from_data({-254.0f, 127.0f, 1.0f, 3.0f, 0.0f, 254.0f}, {1, 6}, cpu);
  const auto codes_of = [](const QuantizedTensor& w) {
    std::vector<int> out;
    for (int64_t i = 0; i < w.blocks().numel(); ++i)
      out.push_back(static_cast<int8_t>(w.blocks().view_of().as<const uint8_t>()[i]));
    return out;
  };
  const QuantizedTensor plain = quantize(x, "I8");
  CHECK(plain.scales().item<float>() == 2);
  CHECK(codes_of(plain) == std::vector<int>{-127, 64, 0, 2, 0, 127});  // 63.5, 0.5 and 1.5 go to even
  // The range -10 to 245 has steps of 1, so that 0 has the code 10 - 128.
  const QuantizedTensor shifted = quantize(from_data({-10.0f, 245.0f, 0.0f, 100.4f}, {1, 4}, cpu), "I8_zero");
  CHECK(shifted.scales().item<float>() == 1);
  CHECK(shifted.zero_points().item<int32_t>() == -118);
  CHECK(codes_of(shifted) == std::vector<int>{-128, 127, -118, -18});
  CHECK(shifted.dequantize()[0][2].item<float>() == 0);
  const QuantizedTensor e4m3 = quantize(from_data({448.0f, -1.0f, 17.0f, 0.0f}, {4}, cpu), "F8_E4M3_tensor");
  CHECK(codes_of(e4m3) == std::vector<int>{0x7e, 0xb8 - 256, 0x58, 0});  // 17 is between 16 and 18: to even
  // Rows of zeros, and constant rows.
  for (const BlockFormat& f : code_formats()) {
    CAPTURE(f.name);
    CHECK(all(quantize(zeros({3, 7}), f).dequantize() == zeros({3, 7})).item<bool>());
    const Tensor back = quantize(full({3, 7}, -2.5), f).dequantize();
    CHECK(max(abs(back + 2.5)).item<float>() < 1e-6);
    CHECK(quantize(zeros({0, 7}), f).dequantize().shape() == Shape{0, 7});
    CHECK(quantize(zeros({3, 0}), f).shape() == Shape{3, 0});
  }
}

TEST_CASE("planted accuracies of codes with one scale, and one for each row") {
  manual_seed(seed());
  const Tensor gauss = randn({128, 4096}, DType::f32, cpu);
  Tensor squares = zeros({128, 4096}, DType::f32, cpu);
  for (int i = 0; i < 5; ++i) {
    const Tensor z = randn({128, 4096}, DType::f32, cpu);
    squares = squares + z * z;
  }
  const Tensor heavy = randn({128, 4096}, DType::f32, cpu) / sqrt(squares * 0.2);
  const auto near = [](double got, double want, double by = 0.6) { return std::fabs(got - want) < by; };
  CHECK(near(sqnr_db(gauss, quantize(gauss, "I8_tensor")), 38.8, 1));
  // One outlier decides the scale of all.
  CHECK(sqnr_db(heavy, quantize(heavy, "I8_tensor")) < sqnr_db(heavy, quantize(heavy, "I8")) - 4);
  CHECK(near(sqnr_db(gauss, quantize(gauss, "I8")), 41.2));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "I8")), 33.1, 1.5));
  CHECK(near(sqnr_db(gauss, quantize(gauss, "F8_E4M3_tensor")), 31.5));
  CHECK(near(sqnr_db(heavy, quantize(heavy, "F8_E4M3_tensor")), 31.6));
}

TEST_CASE("a scale that overflows f16 is refused, and nothing is packed") {
  const auto refused = [](float extreme, const char* format) {
    Tensor x = ones({4, 256});
    x[2][17].fill_(extreme);
    try {
      (void)quantize(x, format);
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find("TT-QUANT-07") != std::string::npos);
      CHECK(std::string(e.what()).find("row 2") != std::string::npos);
      return true;
    }
    return false;
  };
  const float half = 65504;
  CHECK(!refused(half * 126, "Q8_0"));
  CHECK(refused(half * 130, "Q8_0"));
  CHECK(!refused(half * 7.9f, "Q4_0"));
  CHECK(refused(half * 8.2f, "Q4_0"));
  CHECK(!refused(-half * 0.9f, "Q4_1"));
  CHECK(refused(-half * 1.1f, "Q4_1"));  // the least number is stored as f16
  CHECK(refused(half * 8, "Q8_1"));      // the sum of the block
  for (const char* format : {"Q4_K", "Q6_K"}) CHECK(refused(1e30f, format));
  for (const BlockFormat& f : code_formats()) CHECK(!refused(3e38f, f.name));
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
  const Tensor bytes = zeros({4, 64}, DType::u8);
  CHECK(code([&] { QuantizedTensor(block_format("I8"), 64, bytes); }) == "TT-QUANT-02");
  CHECK(code([&] { QuantizedTensor(block_format("I8"), 64, bytes, ones({5})); }) == "TT-QUANT-02");
  CHECK(code([&] { QuantizedTensor(block_format("I8"), 64, bytes, ones({4}).to(DType::f64)); }) ==
        "TT-QUANT-02");
  CHECK(code([&] { QuantizedTensor(block_format("I8_zero"), 64, bytes, ones({4})); }) == "TT-QUANT-02");
  CHECK(code([&] { QuantizedTensor(w.format(), 64, w.blocks(), ones({4})); }) == "TT-QUANT-02");
  CHECK(code([&] { linear(randn({2, 32}), quantize(randn({4, 64}), "I8")); }) == "TT-SHAPE-02");
  CHECK(code([&] { quantize(full({4, 64}, NAN), "Q4_0"); }) == "TT-QUANT-04");
  CHECK(code([&] { quantize(ones({4, 64}) / zeros({4, 64}), "Q8_0"); }) == "TT-QUANT-04");
  CHECK(code([&] { linear(randn({2, 32}), w); }) == "TT-SHAPE-02");
  CHECK(code([&] { linear(randn({2, 64}), w, randn({5})); }) == "TT-SHAPE-02");
  CHECK(code([&] { linear(randn({2, 64}).to(DType::f64), w); }) == "TT-DTYPE-02");
  CHECK(linear(randn({0, 64}), w).shape() == Shape{0, 4});
  CHECK(quantize(randn({0, 64}), "Q4_0").bytes() == 0);
}
