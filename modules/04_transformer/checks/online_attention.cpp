#include <fstream>
#include <tinytorch/backend/cpu/attention.hpp>

#include "reference.hpp"

using namespace course;
using backend::AttentionParameters;

namespace {

constexpr DType kDTypes[] = {f32, f64, bf16, f16};

void check(DType dtype, const AttentionSizes& s, AttentionParameters p = {},
           Layout layout = Layout::contiguous, double size = 1) {
  p.scale = 1 / std::sqrt(static_cast<double>(s.D));
  Values q = Values::random(dtype, s.q(), layout, -size, size),
         k = Values::random(dtype, s.k(), layout, -size, size);
  Values v = Values::random(dtype, s.k(), layout), out(dtype, s.q(), layout);
  Values lse(dtype == f64 ? f64 : f32, {s.B, s.H, s.T});
  AttentionReference want{.s = s, .p = p, .q = q.numbers(), .k = k.numbers(), .v = v.numbers()};
  want.forward();
  backend::cpu::attention(out.view(), lse.view(), q.view(), k.view(), v.view(), p);
  const std::string what = "attention, " + s.str() + course::name_of(p) + ", " + tinytorch::name_of(dtype) +
                           ", " + name_of_layout(layout);
  const double scale = 1 + size * size * std::sqrt(static_cast<double>(s.D));  // magnitude of a score
  expect_close(what + ": out", out, want.out, {.roundings = roundings_of(s.S + s.D) * scale});
  expect_close(what + ": lse", lse, want.lse, {.roundings = roundings_of(s.S + s.D) * scale});
}

}  // namespace

TEST_CASE("4.6 with one key the result is its value") {
  check(f32, {1, 1, 1, 1, 1, 4});
  check(f32, {1, 1, 1, 3, 1, 4});
}

TEST_CASE("4.6 values are averaged, weighted by the softmax of the scores") {
  Values q = Values::of(f64, {1, 1, 1, 1}, {1}),
         k = Values::of(f64, {1, 1, 3, 1}, {0, std::log(2.0), std::log(5.0)});
  Values v = Values::of(f64, {1, 1, 3, 1}, {8, 16, 24}), out(f64, {1, 1, 1, 1}), lse(f64, {1, 1, 1});
  backend::cpu::attention(out.view(), lse.view(), q.view(), k.view(), v.view(), {});
  expect_close("scores log 1, log 2, log 5, values 8, 16, 24: (8 + 2 * 16 + 5 * 24) / 8", out, {20});
  expect_close("the lse of this query: log(1 + 2 + 5)", lse, {std::log(8.0)});
  check(f32, {1, 1, 1, 2, 3, 5});
  check(f64, {1, 1, 1, 7, 17, 3});
}

TEST_CASE("4.6 samples, heads, dtypes and layouts") {
  for (const DType dtype : kDTypes) {
    for (const Layout layout : kLayouts) check(dtype, {2, 3, 3, 5, 7, 4}, {}, layout);
  }
}

TEST_CASE("4.6 heads of a group share keys and values") {
  check(f32, {2, 4, 2, 3, 5, 4});
  check(f32, {1, 6, 1, 2, 5, 3});
}

TEST_CASE("4.6 a causal query sees no later key") {
  for (const AttentionSizes& s : {AttentionSizes{1, 1, 1, 4, 4, 2}, {2, 2, 1, 9, 9, 3}, {1, 2, 2, 3, 8, 4}}) {
    check(f32, s, {.causal = true});
    check(f64, s, {.causal = true, .window = 3});
  }
  const int64_t lengths[] = {5, 2};
  check(f32, {2, 2, 1, 3, 6, 4}, {.lengths = lengths});
}

TEST_CASE("4.6 the future does not leak: not a bit changes when a later key does") {
  const AttentionSizes s{1, 1, 1, 9, 9, 4};
  const int64_t changed = static_cast<int64_t>(uniform(1, 9));
  Numbers first;
  Values q = Values::random(f32, s.q()), k = Values::random(f32, s.k()), v = Values::random(f32, s.k());
  for (int pass = 0; pass < 2; ++pass) {
    Values out(f32, s.q()), lse(f32, {1, 1, 9});
    Numbers keys = k.numbers(), values = v.numbers();
    for (int64_t i = changed * s.D; pass == 1 && i < (changed + 1) * s.D; ++i) {
      keys[static_cast<size_t>(i)] = 1e30, values[static_cast<size_t>(i)] = -1e30;
    }
    Values k2 = Values::of(f32, s.k(), keys), v2 = Values::of(f32, s.k(), values);
    backend::cpu::attention(out.view(), lse.view(), q.view(), k2.view(), v2.view(), {.causal = true});
    Numbers before = out.numbers();
    before.resize(static_cast<size_t>(changed * s.D));
    if (pass == 0) first = before;
    expect("out before position " + std::to_string(changed) + " when key and value " +
               std::to_string(changed) + " change, T 9, causal: the same bits",
           before == first);
  }
}

TEST_CASE("4.6 a query that sees no key gives zeros") {
  check(f32, {1, 2, 1, 6, 3, 4}, {.causal = true});  // the first three queries are before all keys
  const int64_t lengths[] = {3, 0};
  check(f64, {2, 1, 1, 2, 4, 3}, {.lengths = lengths});
  check(f32, {1, 1, 1, 2, 0, 3});
}

TEST_CASE("4.6 large scores do not overflow") {
  check(f32, {1, 1, 1, 3, 9, 4}, {}, Layout::contiguous, 30);
  check(f16, {1, 2, 2, 3, 9, 4}, {.causal = true}, Layout::contiguous, 20);
}

TEST_CASE("4.6 dropout changes the probabilities, not their sum in the denominator") {
  check(f32, {2, 2, 1, 5, 9, 3}, {.p = 0.5, .seed = 7, .first_block = 11});
  check(f64, {1, 2, 2, 5, 6, 3}, {.causal = true, .p = 0.25, .seed = 3});
}

TEST_CASE("4.6 no matrix of scores is stored") {
  const int64_t T = 1300;  // T x T floats: 6.8 MB
  Values q = Values::random(f32, {1, 1, T, 1}), k = Values::random(f32, {1, 1, T, 1}),
         v = Values::random(f32, {1, 1, T, 1});
  Values out(f32, {1, 1, T, 1}), lse(f32, {1, 1, T});
  const auto most = [] {  // peak memory so far in MB
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      double kilobytes = 0;
      if (word == "VmHWM:" && status >> kilobytes) return kilobytes / 1024;
    }
    return 0.0;
  };
  const double before = most();
  backend::cpu::attention(out.view(), lse.view(), q.view(), k.view(), v.view(), {.causal = true});
  const double grown = most() - before;
  expect(
      "memory for 1300 queries and keys of one head, D 1: it must be less than 2.5 MB; all scores have 6.8 "
      "MB",
      grown < 2.5, "it grew by " + shown(grown) + " MB");
}
