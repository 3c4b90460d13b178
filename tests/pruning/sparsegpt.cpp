#include <tinytorch/pruning/sparsegpt.hpp>

#include <pruning/formats.hpp>
#include <quantization/planted.hpp>
#include <tinytorch/pruning/activation_aware.hpp>

using namespace test;

namespace {

tt::InputStatistics observed(const tt::Tensor& x) {
  tt::InputStatistics s(x.size(-1));
  s.observe(x);
  return s;
}

}  // namespace

TEST_CASE("planted cases: SparseGPT answers correlation") {
  for (const bool outliers : {true, false}) {
    const Layer layer = planted_layer(outliers);
    const tt::InputStatistics inputs = observed(layer.x);
    const auto db = [&](const tt::Tensor& w) { return output_sqnr(layer, layer.x, w); };
    const double half = db(tt::sparsegpt(layer.w, inputs)),
                 pairs = db(tt::sparsegpt(layer.w, inputs, {.keep = 2, .of = 4}));
    INFO(half, " dB, 2:4 ", pairs, " dB");
    CHECK(std::abs(half - (outliers ? 29.8 : 16.3)) <= 1);
    CHECK(std::abs(pairs - (outliers ? 27.0 : 13.2)) <= 1);
    if (!outliers) {
      CHECK(half >= db(tt::masked(layer.w, tt::wanda_mask(layer.w, inputs, 0.5))) + 1.2);
      CHECK(pairs >= db(tt::masked(layer.w, tt::wanda_mask(layer.w, inputs, 2, 4))) + 1.2);
    }
  }
}

TEST_CASE("given its own mask, the kept weights of one row are the least-squares answer to the last column") {
  // If exactly the first column goes, the others solve the normal equations for the removed one.
  tt::Generator g(3);
  const int64_t K = 6;
  const tt::Tensor x =
      tt::matmul(tt::randn({200, K}, tt::f32, tt::cpu, g), tt::randn({K, K}, tt::f32, tt::cpu, g));
  tt::Tensor w = tt::randn({1, K}, tt::f32, tt::cpu, g);
  w.data<float>()[0] = 1e-3f;  // it has the least score
  const tt::Tensor got = tt::sparsegpt(w, observed(x), {.sparsity = 1.0 / 6, .damping = 0});
  REQUIRE(got.to_vector<double>()[0] == 0);
  // The residual X (w - got) is orthogonal to all other inputs.
  const tt::Tensor X = x.to(tt::f64), residual = tt::matmul(X, (w - got).to(tt::f64).t()),
                   dots = tt::matmul(X.t(), residual);
  const double scale = tt::max(tt::abs(tt::matmul(tt::abs(X).t(), tt::abs(residual)))).item<double>();
  for (size_t k = 1; k < 6; ++k) CHECK(std::abs(dots.to_vector<double>()[k]) < 1e-3 * scale);
}

TEST_CASE("exact counts in each block and group, removed elements are 0, the same bits for any threads") {
  const Layer layer = planted_layer(false);
  const tt::InputStatistics inputs = observed(layer.x);
  const tt::Tensor w = layer.w.slice(0, 0, 10);
  const tt::Tensor blocks = tt::sparsegpt(w, inputs, {.sparsity = 0.7, .block = 100});
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 100}, {100, 200}, {200, 256}})
    CHECK(nonzero_count(blocks.slice(1, begin, end)) ==
          10 * (end - begin) - std::llround(0.7 * 10 * static_cast<double>(end - begin)));
  const tt::Tensor groups = tt::sparsegpt(w, inputs, {.keep = 1, .of = 8});
  for (int64_t k = 0; k < 256; k += 8)
    for (int64_t n = 0; n < 10; ++n) CHECK(nonzero_count(groups.select(0, n).slice(0, k, k + 8)) == 1);
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  CHECK(same_values(tt::sparsegpt(w, inputs, {.keep = 1, .of = 8}), groups));
  tt::set_thread_count(threads);
  const tt::Tensor rounded = tt::sparsegpt(w.to(tt::bf16), inputs);
  CHECK(rounded.dtype() == tt::bf16);
  CHECK(nonzero_count(rounded) == 5 * 256);
}

TEST_CASE("dead inputs give no NaN, empty weights stay empty, and bad options are refused") {
  tt::Tensor x = sparse_matrix(8, 40, 1, 5).clone();
  x.slice(1, 3, 5).zero_();
  for (const tt::Tensor& inputs : {x, tt::zeros({8, 40})})
    for (const double v : tt::sparsegpt(sparse_matrix(6, 40, 1, 6), observed(inputs)).to_vector<double>())
      CHECK(std::isfinite(v));
  CHECK(tt::sparsegpt(tt::empty({0, 40}), observed(x)).shape() == tt::Shape{0, 40});
  const auto code = [&](const tt::SparseGptOptions& o) {
    return errors::thrown_by([&] { tt::sparsegpt(tt::ones({2, 40}), observed(x), o); }).code;
  };
  CHECK(code({.sparsity = 1}) == "TT-PRUNE-02");
  CHECK(code({.block = 0}) == "TT-PRUNE-02");
  CHECK(code({.damping = -1}) == "TT-PRUNE-02");
  CHECK(code({.keep = 2, .of = 7}) == "TT-PRUNE-01");
  CHECK(code({.keep = 0, .of = 4}) == "TT-PRUNE-01");
}
