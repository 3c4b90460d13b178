// The choice of the next tokens on the device of their logits. The host, which would need about a millisecond
// for each row of 50,000 logits, reads only the tokens.
//
//   TokenChoices how;
//   how.rows = {{.sampling = {.top_p = 0.9}, .uniform = generator.uniform()}, {}};   // {}: the best token
//   ChosenTokens chosen = choose_tokens(decode(counts, tokens), how);                 // a step of two rows
//   step = decode(counts, chosen.tokens);                   // the host need not have read them
//
// A row gets the token that sample_token() (sampling.hpp) gets with the same random number, but for the
// rounding of probabilities (backend/sample_weights.hpp).
#pragma once

#include <tinytorch/tensor/ops.hpp>
#include <tinytorch/transformer/graph_decode.hpp>
#include <tinytorch/transformer/sampling.hpp>

namespace tinytorch::inline TT_BUILD {

// repetition_penalty is not looked at: tokens that were seen have edits.
struct TokenChoice {
  SamplingOptions sampling{.temperature = 0};
  double uniform = 0;  // in [0, 1)
};
// Row `row`, token `token`: the logit becomes x = logit + bias, and then x / penalty if it is above 0, else
// x * penalty. A row has at most one edit of a token.
struct LogitEdit {
  int64_t row, token;
  double bias = 0, penalty = 1;
};
struct TokenChoices {
  std::vector<TokenChoice> rows{};
  std::vector<LogitEdit> edits{};
  bool all_take_best() const {
    return edits.empty() &&
           std::ranges::all_of(rows, [](const TokenChoice& c) { return c.sampling.temperature == 0; });
  }
};

struct ChosenTokens {
  Tensor tokens;   // i64 [rows]
  Tensor largest;  // [rows]: the largest logit of each row. If it is not finite, the token means nothing.
};

namespace generation {

inline Tensor table_of_choices(std::span<const TokenChoice> rows, Device device, Loc loc) {
  std::vector<double> table;
  for (const TokenChoice& row : rows) {
    sampling::require_options(row.sampling, loc);
    const SamplingOptions& s = row.sampling;
    const double columns[backend::kSampleColumns] = {s.temperature, static_cast<double>(s.top_k), s.top_p,
                                                     s.min_p, row.uniform};
    table.insert(table.end(), std::begin(columns), std::end(columns));
  }
  return from_data(table, {std::ssize(rows), backend::kSampleColumns}, device, loc);
}

// A copy of the logits with the edits, of f32 at least. Logits that are not finite stay.
inline Tensor edited_logits(const Tensor& logits, std::span<const LogitEdit> edits, Loc loc) {
  std::vector<int64_t> places;
  std::vector<double> biases, penalties;
  for (const LogitEdit& e : edits) {
    places.push_back(e.row * logits.size(1) + e.token);
    biases.push_back(e.bias), penalties.push_back(e.penalty);
  }
  const Shape shape{std::ssize(edits)};
  const Tensor all = logits.to(logits.dtype() == DType::f64 ? DType::f64 : DType::f32).reshape({-1});
  const auto on_device = [&](const auto& values) {
    return from_data(values, shape, logits.device(), loc).to(all.dtype());
  };
  const Tensor at = from_data(places, shape, logits.device(), loc), old = index_select(all, 0, at),
               biased = old + on_device(biases), penalty = on_device(penalties),
               edited = where(biased > 0, biased / penalty, biased * penalty),
               change = where(isfinite(old), edited - old, zeros_like(old));
  return scatter_add(all, 0, at, change).reshape(logits.shape());
}

}  // namespace generation

// The next token of each row of a step. Nothing is computed if all take the best one. Throws TT-NN-25 if an
// option is out of range, and TT-SHAPE-02 if the choices are not as many as the rows.
inline ChosenTokens choose_tokens(const DecodeStep& step, const TokenChoices& how, TT_LOC) {
  if (std::ssize(how.rows) != step.logits.size(0)) {
    fail("TT-SHAPE-02",
         "choose_tokens: a step of " + std::to_string(step.logits.size(0)) +
             " rows needs as many choices, got " + std::to_string(how.rows.size()),
         loc);
  }
  if (how.all_take_best()) return {step.best, step.largest};
  const NoGrad no_grad;
  const DecodeStep rows =
      how.edits.empty() ? step : decode_step(generation::edited_logits(step.logits, how.edits, loc));
  const Tensor table = generation::table_of_choices(how.rows, rows.logits.device(), loc);
  return {sample_rows(rows.logits, {rows.largest, rows.best}, table, loc), rows.largest};
}

}  // namespace tinytorch::inline TT_BUILD
