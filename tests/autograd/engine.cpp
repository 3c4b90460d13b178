// The backward pass: sums over paths, accumulation, release of saved tensors, hooks, and every error.
#include <support/errors.hpp>
#include <support/few.hpp>
#include <thread>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using Values = std::vector<float>;

namespace {

// Bytes of live tensors on the device that the tests run on.
size_t in_use() {
  return tt::default_device().is_cpu() ? tt::allocator_stats().current
                                       : tt::backend::cuda::memory_stats(0).current;
}
size_t peak() {
  return tt::default_device().is_cpu() ? tt::allocator_stats().peak : tt::backend::cuda::memory_stats(0).peak;
}
void reset_peak() {
  if (tt::default_device().is_cpu()) return tt::reset_peak();
  tt::backend::cuda::reset_peak(0);
}

struct Broken final : tt::Primitive<Broken> {
  static constexpr const char* kName = "broken";
  tt::Specs infer(const tt::Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const tt::Tensors&, tt::Tensors& out) const override { out[0].fill_(1); }
  tt::Tensors vjp(const tt::Saved&, const tt::Tensors&) const override { return {tt::ones({5})}; }
};
struct Opaque final : tt::Primitive<Opaque> {
  static constexpr const char* kName = "opaque";
  tt::Specs infer(const tt::Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  void run(const tt::Tensors&, tt::Tensors& out) const override { out[0].fill_(1); }
};

Tensor leaf(std::vector<float> v) {
  Tensor t = tt::from_data(v);
  t.requires_grad_();
  return t;
}
Values grad_of(const Tensor& t) { return t.grad().to_vector<float>(); }
}  // namespace

TEST_CASE("gradients of a formula computed by hand") {
  Tensor x = leaf({1, 2, 3}), y = leaf({4, 5, 6});
  tt::sum(x * y + x * x - 3 * y).backward();
  CHECK(grad_of(x) == Values{4 + 2, 5 + 4, 6 + 6});
  CHECK(grad_of(y) == Values{1 - 3, 2 - 3, 3 - 3});
}

TEST_CASE("gradients of several paths are added, and each node runs once") {
  Tensor x = leaf({2});
  int runs = 0;
  Tensor shared = x * 3;
  shared.register_hook([&](const Tensor& g) {
    ++runs;
    return g;
  });
  const Tensor left = shared * shared, right = shared * 5;
  tt::sum(left + right + shared).backward();  // d = 3 (2 * 6 + 5 + 1)
  CHECK(grad_of(x) == Values{54});
  CHECK(runs == 1);
}

TEST_CASE("a tensor used as both operands gets the sum of both gradients") {
  Tensor x = leaf({3, -1});
  tt::sum(x + x).backward();
  CHECK(grad_of(x) == Values{2, 2});
  Tensor z = leaf({3, -1});
  tt::sum(z - z).backward();
  CHECK(grad_of(z) == Values{0, 0});
}

TEST_CASE("gradients accumulate over two backward passes until they are cleared") {
  Tensor x = leaf({1, 2});
  tt::sum(x * x).backward();
  CHECK(grad_of(x) == Values{2, 4});
  tt::sum(x * x).backward();
  CHECK(grad_of(x) == Values{4, 8});
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  tt::sum(x * 10).backward();
  CHECK(grad_of(x) == Values{10, 10});
}

TEST_CASE("a leaf's gradient owns its memory") {
  Tensor a = leaf({1, 2}), b = leaf({3, 4});
  Tensor seed = tt::from_data({1.0f, 10.0f});
  Tensor seen;
  Tensor y = a + b;
  y.register_hook([&](const Tensor& g) {
    seen = g;
    return g;
  });
  y.backward(seed);
  CHECK(grad_of(a) == Values{1, 10});
  a.grad().mul_(100);  // as in gradient clipping
  CHECK(grad_of(b) == Values{1, 10});
  CHECK(seed.to_vector() == Values{1, 10});
  CHECK(seen.to_vector() == Values{1, 10});
  b.grad().mul_(7);
  CHECK(grad_of(a) == Values{100, 1000});
  CHECK(seed.to_vector() == Values{1, 10});

  Tensor c = leaf({1, 2});
  c.backward(seed);  // backward from a leaf
  c.grad().mul_(3);
  CHECK(seed.to_vector() == Values{1, 10});

  // A gradient with another memory layout than its leaf becomes a row-major copy.
  Tensor d = tt::ones({2, 3}), turned = tt::from_data<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  d.requires_grad_();
  d.backward(turned.t());
  d.grad().mul_(3);
  CHECK(turned.to_vector() == Values{1, 2, 3, 4, 5, 6});
  CHECK(grad_of(d) == Values{3, 9, 15, 6, 12, 18});
  CHECK(d.grad().is_contiguous());
}

TEST_CASE("the gradient passed to backward() weights the elements") {
  Tensor x = leaf({1, 2, 3});
  (x * x).backward(tt::from_data({1.0f, 10.0f, 100.0f}));
  CHECK(grad_of(x) == Values{2, 40, 600});
}

TEST_CASE("gradients are computed only where they are required") {
  Tensor x = leaf({1, 2});
  const Tensor fixed = tt::from_data({5.0f, 6.0f});
  const Tensor y = x * fixed;
  CHECK(y.requires_grad());
  tt::sum(y).backward();
  CHECK(grad_of(x) == Values{5, 6});
  CHECK_FALSE(fixed.grad().defined());
  CHECK_FALSE(fixed.requires_grad());
  const Tensor none = fixed * 2;
  CHECK_FALSE(none.requires_grad());
  CHECK(none.is_leaf());
  // Integer and bool results are not part of the graph.
  CHECK_FALSE((x > 0).requires_grad());
  CHECK_FALSE(tt::argmax(x, 0).requires_grad());
}

TEST_CASE("detach cuts the graph and shares the values") {
  Tensor x = leaf({2, 3});
  const Tensor cut = (x * x).detach();
  CHECK_FALSE(cut.requires_grad());
  tt::sum(cut * x).backward();
  CHECK(grad_of(x) == Values{4, 9});
  CHECK(x.detach().storage() == x.storage());
}

TEST_CASE("saved tensors are freed by the backward pass, unless the graph is retained") {
  const auto bytes_after = [](bool retain) {
    Tensor x = tt::ones({1000});
    x.requires_grad_();
    Tensor loss;
    {
      const Tensor y = tt::exp(x);  // saves its output, so only the graph keeps y's storage
      loss = tt::sum(tt::square(y));
    }
    const size_t before = in_use();
    loss.backward({}, retain);
    return static_cast<int64_t>(in_use()) - static_cast<int64_t>(before);
  };
  CHECK(bytes_after(false) == 4000 - 4000);  // the gradient was allocated, y was freed
  CHECK(bytes_after(true) == 4000);
}

TEST_CASE("saved tensors are freed during the pass, not after it") {
  Tensor x = tt::ones({100'000});
  x.requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = tt::tanh(y);  // 20 saved outputs of 400 KB
  Tensor loss = tt::sum(y);
  y = Tensor();
  const size_t before = in_use();
  reset_peak();
  loss.backward();
  CHECK(peak() - before < 4 * 400'000);
  CHECK(in_use() < before - 18 * 400'000);
}

TEST_CASE("the graph is destroyed with its last result") {
  const size_t before = in_use();
  Tensor x = tt::ones({1000});
  x.requires_grad_();
  const size_t with_leaf = in_use();
  {
    Tensor y = tt::exp(tt::exp(x));
    CHECK(in_use() >= with_leaf + 8000);
  }
  CHECK(in_use() == with_leaf);
  CHECK(x.storage().use_count() == 1);
  x = Tensor();
  CHECK(in_use() == before);
}

TEST_CASE("a second backward pass through a used graph is an error") {
  Tensor x = leaf({1, 2});
  const Tensor y = tt::sum(tt::exp(x));
  y.backward();
  errors::check_error(
      "TT-GRAD-03: backward: this graph was already used by a backward pass, which freed what 'sum' had "
      "saved\n  "
      "hint: call the first one with retain_graph = true, or compute the result again",
      [&] { y.backward(); }, __FILE__);
  Tensor z = leaf({3});
  const Tensor w = tt::sum(z * z);
  w.backward({}, true);
  w.backward();
  CHECK(grad_of(z) == Values{12});
}

TEST_CASE("errors: no graph, no gradient, a wrong gradient") {
  const Tensor plain = tt::from_data({1.0f}).named("plain");
  errors::check_error(
      "TT-GRAD-01: backward: 'plain' f32 [1] on cpu does not depend on any tensor that requires grad\n  "
      "hint: call "
      "requires_grad_() on the leaves before computing, outside any NoGrad scope",
      [&] { plain.backward(); });
  Tensor x = leaf({1, 2});
  errors::check_error(
      "TT-GRAD-08: backward: a gradient is needed for a result of more than one element, got f32 [2] on "
      "cpu\n  hint: "
      "reduce to a scalar loss first, or pass a gradient of the same shape",
      [&] { (x * 2).backward(); });
  errors::check_error("TT-GRAD-09: backward: the gradient f32 [3] on cpu does not match f32 [2] on cpu",
                      [&] { (x * 2).backward(tt::ones({3})); });
  errors::check_error("TT-GRAD-09: backward: the gradient f64 [2] on cpu does not match f32 [2] on cpu",
                      [&] { (x * 2).backward(tt::ones({2}, tt::f64)); });
}

TEST_CASE("an in-place write to a saved tensor is detected") {
  Tensor x = leaf({1, 2});
  Tensor w = tt::from_data({3.0f, 4.0f}).named("w");
  const Tensor y = tt::sum(x * w);
  w.add_(tt::ones({2}));
  errors::check_error(
      "TT-GRAD-02: backward: a tensor that 'mul' saved (f32 [2] on cpu) was overwritten in place after the "
      "forward "
      "pass\n  hint: write to a clone(), or run backward before the write",
      [&] { y.backward(); });
  // A write through a view of the same memory is detected as well.
  Tensor v = tt::ones({4});
  const Tensor z = tt::sum(leaf({1, 1, 1, 1}) * v);
  v.slice(0, 0, 1).fill_(9);
  CHECK(errors::thrown_by([&] { z.backward(); }).code == "TT-GRAD-02");
  // An operation that saves nothing allows the write.
  Tensor u = tt::ones({2});
  Tensor a = leaf({1, 2});
  const Tensor s = tt::sum(a + u);
  u.fill_(5);
  s.backward();
  CHECK(grad_of(a) == Values{1, 1});
}

TEST_CASE("a factor may be overwritten if no needed gradient reads it") {
  Tensor x = leaf({1, 2});
  Tensor y = x * 3;
  const Tensor z = y * 2, half = y / tt::from_data({2.0f, 4.0f}), c = tt::from_data({5.0f}), left = c * y;
  y += 1;
  tt::sum(z + half + left).backward();
  CHECK(grad_of(x) == Values{3 * (2 + 0.5f + 5), 3 * (2 + 0.25f + 5)});
  Tensor middle = x * 3;
  const std::weak_ptr<tt::Storage> storage = middle.storage();
  const Tensor doubled = middle * 2;
  middle = Tensor();
  CHECK(storage.expired());  // the graph of `doubled` does not keep it
  // Both operands need gradients: the write is an error, as before.
  Tensor w = leaf({3, 4}), u = x * 2;
  const Tensor product = tt::sum(u * w), quotient = tt::sum(u / w), divisor = tt::sum(1 / u);
  u += 1;
  for (const Tensor& result : {product, quotient, divisor})
    CHECK(errors::thrown_by([&] { result.backward(); }).code == "TT-GRAD-02");
}

TEST_CASE("in-place writes that would make gradients wrong are errors") {
  Tensor x = leaf({1, 2}).named("x");
  errors::check_error(
      "TT-GRAD-04: fill_: in-place write to 'x' f32 [2] on cpu, which is part of an autograd graph\n  hint: "
      "use the "
      "out-of-place "
      "op, or wrap the write in a NoGrad scope",
      [&] { x.fill_(0); });
  Tensor y = tt::ones({2});
  errors::check_error(
      "TT-GRAD-04: add_: the source 'x' f32 [2] on cpu requires grad, an in-place write would lose its "
      "gradient\n  "
      "hint: use the out-of-place op, or source.detach()",
      [&] { y.add_(x); });
  CHECK(errors::thrown_by([&] { x.mul_(2); }).code == "TT-GRAD-04");
  CHECK(errors::thrown_by([&] { x.copy_(y); }).code == "TT-GRAD-04");
  CHECK(errors::thrown_by([&] { (x * 2).zero_(); }).code == "TT-GRAD-04");
  {
    const tt::NoGrad guard;
    x.fill_(7);
  }
  CHECK(x.to_vector() == Values{7, 7});
  y.add_(x.detach());
  CHECK(y.to_vector() == Values{8, 8});
}

TEST_CASE("only leaves can be changed, only floats can require grad") {
  Tensor x = leaf({1});
  Tensor y = x * 2;
  errors::check_error(
      "TT-GRAD-06: requires_grad_: f32 [1] on cpu was computed by 'mul'; only leaves can be changed\n  "
      "hint: "
      "detach() makes a leaf with the same values",
      [&] { y.requires_grad_(false); });
  Tensor n = tt::arange(0, 3);
  errors::check_error(
      "TT-DTYPE-02: requires_grad_: needs a floating dtype, got i64 [3] on cpu\n  hint: convert first with "
      ".to(f32)",
      [&] { n.requires_grad_(); });
  x.requires_grad_(false);
  CHECK_FALSE((x * 2).requires_grad());
}

TEST_CASE("hooks get complete gradients and may replace them") {
  Tensor x = leaf({1, 2});
  int calls = 0;
  x.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 2;
  });
  x.register_hook([](const Tensor& g) { return g + 1; });
  tt::sum(x * 3).backward();
  CHECK(grad_of(x) == Values{7, 7});  // 3 * 2 + 1
  CHECK(calls == 1);

  Tensor z = leaf({1, 2});
  Tensor middle = z * 2;
  middle.register_hook([&](const Tensor& g) {
    CHECK(g.to_vector() == Values{15, 15});  // the sum over both uses
    return Tensor();                         // an undefined result keeps the gradient
  });
  middle.register_hook([](const Tensor& g) { return g * 0.5; });
  tt::sum(middle * 5 + middle * 10).backward();
  CHECK(grad_of(z) == Values{15, 15});
}

TEST_CASE("retain_grad() keeps a result's gradient, which accumulates as for leaves") {
  Tensor x = leaf({1, 2});
  Tensor y = x * x;
  CHECK_FALSE(y.grad().defined());
  y.retain_grad();
  Tensor loss = tt::sum(y * 3);
  loss.backward({}, true);
  CHECK(grad_of(y) == Values{3, 3});
  loss.backward();
  CHECK(grad_of(y) == Values{6, 6});
  CHECK(grad_of(x) == Values{12, 24});
  Tensor without = x * x;
  tt::sum(without).backward();
  CHECK_FALSE(without.grad().defined());
}

TEST_CASE("several outputs: the gradient of an unused one is zero") {
  Tensor x = leaf({3, 1, 2});
  const auto sorted = tt::sort(x, 0);
  tt::sum(sorted.values * tt::from_data({1.0f, 10.0f, 100.0f})).backward();
  CHECK(grad_of(x) == Values{100, 1, 10});
  Tensor y = leaf({1, 2, 3, 4});
  const auto parts = tt::split(y, 2);
  tt::sum(parts[1] * 5).backward();
  CHECK(grad_of(y) == Values{0, 0, 5, 5});
}

TEST_CASE("views pass gradients to their base tensor") {
  Tensor x = leaf({1, 2, 3, 4, 5, 6});
  const Tensor m = x.reshape({2, 3});
  tt::sum(m.t()[1] * tt::from_data({1.0f, 10.0f})).backward();
  CHECK(grad_of(x) == Values{0, 1, 0, 0, 10, 0});
}

TEST_CASE("topological order: newest first, each node once") {
  Tensor x = leaf({1});
  const Tensor a = x * 2, b = a * 3, c = a + b, d = tt::sum(c * a);
  const auto order = tt::topological_order(d.impl()->grad_state->producer);
  REQUIRE(order.size() == 5);
  for (size_t i = 1; i < order.size(); ++i) CHECK(order[i - 1]->sequence > order[i]->sequence);
  CHECK(std::string(order[0]->op->name()) == "sum");
  CHECK(order.back().get() == a.impl()->grad_state->producer.get());
}

TEST_CASE("a graph that was recorded by two threads") {
  Tensor x = leaf({3});
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = y * 1;
  std::thread([&] { y = y * y + y; }).join();  // the first nodes of this thread, but newer than those of y
  y.backward();
  CHECK(grad_of(x) == Values{7});
}

TEST_CASE("a chain of 100,000 nodes runs backward and is destroyed" * test::long_on_emulator()) {
  Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < 100'000; ++i) y = y + x;
    y.backward();
    CHECK(grad_of(x) == Values{100'001});
  }
  {
    Tensor y = x;
    for (int i = 0; i < 100'000; ++i) y = tt::neg(y);
  }  // destroyed without a backward pass
  CHECK(x.requires_grad());
}

TEST_CASE("a wide graph: one leaf is used in 20,000 terms" * test::long_on_emulator()) {
  Tensor x = leaf({2});
  {
    tt::Tensors terms;
    for (int i = 0; i < 20'000; ++i) terms.push_back(x * 1.0);
    tt::sum(tt::cat(terms)).backward();
  }
  CHECK(grad_of(x) == Values{20'000});
}

TEST_CASE("a derivative of the wrong shape is an error that names the operation") {
  Tensor x = leaf({1, 2});
  const Tensor y = tt::apply(Broken(), {x});
  errors::check_error(
      "TT-GRAD-07: backward: the derivative of 'broken' gave a gradient of shape [5] for input 0 of shape "
      "[2]",
      [&] { tt::sum(y).backward(); });
}

TEST_CASE("backward through an operation without a derivative is an error") {
  const auto t = errors::thrown_by([] { tt::sum(tt::apply(Opaque(), {leaf({1})})).backward(); });
  CHECK(t.text ==
        "TT-GRAD-05: opaque: this op has no derivative\n  hint: call it on x.detach(), or give its primitive "
        "a vjp");
}

TEST_CASE("16-bit gradients are summed in f32: the sum of 1,000 ones is 1,000") {
  for (const tt::DType dtype : {tt::bf16, tt::f16}) {
    INFO(tt::name_of(dtype));
    const Tensor none = tt::zeros({1000}, tt::i64);
    Tensor rows = tt::ones({2}, dtype).requires_grad_();
    tt::sum(tt::index_select(rows, 0, none)).backward();
    CHECK(rows.grad().to_vector<double>() == std::vector<double>{1000, 0});
    Tensor gathered = tt::ones({2}, dtype).requires_grad_();
    tt::sum(tt::gather(gathered, 0, none)).backward();
    CHECK(gathered.grad().to_vector<double>() == std::vector<double>{1000, 0});
    Tensor table = tt::ones({2, 1}, dtype).requires_grad_();
    tt::sum(tt::embedding(table, none)).backward();
    CHECK(table.grad().to_vector<double>() == std::vector<double>{1000, 0});
    CHECK(tt::scatter_add(tt::zeros({1}, dtype), 0, none, tt::ones({1000}, dtype)).item<double>() == 1000);
    Tensor spread = tt::ones({1}, dtype).requires_grad_();
    tt::sum(spread.expand({1000})).backward();
    CHECK(spread.grad().item<double>() == 1000);

    Tensor uses = tt::ones({1}, dtype).requires_grad_();  // many uses of a leaf
    tt::Tensors terms;
    for (int i = 0; i < 1000; ++i) terms.push_back(uses * 1);
    tt::sum(tt::cat(terms)).backward();
    CHECK(uses.grad().item<double>() == 1000);
    CHECK(uses.grad().dtype() == dtype);
    Tensor middle = tt::ones({1}, dtype).requires_grad_();  // many uses of a result
    const Tensor result = middle * 1;
    tt::Tensors of_result;
    for (int i = 0; i < 1000; ++i) of_result.push_back(result * 1);
    tt::sum(tt::cat(of_result)).backward();
    CHECK(middle.grad().item<double>() == 1000);

    Tensor passes = tt::ones({1}, dtype).requires_grad_();  // many backward passes
    for (int i = 0; i < 1000; ++i) tt::sum(passes * 1).backward();
    CHECK(passes.grad().item<double>() == 1000);
    passes.grad().fill_(3);  // the next pass adds to the user's value
    tt::sum(passes * 1).backward();
    CHECK(passes.grad().item<double>() == 4);
    passes.zero_grad();
    tt::sum(passes * 1).backward();
    CHECK(passes.grad().item<double>() == 1);
    passes.set_grad(tt::full({1}, 256, dtype));
    tt::sum(passes * 1).backward();
    tt::sum(passes * 1).backward();
    CHECK(passes.grad().item<double>() == 258);
  }
}

TEST_CASE("set_grad() and hooks require the tensor's shape, dtype and device") {
  Tensor x = leaf({1, 2});
  const auto code = [](const std::function<void()>& f) { return errors::thrown_by(f).code; };
  CHECK(code([&] { x.set_grad(tt::ones({3})); }) == "TT-GRAD-09");
  CHECK(code([&] { x.set_grad(tt::ones({1, 2})); }) == "TT-GRAD-09");
  CHECK(code([&] { x.set_grad(tt::ones({2}, tt::f64)); }) == "TT-GRAD-09");
  x.set_grad(tt::ones({2}));
  x.set_grad(Tensor());
  CHECK_FALSE(x.grad().defined());
  Tensor narrow = tt::ones({2}, tt::bf16).requires_grad_();
  narrow.set_grad(tt::full({2}, 0.5));  // f32, for an optimizer that accumulates in f32
  CHECK(code([&] { narrow.set_grad(tt::ones({2}, tt::f16)); }) == "TT-GRAD-09");

  for (const bool of_leaf : {true, false}) {
    for (int wrong = 0; wrong < 2; ++wrong) {
      Tensor leaf_ = leaf({1, 2}), y = leaf_ * 2;
      (of_leaf ? leaf_ : y).register_hook([&](const Tensor& g) {
        return wrong ? g.to(tt::f64) : g.reshape({1, 2});
      });
      CHECK(code([&] { tt::sum(y).backward(); }) == "TT-GRAD-09");
    }
  }
}

TEST_CASE("a leaf's hook runs once, on the sum of all its uses") {
  Tensor x = leaf({1, 2});
  std::vector<Values> seen;
  x.register_hook([&](const Tensor& g) {
    seen.push_back(g.to_vector());
    return Tensor();
  });
  tt::sum(x * 2 + x * 3 + tt::exp(x) * 0).backward();
  CHECK(seen == std::vector<Values>{{5, 5}});
}
