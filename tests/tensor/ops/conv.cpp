#include <support/errors.hpp>
#include <support/golden_calls.hpp>

#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using test::expect_error;

TEST_CASE("conv2d of a known image") {
  const tt::Tensor x = tt::from_data<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
  const tt::Tensor w = tt::from_data<float>({1, 10, 100, 1000}, {1, 1, 2, 2});
  const tt::Tensor b = tt::from_data<float>({0.5F});
  const tt::Tensor y = tt::conv2d(x, w, b);
  CHECK(y.shape() == tt::Shape{1, 1, 2, 2});
  CHECK(y.to_vector<double>() == std::vector<double>{5421.5, 6532.5, 8754.5, 9865.5});
  const tt::Tensor padded = tt::conv2d(x, w, {}, {.stride = 3, .padding = 1});
  CHECK(padded.to_vector<double>() == std::vector<double>{1000, 300, 70, 9});
}

TEST_CASE("conv2d without input channels gives the bias, and gradients that are zero or empty") {
  const tt::Tensor weight = tt::empty({3, 0, 3, 3}), bias = tt::from_data<float>({1, 2, 3});
  const tt::Tensor y = tt::conv2d(tt::empty({2, 0, 3, 3}), weight, bias);
  CHECK(y.to_vector<double>() == std::vector<double>{1, 2, 3, 1, 2, 3});
  CHECK(tt::conv2d(tt::empty({2, 0, 3, 3}), weight).to_vector<double>() == std::vector<double>(6, 0.0));
  for (const auto& [N, C, M] : {std::array<int64_t, 3>{2, 0, 3}, {2, 4, 0}, {0, 4, 3}}) {
    tt::Tensor x = tt::ones({N, C, 4, 4}), w = tt::ones({M, C, 3, 3}), b = tt::ones({M});
    for (tt::Tensor* t : {&x, &w, &b}) t->requires_grad_();
    tt::sum(tt::conv2d(x, w, b)).backward();
    CHECK(x.grad().to_vector<double>() == std::vector<double>(static_cast<size_t>(N * C * 16), 0.0));
    CHECK(w.grad().to_vector<double>() == std::vector<double>(static_cast<size_t>(M * C * 9), 0.0));
    CHECK(b.grad().to_vector<double>() ==
          std::vector<double>(static_cast<size_t>(M), 4.0 * static_cast<double>(N)));
  }
}

TEST_CASE("conv2d: operands that do not fit are errors that state the rule") {
  const tt::Tensor x = tt::empty({2, 3, 8, 8}), w = tt::empty({4, 3, 3, 3});
  expect_error("TT-SHAPE-04", "images [N, C, H, W]", [&] { tt::conv2d(tt::empty({3, 8, 8}), w); });
  expect_error("TT-SHAPE-04", "weight [C_out", [&] { tt::conv2d(x, tt::empty({4, 3, 3})); });
  expect_error("TT-SHAPE-02", "reads 2 channels, x has 3", [&] { tt::conv2d(x, tt::empty({4, 2, 3, 3})); });
  expect_error("TT-SHAPE-02", "bias [C_out]", [&] { tt::conv2d(x, w, tt::empty({3})); });
  expect_error("TT-SHAPE-02", "groups 3", [&] { tt::conv2d(x, w, {}, {.groups = 3}); });
  expect_error("TT-SHAPE-20", "hint: raise padding", [&] { tt::conv2d(x, tt::empty({4, 3, 9, 3})); });
  expect_error("TT-RANGE-08", "stride 0", [&] { tt::conv2d(x, w, {}, {.stride = 0}); });
  expect_error("TT-DTYPE-03", "differ in dtype", [&] { tt::conv2d(x, w.to(tt::f64)); });
  expect_error("TT-DTYPE-02", "floating dtype", [&] { tt::conv2d(x.to(tt::i32), w.to(tt::i32)); });
}

TEST_CASE("channels-last images give channels-last results and gradients with the same values") {
  for (const int64_t groups : {1, 3, 6}) {
    const tt::Tensor x = tt::randn({2, 6, 5, 4}), w = tt::randn({6, 6 / groups, 3, 3}), b = tt::randn({6});
    const auto run = [&](tt::Tensor images) {
      tt::Tensor filters = w.clone(), bias = b.clone();
      for (tt::Tensor* t : {&images, &filters, &bias}) t->requires_grad_();
      tt::Tensor y = tt::conv2d(images, filters, bias, {.stride = 2, .padding = 1, .groups = groups});
      tt::Tensor g = y.detach();
      g = g.is_contiguous() ? tt::ones_like(g) : tt::ones({2, 3, 2, 6}).permute({0, 3, 1, 2});
      y.backward(g);
      return tt::Tensors{y.detach(), images.grad(), filters.grad(), bias.grad()};
    };
    const tt::Tensors want = run(x.clone());
    const tt::Tensors found = run(x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}));
    for (size_t i = 0; i < want.size(); ++i) {
      const auto a = want[i].to_vector<double>(), c = found[i].to_vector<double>();
      REQUIRE(a.size() == c.size());
      for (size_t k = 0; k < a.size(); ++k) CHECK(std::abs(a[k] - c[k]) < 1e-4);
    }
    CHECK(want[0].is_contiguous());
    CHECK(want[1].is_contiguous());
    const bool follows = x.device().is_cpu();  // other devices give contiguous results
    CHECK(found[0].strides() == (follows ? tt::Strides{36, 1, 12, 6} : want[0].strides()));
    CHECK(found[1].strides() == (follows ? tt::Strides{120, 1, 24, 6} : want[1].strides()));
    CHECK(found[2].is_contiguous());
  }
}

namespace {
tt::Size2d pair_of(const nlohmann::json& options, const char* name, int64_t none) {
  if (!options.contains(name)) return none;
  return {options[name][0].get<int64_t>(), options[name][1].get<int64_t>()};
}
}  // namespace

TEST_CASE(
    "strides, paddings and dilations that differ between the sides have PyTorch's values and gradients") {
  CHECK(golden::check_calls("conv2d", [](const nlohmann::json& o, const tt::Tensors& in) -> tt::Tensors {
          return {tt::conv2d(in[0], in[1], in.size() > 2 ? in[2] : tt::Tensor(),
                             {.stride = pair_of(o, "stride", 1),
                              .padding = pair_of(o, "padding", 0),
                              .dilation = pair_of(o, "dilation", 1),
                              .groups = o.value("groups", 1)})};
        }) == 5);
  const tt::Tensor x = tt::zeros({1, 1, 4, 4}), w = tt::zeros({1, 1, 3, 3});
  expect_error("TT-RANGE-08", "padding {-1, 0}", [&] { tt::conv2d(x, w, {}, {.padding = {-1, 0}}); });
  expect_error("TT-RANGE-08", "stride {0, 1}", [&] { tt::conv2d(x, w, {}, {.stride = {0, 1}}); });
  expect_error("TT-SHAPE-04", "images", [&] { tt::conv2d(x.select(0, 0), w, {}, {.stride = {2, 1}}); });
  expect_error("TT-SHAPE-20", "does not fit", [&] {
    tt::conv2d(x, tt::zeros({1, 1, 3, 5}), {}, {.padding = {1, 0}});
  });
  CHECK(tt::conv2d(tt::zeros({0, 1, 4, 4}), w, {}, {.stride = {2, 1}}).shape() == tt::Shape{0, 1, 1, 2});
}

TEST_CASE("random rectangular convolutions agree with sums in double precision") {
  tt::manual_seed(11);
  for (int round = 0; round < 12; ++round) {
    const auto draw = [](int64_t low, int64_t high) {
      return tt::randint(low, high + 1, {1}, tt::i64, tt::cpu).item<int64_t>();
    };
    const int64_t G = draw(1, 2), N = 2, C = 3 * G, M = 2 * G, H = draw(7, 12), W = draw(7, 12);
    const int64_t KH = draw(1, 3), KW = draw(1, 3);
    const tt::Size2d s{draw(1, 4), draw(1, 4)}, p{draw(0, 3), draw(0, 3)}, d{draw(1, 3), draw(1, 3)};
    const tt::Tensor x = tt::randn({N, C, H, W}), w = tt::randn({M, C / G, KH, KW}), b = tt::randn({M});
    const tt::Tensor last = x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
    const tt::Conv2dOptions options{.stride = s, .padding = p, .dilation = d, .groups = G};
    const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), bs = b.to_vector<double>();
    const auto at = [](int64_t i) { return static_cast<size_t>(i); };
    const int64_t OH = (H + 2 * p.height - d.height * (KH - 1) - 1) / s.height + 1,
                  OW = (W + 2 * p.width - d.width * (KW - 1) - 1) / s.width + 1;
    std::vector<double> want;
    for (int64_t o = 0; o < N * M * OH * OW; ++o) {
      const int64_t ow = o % OW, oh = o / OW % OH, m = o / (OW * OH) % M, n = o / (OW * OH * M);
      double sum = bs[at(m)];
      for (int64_t t = 0; t < C / G * KH * KW; ++t) {
        const int64_t kw = t % KW, kh = t / KW % KH, c = m / (M / G) * (C / G) + t / (KW * KH);
        const int64_t h = oh * s.height - p.height + kh * d.height, v = ow * s.width - p.width + kw * d.width;
        if (h >= 0 && h < H && v >= 0 && v < W)
          sum += xs[at(((n * C + c) * H + h) * W + v)] * ws[at(m * (C / G) * KH * KW + t)];
      }
      want.push_back(sum);
    }
    INFO("round ", round);
    const tt::Tensor y = tt::conv2d(x, w, b, options);
    REQUIRE(y.shape() == tt::Shape{N, M, OH, OW});
    CHECK(y.is_contiguous());
    check_values(y.to_vector<double>(), want, 1e-4);
    check_values(tt::conv2d(last, w, b, options).to_vector<double>(), want, 1e-4);
  }
}
