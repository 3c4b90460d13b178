#include <tinytorch/profiling/profiler.hpp>

#include <support/check.hpp>
#include <tinytorch/autograd/engine.hpp>
#include <tinytorch/tensor/functions.hpp>

#include "ops.hpp"

using namespace course;
using namespace profiling;

namespace {

constexpr double kShort = 0.001, kLong = 0.002;

// A line for each op, such as "act in 'hidden', called by no. 3, backward".
std::vector<std::string> ops_of(const Profile& p) {
  std::vector<std::string> text;
  for (const OpRecord& op : p.ops) {
    text.push_back(op.name + " in '" + p.scopes.at(static_cast<size_t>(op.scope)).path + "'" +
                   (op.parent >= 0 ? ", called by no. " + std::to_string(op.parent) : "") +
                   (op.backward ? ", backward" : ""));
  }
  return text;
}
void expect_ops(const std::string& what, const Profile& p, const std::vector<std::string>& want,
                const std::string& guess = "") {
  const auto lines = [](const std::vector<std::string>& all) {
    std::string text;
    for (size_t i = 0; i < all.size(); ++i) text += "\n    " + std::to_string(i) + "  " + all[i];
    return text;
  };
  expect(what + "\n  expected" + lines(want) + "\n  got" + lines(ops_of(p)), ops_of(p) == want, guess);
}

// A model with the op `own` and the modules first and second, each with one op.
struct Part final : Module {
  const char* name;
  explicit Part(const char* n) : name(n) {}
  Tensor forward(const Tensor& x) override { return act(x, 1, {}, name); }
};
struct Net final : Module {
  Part first{"one"}, second{"two"};
  Net() { add("first", first), add("second", second); }
  Tensor forward(const Tensor& x) override { return act(second(first(x)), 1, {}, "own"); }
};
// forward() with two arguments opens the scope of the module. It is called directly, and by forward() with
// one argument, for which the scope is open already.
struct Again final : Module {
  Part inner{"inner"};
  Again() { add("inner", inner); }
  Tensor forward(const Tensor& x) override { return act(forward(x, 2), 1, {}, "last"); }
  Tensor forward(const Tensor& x, int times) {
    const Scope scope = forward_scope();
    Tensor y = x;
    for (int i = 0; i < times; ++i) y = act(inner(y), 1, {}, "outer");
    return y;
  }
};

std::vector<std::string> scopes_of(const Profile& p) {
  std::vector<std::string> text;
  for (const ScopeRecord& s : p.scopes) text.push_back(s.path + " in " + std::to_string(s.parent));
  return text;
}

}  // namespace

TEST_CASE("5.4 ops in sequence, each with its time and its cost") {
  const Tensor x = pair();
  Profiler profiler;
  act(
      x, 100, [] { spend(kShort); }, "a");
  spend(kLong);
  act(
      x, 20, [] { spend(kLong); }, "b");
  const Profile p = profiler.finish();
  expect_ops("act a, then act b", p, {"a in ''", "b in ''"},
             "an op that has ended calls no ops: remove it from open_ops_");
  const OpRecord &a = p.ops[0], &b = p.ops[1];
  expect(
      "a took 0.001 s or longer, b 0.002 s or longer; got " + shown(a.seconds) + " and " + shown(b.seconds),
      a.seconds >= kShort && b.seconds >= kLong,
      "seconds is the clock at the end minus the clock at the beginning");
  expect("b begins 0.002 s after the end of a: starts " + shown(a.start) + " and " + shown(b.start),
         a.start >= 0 && b.start >= a.start + a.seconds + kLong && b.start + b.seconds <= p.seconds,
         "start is the time since the profile began");
  expect_close("device times on the CPU, which are those of the host",
               {a.device_seconds, a.device_start, b.device_seconds, b.device_start},
               {a.seconds, a.start, b.seconds, b.start}, {4}, {.dtype = f64});
  expect_equal("FLOPs of a and b", Numbers{a.cost.flops, b.cost.flops}, Numbers{100, 20});
  expect_equal("bytes of a and b", Numbers{a.cost.bytes, b.cost.bytes}, Numbers{16, 16});
  expect_close("inner_seconds of ops that called no other op", {a.inner_seconds, b.inner_seconds}, {0, 0},
               {2}, {.dtype = f64});
}

TEST_CASE("5.4 nested ops: each has its caller and its own time") {
  const Tensor x = pair();
  Profiler profiler;
  act(
      x, 1000,
      [&] {
        spend(kShort);
        act(
            x, 100,
            [&] {
              spend(kShort), act(
                                 x, 10, [] { spend(kShort); }, "leaf");
            },
            "middle");
        act(
            x, 30, [] { spend(kLong); }, "second");
      },
      "outer");
  act(x, 5, {}, "after");
  const Profile p = profiler.finish();
  expect_ops("outer calls middle, which calls leaf, and second; then after", p,
             {"outer in ''", "middle in '', called by no. 0", "leaf in '', called by no. 1",
              "second in '', called by no. 0", "after in ''"},
             "the caller is the innermost op that has begun and has not ended");
  const auto s = [&](size_t i) { return p.ops[i].seconds; };
  const std::string once = "an op adds its time to its direct caller only, not to the caller of the caller";
  expect_close("inner_seconds of outer: middle and second", {p.ops[0].inner_seconds}, {s(1) + s(3)}, {},
               {.dtype = f64});
  expect_close("inner_seconds of middle: leaf", {p.ops[1].inner_seconds}, {s(2)}, {}, {.dtype = f64});
  expect_close("inner_device_seconds of all",
               {p.ops[0].inner_device_seconds, p.ops[1].inner_device_seconds, p.ops[2].inner_device_seconds},
               {s(1) + s(3), s(2), 0}, {3}, {.dtype = f64});
  expect_close("the sum of all own times, which is the time of outer and after", {p.op_seconds()},
               {s(0) + s(4)}, {}, {.dtype = f64});
  for (const size_t i : {1, 2, 3}) {
    const OpRecord &op = p.ops[i], &caller = p.ops[static_cast<size_t>(op.parent)];
    expect("the time of " + op.name + " is within that of " + caller.name,
           op.start >= caller.start && op.start + op.seconds <= caller.start + caller.seconds);
  }
}

TEST_CASE("5.4 a failed op has no time and no work, and does not change other records") {
  const Tensor x = pair();
  Profiler profiler;
  act(
      x, 50,
      [&] {
        swallow([&] {
          act(
              x, 7, [] { spend(kShort), failing(); }, "fails");
        });
        act(x, 3, {}, "next");
      },
      "outer");
  swallow([&] {
    act(
        x, 9, [&] { act(x, 2, {}, "inside"), failing(); }, "fails too");
  });
  act(x, 4, {}, "last");
  const Profile p = profiler.finish();
  expect_ops("outer calls `fails`, which fails, and next; then `fails too` fails; then last", p,
             {"outer in ''", "fails in '', called by no. 0", "next in '', called by no. 0", "fails too in ''",
              "inside in '', called by no. 3", "last in ''"},
             "a failed op has ended: failed() is called instead of after()");
  expect_close("seconds of the failed ops", {p.ops[1].seconds, p.ops[3].seconds}, {0, 0}, {2},
               {.dtype = f64});
  expect_equal("FLOPs of all ops",
               Numbers{p.ops[0].cost.flops, p.ops[1].cost.flops, p.ops[2].cost.flops, p.ops[3].cost.flops,
                       p.ops[5].cost.flops},
               Numbers{50, 0, 3, 0, 4});
}

TEST_CASE("5.4 scopes form a tree, and an op belongs to the innermost scope") {
  const Tensor x = pair();
  Profiler profiler;
  act(x, 1, {}, "before");
  {
    const Scope step("step");
    act(x, 1, {}, "a");
    swallow([&] {
      const Scope inner("inner");
      act(x, 1, {}, "b");
      failing();
    });
    act(x, 1, {}, "c");
    const Scope second("second");
    act(
        x, 1, [] { spend(kShort); }, "d");
  }
  act(x, 1, {}, "after");
  const Profile p = profiler.finish();
  expect_ops("scopes step (inner, second)", p,
             {"before in ''", "a in 'step'", "b in 'inner'", "c in 'step'", "d in 'second'", "after in ''"},
             "leave() ends the innermost scope");
  using Names = std::vector<std::string>;
  expect_equal("scopes and their parent scopes", scopes_of(p),
               Names{" in -1", "step in 0", "inner in 1", "second in 1"});
  for (size_t i = 1; i < p.scopes.size(); ++i) {
    const ScopeRecord& s = p.scopes[i];
    expect("scope " + s.path + " has ended within the profile: " + shown(s.start) + " + " + shown(s.seconds),
           s.seconds > 0 && s.start + s.seconds <= p.seconds);
  }
  expect("scope second lasts at least as long as its op of 0.001 s: " + shown(p.scopes[3].seconds),
         p.scopes[3].seconds >= kShort, "close_scopes() stores the duration when the scope is left");
}

TEST_CASE("5.4 one span of a module is one scope, however it is entered") {
  Again model;
  Profiler profiler(model);
  model(pair());
  model.forward(pair(), 1);
  const Profile p = profiler.finish();
  using Names = std::vector<std::string>;
  expect_equal("scopes of model(x), whose forward() enters the scope again, and of forward(x, 1)",
               scopes_of(p),
               Names{" in -1", "model in 0", "inner in 1", "inner in 1", "model in 0", "inner in 4"});
  expect_ops("ops of model(x) and of forward(x, 1)", p,
             {"inner in 'inner'", "outer in 'model'", "inner in 'inner'", "outer in 'model'",
              "last in 'model'", "inner in 'inner'", "outer in 'model'"},
             "each enter() has its leave(), even if it shares a scope");
  Profiler named;
  {
    const Scope one("same"), two("same");
    act(pair(), 1);
  }
  expect_equal("two scopes with one name and without an owner", scopes_of(named.finish()),
               Names{" in -1", "same in 0", "same in 1"});
}

TEST_CASE("5.4 the backward pass belongs to the modules of the forward pass") {
  Net net;
  Tensor x = pair();
  x.requires_grad_();
  const Tensor gradient = pair();
  Profiler profiler(net);
  const Tensor y = act(net(x), 1, {}, "loss");
  {
    const Scope scope("training");
    y.backward(gradient);
    act(gradient, 1, {}, "update");
  }
  expect_ops("a forward pass, and a backward pass in another scope; each derivative is one op",
             profiler.finish(),
             {"one in 'first'", "two in 'second'", "own in 'model'", "loss in ''", "loss in '', backward",
              "own in 'model', backward", "two in 'second', backward", "one in 'first', backward",
              "update in 'training'"},
             "between begin_backward(node) and end_backward() ops belong to the scope in forward_scopes_ of "
             "that node");
}

TEST_CASE("5.4 derivatives of a call that was not profiled belong to the scope in which they run") {
  Tensor x = pair();
  x.requires_grad_();
  const Tensor gradient = pair(), early = act(x, 1, {}, "early");
  Profiler profiler;
  Tensor y;
  {
    const Scope scope("part");
    y = act(early, 1, {}, "late");
  }
  {
    const Scope scope("training");
    y.backward(gradient);
  }
  expect_ops("early was called before the profiler, late in scope part, both derivatives in scope training",
             profiler.finish(),
             {"late in 'part'", "late in 'part', backward", "early in 'training', backward"});
}

TEST_CASE("5.4 ops and scopes that began before the profiler are ignored") {
  const Tensor x = pair();
  std::optional<Profiler> profiler;
  Profile p;
  act(x, 1, [&] {
    // The profiler gets the ends of two ops and a scope that began before it.
    profiler.emplace();
    profiler->failed(Act(1));
    profiler->end_work({5, 5});
    profiler->leave();
    act(
        x, 2, [] { spend(kShort); }, "seen");
    p = profiler->finish();
  });
  expect_ops("the ends of ops that began before the profiler, then an op", p, {"seen in ''"},
             "if nothing is open there is nothing to end; the outermost scope is never left");
  expect("the outermost scope, left once too often, still ends with the profile, after its op",
         p.scopes[0].seconds >= p.ops[0].start + p.ops[0].seconds,
         "the first scope of open_scopes_ stays open");
}
