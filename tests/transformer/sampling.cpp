// Filters are compared with transformers and with numbers computed by hand, samples with their distribution.
#include <tinytorch/transformer/sampling.hpp>

#include <tinytorch/tinytorch.hpp>

#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;

namespace {

std::vector<double> probabilities(const std::vector<double>& p, const tt::SamplingOptions& options,
                                  const std::vector<int32_t>& seen = {}) {
  std::vector<double> logits;
  for (const double x : p) logits.push_back(std::log(x));
  return tt::next_token_probabilities(tt::from_data(logits), seen, options);
}

}  // namespace

TEST_CASE("all filters, alone and together, give the probabilities of transformers") {
  for (const auto& one : read_golden("sampling")) {
    const auto& o = one["options"];
    CAPTURE(o.dump());
    const tt::SamplingOptions options{.temperature = o.value("temperature", 1.0),
                                      .top_k = o.value("top_k", int64_t{0}),
                                      .top_p = o.value("top_p", 1.0),
                                      .min_p = o.value("min_p", 0.0),
                                      .repetition_penalty = o.value("repetition_penalty", 1.0)};
    const auto logits = tt::from_data(one["logits"].get<std::vector<double>>());
    const auto seen = one["seen"].get<std::vector<int32_t>>();
    check_values(tt::next_token_probabilities(logits, seen, options),
                 one["probabilities"].get<std::vector<double>>(), 1e-12);
  }
}

TEST_CASE("the filters give probabilities computed by hand") {
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  check_values(probabilities(p, {}), p, 1e-12);
  check_values(probabilities(p, {.temperature = 0.5}), {1 / 30.0, 16 / 30.0, 4 / 30.0, 9 / 30.0}, 1e-12);
  check_values(probabilities(p, {.temperature = 0}), {0, 1, 0, 0}, 0);
  check_values(probabilities(p, {.top_k = 2}), {0, 4 / 7.0, 0, 3 / 7.0}, 1e-12);
  check_values(probabilities(p, {.top_p = 0.75}), {0, 4 / 9.0, 2 / 9.0, 3 / 9.0}, 1e-12);
  check_values(probabilities(p, {.top_p = 0.6}), {0, 4 / 7.0, 0, 3 / 7.0}, 1e-12);
  check_values(probabilities(p, {.top_p = 1e-9}), {0, 1, 0, 0}, 0);
  check_values(probabilities(p, {.min_p = 0.6}), {0, 4 / 7.0, 0, 3 / 7.0}, 1e-12);
  check_values(probabilities(p, {.min_p = 1}), {0, 1, 0, 0}, 0);
  // After top-k 2 the larger token has 4/7 of the probability, enough for top-p 0.55.
  check_values(probabilities(p, {.top_k = 2, .top_p = 0.55}), {0, 1, 0, 0}, 0);
  // Logits below 0 are multiplied: log 0.4 becomes 2 log 0.4.
  const double sum = 0.1 + 0.16 + 0.2 + 0.3;
  check_values(probabilities(p, {.repetition_penalty = 2}, {1, 1, 99, -5}),
               {0.1 / sum, 0.16 / sum, 0.2 / sum, 0.3 / sum}, 1e-12);
}

TEST_CASE("ties: top-k keeps all tokens equal to the k-th, top-p the smaller one, temperature 0 the first") {
  const std::vector<double> p = {0.2, 0.3, 0.3, 0.2};
  check_values(probabilities(p, {.top_k = 1}), {0, 0.5, 0.5, 0}, 1e-12);
  check_values(probabilities(p, {.top_k = 3}), p, 1e-12);
  check_values(probabilities(p, {.top_p = 0.25}), {0, 1, 0, 0}, 1e-12);
  check_values(probabilities(p, {.temperature = 0}), {0, 1, 0, 0}, 0);
}

TEST_CASE("samples follow the probabilities (chi-square test), and depend on the seed alone") {
  const std::vector<double> p = {0.05, 0.3, 0.0, 0.15, 0.25, 0.02, 0.13, 0.1};
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  const tt::Tensor t = tt::from_data(logits);
  for (const tt::SamplingOptions& options :
       {tt::SamplingOptions{}, {.temperature = 1.7}, {.top_k = 4}, {.top_p = 0.7}}) {
    const std::vector<double> expected = tt::next_token_probabilities(t, {}, options);
    constexpr int kDraws = 20000;
    std::vector<int> counts(p.size());
    tt::Generator generator(17);
    for (int i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(tt::sample_token(t, {}, options, generator))];
    double statistic = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double mean = kDraws * expected[i];
      if (mean == 0)
        CHECK(counts[i] == 0);
      else
        statistic += (counts[i] - mean) * (counts[i] - mean) / mean;
    }
    CHECK(statistic < 22.5);  // at most 6 degrees of freedom: p = 0.001
    tt::Generator a(4), b(4);
    for (int i = 0; i < 50; ++i)
      CHECK(tt::sample_token(t, {}, options, a) == tt::sample_token(t, {}, options, b));
  }
}

TEST_CASE("extreme values: low and high temperatures, distant logits, -inf") {
  const double inf = std::numeric_limits<double>::infinity();
  const tt::Tensor t = tt::from_data({1000.0, -1000.0, 999.0, -inf});
  check_values(tt::next_token_probabilities(t, {}, {.temperature = 1e-300}), {1, 0, 0, 0}, 0);
  check_values(tt::next_token_probabilities(t, {}, {.temperature = 1e300}), {1 / 3.0, 1 / 3.0, 1 / 3.0, 0},
               1e-12);
  check_values(tt::next_token_probabilities(t, {}, {.top_k = 2, .top_p = 0.99, .min_p = 0.5}), {1, 0, 0, 0},
               1e-12);
  tt::Generator generator(1);
  for (int i = 0; i < 20; ++i)
    CHECK(tt::sample_token(tt::from_data({-inf, 3.0, -inf}), {}, {.min_p = 0.5}, generator) == 1);
}

TEST_CASE("invalid options and logits throw") {
  const tt::Tensor t = tt::from_data({1.0, 2.0});
  for (const tt::SamplingOptions& bad : {tt::SamplingOptions{.temperature = -1},
                                         {.temperature = std::nan("")},
                                         {.top_k = -1},
                                         {.top_p = 0},
                                         {.top_p = 1.1},
                                         {.min_p = -0.1},
                                         {.min_p = 2},
                                         {.repetition_penalty = 0}}) {
    CHECK(message_of([&] { tt::next_token_probabilities(t, {}, bad); }).starts_with("TT-NN-25: sampling"));
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (const tt::Tensor& bad :
       {tt::from_data({1.0, std::nan("")}), tt::from_data({-inf, -inf}), tt::from_data({inf, 0.0}),
        tt::zeros({2, 2}, tt::f32), tt::zeros({0}, tt::f32)}) {
    CHECK(message_of([&] {
            tt::next_token_probabilities(bad);
          }).starts_with("TT-NN-26: sampling: needs logits [V]"));
  }
}
