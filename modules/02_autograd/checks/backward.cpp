#include "reference.hpp"
#include "small_stack.hpp"

#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/tensor/apply.hpp>

using namespace course;

namespace {

using List = std::initializer_list<double>;  // compiles faster than a vector at the many calls

Tensor constant(List numbers) { return tensor_of({static_cast<int64_t>(numbers.size())}, numbers); }
Tensor leaf(List numbers) { return constant(numbers).requires_grad_(); }
void expect_grad(const char* what, const Tensor& t, List want) {
  expect(std::string(what) + " is defined", t.grad().defined(), "no gradient arrived");
  expect_close(what, t.grad(), t.shape(), want, {.roundings = 16, .scale = 8});
}

// An op with two results: x + 1 and 10 x.
struct TwoResults final : Primitive<TwoResults> {
  static constexpr const char* kName = "two_results";
  Specs infer(const Tensors& in, Loc) const override { return Specs(2, {in[0].shape(), in[0].dtype()}); }
  void run(const Tensors& in, Tensors& out) const override {
    out[0].copy_(in[0].detach() + 1);
    out[1].copy_(in[0].detach() * 10);
  }
  Tensors vjp(const Saved&, const Tensors& g) const override {
    return {g[1].defined() ? g[0] + g[1] * 10 : g[0]};
  }
};

// An op that returns x, and whose gradient is undefined.
struct WithoutSlope final : Primitive<WithoutSlope> {
  static constexpr const char* kName = "without_slope";
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override { out[0].copy_(in[0].detach()); }
  Tensors vjp(const Saved&, const Tensors&) const override { return {Tensor()}; }
};

// An op that returns x, and notes whether recording is on while its gradient is computed.
struct NotesRecording final : Primitive<NotesRecording> {
  static constexpr const char* kName = "notes_recording";
  explicit NotesRecording(bool* on) : recording(on) {}
  bool* recording;
  Specs infer(const Tensors& in, Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const Tensors& in, Tensors& out) const override { out[0].copy_(in[0].detach()); }
  Tensors vjp(const Saved&, const Tensors& g) const override {
    *recording = grad_enabled();
    return {g[0]};
  }
};

// A number with its derivative by one chosen leaf. Forward-mode differentiation needs no graph, so it is the
// reference here.
struct Dual {
  double value, slope;
};
struct Step {
  int op;  // 0 add, 1 mul, 2 tanh, 3 sub
  size_t a, b;
};
Dual value_of(const Step& s, const std::vector<Dual>& v) {
  const Dual a = v[s.a], b = v[s.b];
  const double t = std::tanh(a.value);
  if (s.op == 0) return {a.value + b.value, a.slope + b.slope};
  if (s.op == 1) return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  if (s.op == 2) return {t, a.slope * (1 - t * t)};
  return {a.value - b.value, a.slope - b.slope};
}
Tensor value_of(const Step& s, const Tensors& v) {
  if (s.op == 0) return v[s.a] + v[s.b];
  if (s.op == 1) return v[s.a] * v[s.b];
  if (s.op == 2) return tanh(v[s.a]);
  return v[s.a] - v[s.b];
}

void check_random_graph() {
  const size_t leaves = 3;
  std::vector<Step> steps;
  std::vector<Dual> values;
  Numbers start;
  for (size_t i = 0; i < leaves; ++i) {
    start.push_back(uniform(-0.9, 0.9));
    values.push_back({start[i], 0});
  }
  for (size_t i = 0; i < 12; ++i) {
    const double all = static_cast<double>(leaves + i);
    Step s{static_cast<int>(uniform(0, 4)), static_cast<size_t>(uniform(0, all)),
           static_cast<size_t>(uniform(0, all))};
    if (std::abs(value_of(s, values).value) > 2) s.op = 2;  // keeps the numbers small
    steps.push_back(s);
    values.push_back(value_of(s, values));
  }
  steps.push_back({0, leaves + 11, leaves + 10});
  Tensors tensors;
  std::string text;
  for (const double x : start) tensors.push_back(leaf({x}));
  for (const Step& s : steps) {
    constexpr const char* kNames[] = {"add", "mul", "tanh", "sub"};
    text += "\n    t" + std::to_string(tensors.size()) + " = " + kNames[s.op] + "(t" + std::to_string(s.a) +
            (s.op == 2 ? "" : ", t" + std::to_string(s.b)) + ")";
    tensors.push_back(value_of(s, tensors));
  }
  if (!tensors.back().requires_grad()) return;
  tensors.back().backward();
  for (size_t l = 0; l < leaves; ++l) {
    values.clear();
    for (size_t i = 0; i < leaves; ++i) values.push_back({start[i], i == l ? 1.0 : 0.0});
    for (const Step& s : steps) values.push_back(value_of(s, values));
    const Tensor grad = tensors[l].grad();
    const double got = grad.defined() ? grad.item<double>() : 0.0, want = values.back().slope;
    expect("the gradient of t" + std::to_string(l) + " in" + text + "\n  expected  " + shown(want) +
               "\n  got       " + shown(got),
           std::abs(got - want) <= 1e-10 * (1 + std::abs(want)));
  }
}

}  // namespace

TEST_CASE("2.6 a formula") {
  const Tensor x = leaf({1, 2, 3}), w = leaf({4, 5, 6});
  sum(x * w).backward();
  expect_grad("sum(x w): the gradient of x", x, {4, 5, 6});
  expect_grad("sum(x w): the gradient of w", w, {1, 2, 3});
}

TEST_CASE("2.6 a chain multiplies its derivatives") {
  const Tensor x = leaf({0.5, -1});
  sum(tanh(x * 3) * 2).backward();
  const double left = std::tanh(1.5), right = std::tanh(-3.0);
  expect_grad("sum(2 tanh(3 x)) at {0.5, -1}: the gradient of x", x,
              {6 * (1 - left * left), 6 * (1 - right * right)});
}

TEST_CASE("2.6 a diamond adds the gradients of its paths") {
  const Tensor x = leaf({2});
  const Tensor shared = x * 3;
  (shared * shared + shared * 5).backward();
  expect_grad("s = 3 x, y = s s + 5 s at x = 2: the gradient of x", x, {3 * (2 * 6 + 5)});
  // A short path and a long path.
  const Tensor z = leaf({2});
  const Tensor s = z * 3;
  (((s * 2) * 2) * s + s).backward();
  expect_grad("s = 3 z, y = 4 s s + s at z = 2: the gradient of z", z, {3 * (8 * 6 + 1)});
}

TEST_CASE("2.6 a leaf that is used twice") {
  const Tensor x = leaf({3, -1});
  sum(x + x).backward();
  expect_grad("sum(x + x): the gradient of x", x, {2, 2});
  const Tensor z = leaf({3, -1});
  sum(z * z - z).backward();
  expect_grad("sum(z z - z): the gradient of z", z, {5, -3});
}

TEST_CASE("2.6 a second pass adds to the gradient of the first") {
  const Tensor x = leaf({1, 2});
  sum(x * x).backward();
  sum(x * 10).backward();
  expect_grad("after backward of sum(x x) and of sum(10 x): the gradient of x", x, {12, 14});
}

TEST_CASE("2.6 a gradient that two nodes share is not changed in place") {
  // The derivative of add passes the same tensor to u and to v; then another gradient arrives at u alone.
  const Tensor x = leaf({1}), z = leaf({1});
  const Tensor u = x * 1, v = z * 1;
  ((u + v) + u * 5).backward();
  expect_grad("y = (u + v) + 5 u: the gradient that reaches u", x, {6});
  expect_grad("y = (u + v) + 5 u: the gradient that reaches v", z, {1});
  const Tensor p = leaf({1}), q = leaf({1});
  const Tensor r = p * 1, s = q * 1;
  (r * 5 + (r + s)).backward();
  expect_grad("y = 5 r + (r + s): the gradient that reaches r", p, {6});
  expect_grad("y = 5 r + (r + s): the gradient that reaches s", q, {1});
}

TEST_CASE("2.6 the gradient given to backward weights the elements, and is not changed") {
  const Tensor x = leaf({1, 2, 3});
  Tensor g = constant({1, 10, 100});
  (x * x).backward(g);
  expect_grad("(x x).backward({1, 10, 100}): the gradient of x", x, {2, 40, 600});
  const Tensor a = leaf({1, 2, 3}), b = leaf({1, 2, 3}), c = leaf({1, 2, 3});
  (a + b).backward(g);
  c.backward(g);
  a.grad().mul_(1000);  // as gradient clipping does
  expect_close("after (a + b).backward(g) and a.grad().mul_(1000): g", g, {3}, {1, 10, 100});
  expect_grad("after (a + b).backward(g) and a.grad().mul_(1000): the gradient of b", b, {1, 10, 100});
  g.fill_(7);
  expect_grad("after c.backward(g) of a leaf c and g.fill_(7): the gradient of c", c, {1, 10, 100});
  c.grad().fill_(5);
  expect_close("after c.backward(g) of a leaf c and c.grad().fill_(5): g", g, {3}, {7, 7, 7});
  const Tensor d = leaf({1, 2, 3});
  reshape(d, {3, 1}).backward(reshape(g, {3, 1}));
  d.grad().fill_(5);
  expect_close("after reshape(d, [3, 1]).backward(a view of g) and d.grad().fill_(5): g", g, {3}, {7, 7, 7});
  expect_throws("TT-TENSOR-01", "backward of an undefined tensor", [] { backward(Tensor()); });
}

TEST_CASE("2.6 a gradient of images that was broadcast has memory for each element") {
  const Tensor x = tensor_of({1, 2, 1, 2}, {1, 2, 3, 4}).requires_grad_();
  sum(x).backward();  // the gradient of the sum is one number for all elements
  x.grad().slice(3, 0, 1).fill_(5);
  expect_grad("the gradient of x [1, 2, 1, 2] after sum(x).backward() and writing its first column", x,
              {5, 1, 5, 1});
}

TEST_CASE("2.6 only leaves that require a gradient get one") {
  const Tensor x = leaf({1, 2}), fixed = constant({5, 6});
  const Tensor y = x * fixed;
  sum(y).backward();
  expect_grad("sum(x fixed): the gradient of x", x, {5, 6});
  expect("sum(x fixed): fixed requires no grad and gets none", !fixed.grad().defined());
  expect("sum(x fixed): the product, which is no leaf, keeps no gradient", !y.grad().defined());
}

TEST_CASE("2.6 an undefined gradient counts as zero, and gradients by other paths still arrive") {
  const Tensor x = leaf({1, 2});
  sum(x * 3 + apply(WithoutSlope(), {x})).backward();
  expect_grad("3 x + f(x), where f has an undefined gradient: the gradient of x", x, {3, 3});
  const Tensor y = leaf({1, 2});
  sum(apply(WithoutSlope(), {y * y}) + y * 3).backward();
  expect_grad("f(y y) + 3 y: the gradient of y", y, {3, 3});
  const Tensor z = leaf({1, 2});
  sum(z * 3 + apply(WithoutSlope(), {z * z})).backward();
  expect_grad("3 z + f(z z): the gradient of z", z, {3, 3});
  const Tensor w = leaf({1, 2}), h = w * 2, without = apply(WithoutSlope(), {h});
  sum(h * 3 + without).backward();  // the gradient by h * 3 arrives first
  expect_grad("3 h + f(h), where h = 2 w: the gradient of w", w, {6, 6});
}

TEST_CASE("2.6 several outputs: each gets its own gradient, an unused one counts as zero") {
  const Tensor x = leaf({3, 1, 2});
  const ValuesAndIndices sorted = sort(x, 0);
  sum(sorted.values * constant({1, 10, 100})).backward();
  expect_grad("sum(sort(x) {1, 10, 100}) at x = {3, 1, 2}: the gradient of x", x, {100, 1, 10});
  Tensor y = leaf({3, 1});
  const Tensors two = apply_all(TwoResults(), {y * 1});
  sum(two[1] * constant({1, 2})).backward();
  expect_grad("p = y + 1 and q = 10 y in one op, sum(q {1, 2}): the gradient of y", y, {10, 20});
  const Tensors again = apply_all(TwoResults(), {y * 1});
  y.set_grad(Tensor());
  sum(again[0] * 3 + again[1] * 5).backward();
  expect_grad("p = y + 1 and q = 10 y in one op, sum(3 p + 5 q): the gradient of y", y, {53, 53});
  const Tensor z = leaf({1, 2, 3, 4});
  sum(split(z, 2)[1] * 5).backward();
  expect_grad("the second half of z times 5: the gradient of z", z, {0, 0, 5, 5});
}

TEST_CASE("2.6 saved tensors are freed after backward, unless the graph is retained") {
  for (const bool keep : {false, true}) {
    const Tensor x = leaf({1, 2});
    const Tensor y = exp(x);  // saves its result
    const Tensor loss = sum(y);
    const long before = y.storage().use_count();
    loss.backward({}, keep);
    const long after = y.storage().use_count();
    if (keep) {
      expect_equal("exp saves its result; owners of that memory after backward({}, retain_graph = true)",
                   after, before);
      loss.backward();
      expect_grad("a second pass through the retained graph: the gradient of x", x,
                  {2 * std::exp(1.0), 2 * std::exp(2.0)});
    } else {
      expect("exp saves its result; after backward() the graph does not hold it any more", after < before,
             "owners before " + std::to_string(before) + ", after " + std::to_string(after));
      expect_throws("TT-GRAD-03", "a second backward() through a graph that was not retained",
                    [&] { loss.backward(); });
    }
  }
}

TEST_CASE("2.6 the backward pass itself is not recorded") {
  const Tensor x = leaf({1, 2}), g = leaf({1, 10});
  const Tensor y = x * x;
  y.backward(g, true);
  y.backward(g);
  expect_grad("(x x).backward(g), twice: the gradient of x", x, {4, 80});
  expect("(x x).backward(g) with a g that requires grad: x.grad() is a plain tensor",
         !x.grad().requires_grad(), "it is part of a graph, which grows with each pass");
  expect("recording is on again after backward()", (x * 2).requires_grad());
  bool recording = true;
  sum(apply(NotesRecording(&recording), {x * 2})).backward();
  expect("recording is off while backward() computes gradients", !recording,
         "each pass would build a graph of its own");
  try {
    y.backward(g);
  } catch (const Error&) {
  }
  expect("recording is on again after a backward() that threw", (x * 2).requires_grad());
}

TEST_CASE("2.6 hooks see complete gradients; each refusal has its error code") {
  const Tensor x = leaf({1, 2});
  Tensor middle = x * 2;
  Numbers seen;
  int calls = 0;
  middle.register_hook([&](const Tensor& g) {
    seen = numbers_of(g);
    ++calls;
    return g * 10;
  });
  middle.retain_grad();
  sum(middle * 5 + middle * 10).backward();
  expect_equal("m = 2 x, y = 5 m + 10 m: calls of the hook of m", calls, 1);
  expect_equal("m = 2 x, y = 5 m + 10 m: the gradient that the hook of m gets", seen, Numbers{15, 15});
  expect_grad("a hook of m that returns 10 g: the gradient of x", x, {300, 300});
  expect_grad("retain_grad() of m: its gradient", middle, {150, 150});

  expect_throws("TT-GRAD-01", "backward() of a tensor that depends on no leaf",
                [] { constant({1}).backward(); });
  expect_throws("TT-GRAD-08", "backward() of two elements without a gradient", [&] { (x * 2).backward(); });
  Tensor w = constant({3, 4});
  const Tensor product = sum(x * w);
  w.fill_(0);
  expect_throws("TT-GRAD-02", "backward() after a saved operand was overwritten",
                [&] { product.backward(); });
}

TEST_CASE("2.6 random graphs, compared with forward-mode differentiation") {
  for (int run = 0; run < 20; ++run) check_random_graph();
}

TEST_CASE("2.6 a chain of 2,000 steps") {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 2000; ++i) y = y + x;
  on_small_stack([&] { y.backward(); });
  expect_grad("x added to itself 2,000 times: the gradient of x", x, {2001});
}
