#include <tinytorch/transformer/composed_attention.hpp>

#include "reference.hpp"

using namespace course;

namespace {

Tensor tensor_of(const Shape& shape, const Numbers& numbers, DType dtype) {
  return from_data(numbers, shape).to(dtype);
}
Numbers numbers_of(const Tensor& x) { return x.to(f64).to_vector<double>(); }
Tensor random(const Shape& shape, DType dtype) {
  return tensor_of(shape, Values::random(f64, shape).numbers(), dtype);
}

void check(DType dtype, const AttentionSizes& s, const AttentionOptions& options = {}) {
  Tensor q = random(s.q(), dtype), k = random(s.k(), dtype), v = random(s.k(), dtype),
         dout = random(s.q(), dtype);
  q.requires_grad_(), k.requires_grad_(), v.requires_grad_();
  AttentionReference want{.s = s, .p = {.causal = options.causal, .window = options.window}};
  want.p.scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(s.D));
  want.q = numbers_of(q), want.k = numbers_of(k), want.v = numbers_of(v);
  want.forward();
  want.backward(numbers_of(dout));
  const Tensor out = composed_attention(q, k, v, options);
  const std::string what = "composed_attention, " + s.str() + course::name_of(want.p) +
                           (options.scale != 0 ? ", scale " + shown(options.scale) : "") + ", " +
                           tinytorch::name_of(dtype);
  expect_equal(what + ": shape", out.shape(), s.q());
  // For a 16-bit dtype, every op rounds its result.
  const Tolerance tolerance{.dtype = dtype == f64 ? f64 : f32,
                            .roundings = roundings_of(s.S + s.D) * (dtype == f16 ? 8192 : 1)};
  expect_close(what + ": out", numbers_of(out), want.out, s.q(), tolerance);
  if (dtype == f16) return;
  (out * dout).sum().backward();
  Tolerance summed = tolerance;
  summed.roundings *= static_cast<double>(s.T * s.H);
  expect_close(what + ": gradient of q", numbers_of(q.grad()), want.dq, s.q(), tolerance);
  expect_close(what + ": gradient of k", numbers_of(k.grad()), want.dk, s.k(), summed);
  expect_close(what + ": gradient of v", numbers_of(v.grad()), want.dv, s.k(), summed);
}

}  // namespace

TEST_CASE("4.5 each query averages the values, weighted by the softmax of its scores") {
  const Tensor q = tensor_of({1, 1, 1, 1}, {1}, f64), k = tensor_of({1, 1, 2, 1}, {0, std::log(3.0)}, f64);
  const Tensor out = composed_attention(q, k, tensor_of({1, 1, 2, 1}, {8, 16}, f64));
  expect_close("scores log 1 and log 3, values 8 and 16: (8 + 3 * 16) / 4", numbers_of(out), {14},
               {1, 1, 1, 1}, {.dtype = f64});
  check(f64, {1, 1, 1, 2, 3, 4});
  check(f32, {2, 3, 3, 5, 7, 4});
  check(f32, {1, 1, 1, 2, 3, 4}, {.scale = 2});
}

TEST_CASE("4.5 keys of a group are repeated for each of its heads") {
  const Tensor x = tensor_of({1, 2, 1, 1}, {10, 20}, f32);
  expect_close("repeat_groups of groups {10, 20} for 6 heads: neighbouring heads share a group",
               numbers_of(repeat_groups(x, 6)), {10, 10, 10, 20, 20, 20}, {1, 6, 1, 1});
  const Shape shape{2, 3, 2, 5};
  const Tensor y = random(shape, f32);
  expect_close("repeat_groups of 3 groups for 3 heads", numbers_of(repeat_groups(y, 3)), numbers_of(y),
               shape);
}

TEST_CASE("4.5 hidden keys are later keys and keys outside the window") {
  const auto hidden = [](int64_t T, int64_t S, const AttentionOptions& options) {
    std::string text;
    for (const double x : numbers_of(hidden_keys(T, S, options, cpu))) {
      text +=
          std::string(x != 0 ? "o" : ".") + (static_cast<int64_t>(text.size() + 1) % (S + 1) == S ? "|" : "");
    }
    return text;
  };
  expect_equal("hidden_keys, T 3, S 3, causal (o: hidden; row by row)", hidden(3, 3, {.causal = true}),
               std::string(".oo|..o|...|"));
  expect_equal("hidden_keys, T 2, S 4, causal: the queries are the last two of four",
               hidden(2, 4, {.causal = true}), std::string("...o|....|"));
  expect_equal("hidden_keys, T 4, S 4, causal, window 2", hidden(4, 4, {.causal = true, .window = 2}),
               std::string(".ooo|..oo|o..o|oo..|"));
  expect_equal("hidden_keys, T 4, S 4, window 2, not causal", hidden(4, 4, {.window = 2}),
               std::string("..oo|...o|o...|oo..|"));
  expect_equal("hidden_keys without causal or window: undefined", hidden_keys(3, 3, {}, cpu).defined(),
               false);
}

TEST_CASE("4.5 a causal query sees no later key") {
  for (const DType dtype : {f32, f64, f16}) check(dtype, {2, 2, 2, 5, 5, 3}, {.causal = true});
  check(f64, {1, 4, 2, 3, 7, 5}, {.causal = true});
  check(f32, {1, 2, 1, 6, 6, 4}, {.causal = true, .window = 3});
}

TEST_CASE("4.5 the future does not leak: not a bit changes when a later token does") {
  const int64_t T = 7, changed = static_cast<int64_t>(uniform(1, 7));
  const Shape shape{1, 2, T, 3};
  const Tensor q = random(shape, f32), k = random(shape, f32), v = random(shape, f32);
  Tensor k2 = k.clone(), v2 = v.clone();
  slice(k2, 2, changed).fill_(50), slice(v2, 2, changed).fill_(-1e6);
  const Tensor a = slice(composed_attention(q, k, v, {.causal = true}), 2, 0, changed);
  const Tensor b = slice(composed_attention(q, k2, v2, {.causal = true}), 2, 0, changed);
  expect("out before position " + std::to_string(changed) +
             " if all keys and values from there on change: the same bits",
         numbers_of(a) == numbers_of(b));
}

TEST_CASE("4.5 a query that sees no key gives zeros") {
  check(f32, {1, 1, 1, 4, 2, 3}, {.causal = true});  // the first two queries are before all keys
}

TEST_CASE("4.5 dropout zeroes probabilities and scales the others") {
  Numbers unit;
  for (int i = 0; i < 64; ++i) unit.push_back(i % 9 == 0 ? 1 : 0);
  const Tensor q = random({1, 1, 8, 8}, f32), k = random({1, 1, 8, 8}, f32),
               v = tensor_of({1, 1, 8, 8}, unit, f32);
  const Numbers whole = numbers_of(composed_attention(q, k, v));
  const Numbers thin = numbers_of(composed_attention(q, k, v, {.dropout = 0.5}));
  int erased = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    erased += thin[i] == 0 ? 1 : 0;
    expect(
        "the values are unit vectors, so each element of out is a probability; after dropout 0.5 it is 0 or "
        "twice as large",
        thin[i] == 0 || std::abs(thin[i] - 2 * whole[i]) < 1e-5,
        "it was " + shown(whole[i]) + " and is " + shown(thin[i]));
  }
  expect("of 64 probabilities, dropout 0.5 erases some", erased > 5 && erased < 59,
         "it erased " + std::to_string(erased));
}
