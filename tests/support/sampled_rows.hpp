// SampledRows: checks of a backend's kernel sample_rows against the probabilities of
// transformer/sampling.hpp, which sorts in double precision.
#pragma once

#include <support/few.hpp>
#include <support/fresh.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/sampling.hpp>

namespace test {

using tinytorch::SamplingOptions;

// Memory: an array on the backend's device.
template <class Memory, auto kSample>
struct SampledRows {
  using Doubles = std::vector<double>;
  // Tokens of rows of logits [rows, V]; a row of the memory has `gap` further numbers.
  static Doubles tokens(DType dtype, int64_t V, const Doubles& logits,
                        const std::vector<SamplingOptions>& how, const Doubles& uniform, int64_t gap = 0) {
    const auto rows = std::ssize(how);
    Doubles wide, best, largest, choices;
    for (int64_t r = 0; r < rows; ++r) {
      const auto begin = logits.begin() + r * V, end = begin + V;
      wide.insert(wide.end(), begin, end), wide.insert(wide.end(), static_cast<size_t>(gap), 1e4);
      const auto top = std::max_element(begin, end);
      best.push_back(static_cast<double>(top - begin)), largest.push_back(*top);
      const SamplingOptions& o = how[static_cast<size_t>(r)];
      for (const double x :
           {o.temperature, static_cast<double>(o.top_k), o.top_p, o.min_p, uniform[static_cast<size_t>(r)]})
        choices.push_back(x);
    }
    Memory x = Memory::from(dtype, {rows, V + gap}, wide), first = Memory::from(i64, {rows}, best),
           tops = Memory::from(dtype, {rows}, largest), table = Memory::from(f64, {rows, 5}, choices),
           out(i64, {rows});
    backend::View view = x.view();
    view.shape[1] = V;
    kSample(out.view(), view, first.view(), tops.view(), table.view());
    return out.values();
  }

  // The drawn number lies within the part of [0, 1) that belongs to the token, up to rounding.
  static void check(DType dtype, int64_t V, const Doubles& logits, const std::vector<SamplingOptions>& how,
                    const Doubles& uniform, int64_t gap = 0) {
    const Doubles got = tokens(dtype, V, logits, how, uniform, gap);
    for (size_t r = 0; r < how.size(); ++r) {
      const SamplingOptions& o = how[r];
      INFO("dtype ", static_cast<int>(dtype), ", V ", V, ", temperature ", o.temperature, ", top-k ", o.top_k,
           ", top-p ", o.top_p, ", min-p ", o.min_p, ", drawn ", uniform[r], ", token ", got[r]);
      const auto begin = logits.begin() + static_cast<int64_t>(r) * V;
      REQUIRE(got[r] >= 0);
      REQUIRE(got[r] < static_cast<double>(V));
      // Two equal tokens reach a share of 0.5 exactly: rounding decides if the second one belongs to it.
      bool fits = false;
      for (const double share : {1.0, 1 - 1e-7, 1 + 1e-7}) {
        SamplingOptions near = o;
        near.top_p = std::min(1.0, o.top_p * share);
        const Doubles p = tinytorch::next_token_probabilities(
            tinytorch::from_data(Doubles(begin, begin + V), {V}, tinytorch::cpu), {}, near);
        fits = fits || belongs(static_cast<size_t>(got[r]), p, uniform[r], o.temperature == 0);
      }
      CHECK(fits);
    }
  }
  // True if the drawn number lies in the token's part of [0, 1), up to rounding.
  static bool belongs(size_t token, const Doubles& p, double drawn, bool greedy) {
    double below = 0;
    for (size_t i = 0; i < token; ++i) below += p[i];
    return p[token] > 0 && (greedy || (drawn >= below - 1e-6 && drawn < below + p[token] + 1e-6));
  }

  // Logits as a model gives them (normal), of few values (many ties), all equal, or mostly -infinity, rounded
  // to the dtype.
  static Doubles logits_of(Fresh& fresh, DType dtype, int64_t V, int64_t rows) {
    Generator g(fresh.next());
    Doubles all;
    for (int64_t r = 0; r < rows; ++r) {
      const auto kind = g.below(5);
      const double scale = g.uniform(0.1, 6);
      for (int64_t i = 0; i < V; ++i) {
        double x =
            scale * std::sqrt(-2 * std::log(1 - g.uniform())) * std::cos(6.283185307179586 * g.uniform());
        if (kind == 1) x = std::floor(x);
        if (kind == 2) x = -3;
        if (kind == 3 && i != V / 2 && g.uniform() < 0.9) x = -kInfinity;
        all.push_back(x);
      }
    }
    return Memory::from(dtype, {rows, V}, all).values();
  }
  static SamplingOptions options_of(Generator& g, int64_t V) {
    SamplingOptions o;
    const double temperatures[] = {1, 0, 0.7, 1.9, 1e-3, 50, 1e-300}, shares[] = {1, 0.95, 0.5, 1e-9, 0.9999},
                 least[] = {0, 0, 0.05, 0.9, 1};
    o.temperature = temperatures[g.below(7)], o.top_p = shares[g.below(5)], o.min_p = least[g.below(5)];
    const int64_t counts[] = {0, 0, 1, 2, 40, V - 1, V, V + 7};
    o.top_k = counts[g.below(8)];
    return o;
  }

  static void check_random(int64_t rows) {
    Fresh fresh;
    INFO(fresh.text());
    Generator g(fresh.next());
    for (const DType dtype : {f32, bf16, f16, f64}) {
      for (const int64_t V : {1, 2, 31, 33, 97, 1000, 1024, 4099, 50257}) {
        if (V > 5000 && test::left_out(4)) continue;
        const int64_t n = V > 5000 ? std::min<int64_t>(rows, 3) : rows;
        std::vector<SamplingOptions> how;
        Doubles uniform;
        for (int64_t r = 0; r < n; ++r) {
          how.push_back(options_of(g, V));
          uniform.push_back(r == 0 ? 0 : (r == 1 ? 1 - 0x1p-53 : g.uniform()));
        }
        check(dtype, V, logits_of(fresh, dtype, V, n), how, uniform, g.below(2) ? 3 : 0);
      }
    }
  }
  // Evenly spaced numbers draw each token as often as its probability says, to one draw.
  static void check_frequencies() {
    const int64_t V = 50, rows = 2000;
    Fresh fresh;
    INFO(fresh.text());
    const Doubles one = logits_of(fresh, f32, V, 1);
    for (const SamplingOptions& o : {SamplingOptions{}, {.temperature = 1.7}, {.top_k = 7}, {.top_p = 0.6}}) {
      Doubles logits, uniform, counts(static_cast<size_t>(V));
      for (int64_t r = 0; r < rows; ++r) {
        logits.insert(logits.end(), one.begin(), one.end());
        uniform.push_back((static_cast<double>(r) + 0.5) / static_cast<double>(rows));
      }
      const std::vector<SamplingOptions> how(static_cast<size_t>(rows), o);
      for (const double token : tokens(f32, V, logits, how, uniform)) ++counts[static_cast<size_t>(token)];
      const Doubles p =
          tinytorch::next_token_probabilities(tinytorch::from_data(one, {V}, tinytorch::cpu), {}, o);
      for (size_t i = 0; i < p.size(); ++i)
        CHECK(std::abs(counts[i] - p[i] * static_cast<double>(rows)) <= 1.01);
    }
  }
  // A row without a finite largest logit gets the token that the caller names, and no row gets none.
  static void check_rows_without_choice() {
    Memory x = Memory::from(f32, {3, 2}, {kNan, 1, kInfinity, 1, -kInfinity, -kInfinity}),
           first = Memory::from(i64, {3}, {1, 0, 1}),
           tops = Memory::from(f32, {3}, {kNan, kInfinity, -kInfinity}),
           table = Memory::from(f64, {3, 5}, {1, 0, 1, 0, .5, 1, 1, .5, 0, .5, 1, 0, 1, .1, .5}),
           out(i64, {3});
    kSample(out.view(), x.view(), first.view(), tops.view(), table.view());
    CHECK(out.values() == Doubles{1, 0, 1});
    const Shape no_rows{0}, no_logits{0, 5};
    Memory none(f32, no_logits), no_best(i64, no_rows), no_top(f32, no_rows), no_table(f64, no_logits),
        nothing(i64, no_rows);
    kSample(nothing.view(), none.view(), no_best.view(), no_top.view(), no_table.view());
  }
};

}  // namespace test
