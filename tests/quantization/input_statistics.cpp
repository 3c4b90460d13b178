#include <tinytorch/quantization/input_statistics.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

TEST_CASE("the sums equal plain loops, for every dtype and layout") {
  tt::Generator generator(1);
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f64}) {
    const tt::Tensor x =
        tt::randn({9, 4, 5}, tt::f32, tt::cpu, generator).to(dtype).permute({1, 2, 0});  // [4, 5, 9]
    tt::InputStatistics s(9);
    s.observe(x);
    const std::vector<double> values = x.to(tt::f32).to_vector<double>(), gram = s.gram().to_vector<double>(),
                              most = s.abs_max().to_vector<double>(), mean = s.abs_mean().to_vector<double>();
    CHECK(s.rows() == 20);
    for (size_t i = 0; i < 9; ++i) {
      double largest = 0, total = 0;
      for (size_t r = 0; r < 20; ++r) {
        largest = std::max(largest, std::abs(values[r * 9 + i]));
        total += std::abs(values[r * 9 + i]);
      }
      CHECK(most[i] == largest);
      CHECK(mean[i] == doctest::Approx(total / 20).epsilon(1e-12));
      for (size_t j = 0; j < 9; ++j) {
        double sum = 0;
        for (size_t r = 0; r < 20; ++r) sum += values[r * 9 + i] * values[r * 9 + j];
        CHECK(gram[i * 9 + j] == doctest::Approx(sum).epsilon(1e-10));
      }
    }
  }
}

TEST_CASE("batches give the bits of all rows at once, for any number of threads") {
  const Layer layer = planted_layer(true);
  tt::InputStatistics at_once(256), batches(256), alone(256);
  at_once.observe(layer.x);
  for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 1}, {1, 500}, {500, 500}, {500, 1024}})
    batches.observe(layer.x.slice(0, from, to));
  const int threads = tt::thread_count();
  tt::set_thread_count(1);
  alone.observe(layer.x);
  tt::set_thread_count(threads);
  for (const tt::InputStatistics* const other : {&batches, &alone}) {
    CHECK(same_numbers(at_once.gram(), other->gram()));
    CHECK(same_numbers(at_once.abs_max(), other->abs_max()));
    CHECK(same_numbers(at_once.abs_mean(), other->abs_mean()));
  }
}

TEST_CASE("the squared error of outputs follows from the Gram matrix") {
  const Layer layer = planted_layer(false);
  tt::InputStatistics s(256);
  s.observe(layer.x);
  const tt::Tensor changed = tt::round(layer.w * 20) / 20, E = (layer.w - changed).to(tt::f64);
  const double by_gram = tt::sum(tt::matmul(E, s.gram()) * E).item<double>();
  const double by_outputs = tt::sum(tt::square(tt::matmul(layer.x.to(tt::f64), E.t()))).item<double>();
  CHECK(by_gram == doctest::Approx(by_outputs).epsilon(1e-9));
}

TEST_CASE("wrong sizes, NaN and a missing calibration are refused, and nothing is counted") {
  tt::InputStatistics s(3);
  test::expect_error("TT-CALIB-03", "at least one feature", [] { (void)tt::InputStatistics(0); });
  test::expect_error("TT-SHAPE-02", "3 features", [&] { s.observe(tt::ones({3, 2})); });
  test::expect_error("TT-SHAPE-02", "3 features", [&] { s.observe(tt::full({}, 1)); });
  tt::Tensor x = tt::ones({2, 3});
  x.select(0, 1).select(0, 2).fill_(std::nan(""));
  test::expect_error("TT-CALIB-01", "a NaN or an infinity", [&] { s.observe(x); });
  s.observe(tt::empty({0, 3}));
  CHECK(s.rows() == 0);
  CHECK(same_numbers(s.abs_mean(), tt::zeros({3}, tt::f64)));
  test::expect_error("TT-CALIB-02", "no inputs were observed", [&] {
    tt::require_statistics("gptq", tt::ones({2, 3}), s, tt::Loc::current());
  });
  test::expect_error("TT-SHAPE-02", "no weight [N, K]", [&] {
    tt::require_statistics("gptq", tt::ones({3, 2}), s, tt::Loc::current());
  });
}
