#include <tinytorch/transformer/token_choice.hpp>

#include <set>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

// The token that sample_token() gets with the same number: no generator is needed for one.
int64_t sampled(const tt::Tensor& logits, const std::vector<int32_t>& seen,
                const tt::SamplingOptions& options, double uniform) {
  const std::vector<double> p = tt::next_token_probabilities(logits, seen, options);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if ((sum += p[i]) > uniform) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace

TEST_CASE("rows with choices of their own get the tokens that the host samples") {
  tt::manual_seed(3);
  tt::Generator g(5);
  const int64_t rows = 40, V = 61;
  const tt::Tensor logits = tt::randn({rows, V}) * 2;
  tt::TokenChoices how;
  std::vector<int64_t> wanted;
  for (int64_t r = 0; r < rows; ++r) {
    const tt::SamplingOptions options{.temperature = r % 4 == 0 ? 0 : g.uniform(0.3, 2),
                                      .top_k = static_cast<int64_t>(g.below(20)),
                                      .top_p = g.uniform(0.5, 1),
                                      .min_p = r % 3 == 0 ? 0.1 : 0};
    how.rows.push_back({options, g.uniform()});
    wanted.push_back(sampled(logits.select(0, r).to(tt::cpu), {}, options, how.rows.back().uniform));
  }
  const tt::ChosenTokens chosen = tt::choose_tokens(tt::decode_step(logits), how);
  CHECK(chosen.tokens.to_vector<int64_t>() == wanted);
  CHECK(chosen.largest.to_vector<float>() == tt::topk(logits, 1).values.to_vector<float>());
}

TEST_CASE("edits are the bias and the penalty of the host") {
  tt::manual_seed(4);
  tt::Generator g(6);
  const int64_t rows = 12, V = 30;
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f64}) {
    const tt::Tensor logits = (tt::randn({rows, V}) * 2).to(dtype);
    tt::TokenChoices how;
    std::vector<int64_t> wanted;
    for (int64_t r = 0; r < rows; ++r) {
      const std::vector<int32_t> seen = {static_cast<int32_t>(g.below(30)),
                                         static_cast<int32_t>(g.below(30))};
      const double penalty = r % 2 == 0 ? 1.7 : 1, bias = r % 3 == 0 ? 4 : 0;
      const auto biased = static_cast<int64_t>(g.below(30));
      std::vector<double> row = logits.select(0, r).to_vector<double>();
      row[static_cast<size_t>(biased)] += bias;
      const tt::SamplingOptions options{.temperature = r % 4 == 0 ? 0.0 : 1.0, .repetition_penalty = penalty};
      how.rows.push_back({options, g.uniform()});
      wanted.push_back(sampled(tt::from_data(row, {V}, tt::cpu), seen, options, how.rows.back().uniform));
      std::set<int64_t> tokens(seen.begin(), seen.end());
      if (penalty == 1) tokens.clear();
      tokens.insert(biased);
      for (const int64_t token : tokens) {
        const bool was_seen = penalty != 1 && (token == seen[0] || token == seen[1]);
        how.edits.push_back({r, token, token == biased ? bias : 0, was_seen ? penalty : 1});
      }
    }
    CHECK(tt::choose_tokens(tt::decode_step(logits), how).tokens.to_vector<int64_t>() == wanted);
  }
  const double none = -std::numeric_limits<double>::infinity();
  const tt::Tensor logits = tt::from_data(std::vector<double>{none, 1, 2}, {1, 3});
  tt::TokenChoices how{{{}}, {{0, 0, 100}, {0, 2, -5}}};
  CHECK(tt::choose_tokens(tt::decode_step(logits), how).tokens.item() == 1);  // -infinity has no bias
}

TEST_CASE("the best tokens need no table; bad choices are refused") {
  const tt::Tensor logits = tt::from_data(std::vector<float>{1, 3, 2, 5, 4, 0}, {2, 3});
  const tt::DecodeStep step = tt::decode_step(logits);
  const tt::ChosenTokens best = tt::choose_tokens(step, {{{}, {}}});
  CHECK(best.tokens.to_vector<int64_t>() == std::vector<int64_t>{1, 0});
  CHECK(best.tokens.storage() == step.best.storage());
  CHECK(errors::thrown_by([&] { tt::choose_tokens(step, {{{}}}); }).code == "TT-SHAPE-02");
  CHECK(errors::thrown_by([&] { tt::choose_tokens(step, {{{}, {{.top_p = 2}}}}); }).code == "TT-NN-25");
}
