// The records of a profiler: each op once, in its scope, with its cost; forward and backward; failed ops.
#include <chrono>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <thread>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/profiling/profiler.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;
using tt::profiling::by_module;
using tt::profiling::OpRecord;
using tt::profiling::Profile;
using tt::profiling::Profiler;
using tt::profiling::ProfileRow;
using tt::profiling::ProfileTable;

namespace {

void wait_milliseconds(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// An op that takes `ms` and may call another op inside, or throw.
struct Slow final : tt::Primitive<Slow> {
  static constexpr const char* kName = "slow";
  int ms;
  bool calls_add, throws;
  Slow(int milliseconds, bool add, bool fails = false) : ms(milliseconds), calls_add(add), throws(fails) {}
  tt::Specs infer(const Tensors& in, tt::Loc) const override { return {{in[0].shape(), in[0].dtype()}}; }
  double flops(const Tensors&, const Tensors&) const override { return 1000; }
  void run(const Tensors& in, Tensors& out) const override {
    wait_milliseconds(ms);
    if (throws) tt::fail("TT-TEST-00", "slow: it failed");
    if (calls_add) tt::apply(Slow(2 * ms, false), {in[0]});
    out[0].fill_(1);
  }
  Tensors vjp(const tt::Saved&, const Tensors& g) const override { return {g[0] * 2}; }
};

const ProfileRow* row_of(const ProfileTable& table, const std::string& name, bool backward) {
  for (const ProfileRow& row : table) {
    if (row.name == name && row.backward == backward) return &row;
  }
  return nullptr;
}

struct Net : tt::Module {
  tt::Linear hidden{5, 7}, out{7, 3};
  Net() { add("hidden", hidden), add("out", out); }
  Tensor forward(const Tensor& x) override { return out(tt::relu(hidden(x))); }
};

// forward() with two arguments opens its scope itself, and calls the other forward().
struct Twice : tt::Module {
  tt::Linear inner{4, 4};
  Twice() { add("inner", inner); }
  Tensor forward(const Tensor& x) override { return forward(x, 2); }
  Tensor forward(const Tensor& x, int times) {
    const tt::Scope scope = forward_scope();
    Tensor y = x;
    for (int i = 0; i < times; ++i) y = inner(y) + 1;
    return y;
  }
};

}  // namespace

TEST_CASE("each op is recorded once, with the work that its primitive states") {
  const Tensor a = tt::ones({4, 6}), b = tt::ones({6, 5});
  Profiler profiler;
  const Tensor c = tt::matmul(a, b);
  const Tensor d = c + 1;
  const Profile profile = profiler.finish();
  REQUIRE(profile.ops.size() == 2);
  CHECK(profile.ops[0].name == "matmul");
  CHECK(profile.ops[0].cost.flops == 2 * 4 * 6 * 5);
  CHECK(profile.ops[0].cost.bytes == 4 * (24 + 30 + 20));
  CHECK(profile.ops[0].inputs == std::vector<tt::Shape>{{4, 6}, {6, 5}});
  CHECK(profile.ops[1].name == "add");
  CHECK(profile.cost().flops == 240 + 20);
  CHECK_FALSE(profile.ops[0].backward);
  // After finish() nothing is recorded.
  tt::ones({3}) + 1;
  CHECK(profile.ops.size() == 2);
  CHECK(tt::op_observer() == nullptr);
}

TEST_CASE("times add up: own time of ops, time of callees, and the rest of the program") {
  const Tensor x = tt::ones({3});
  Profiler profiler;
  tt::apply(Slow(10, true), {x});
  wait_milliseconds(15);
  const Profile profile = profiler.finish();
  REQUIRE(profile.ops.size() == 2);
  const OpRecord& outer = profile.ops[0];
  const OpRecord& inner = profile.ops[1];
  CHECK(inner.parent == 0);
  CHECK(outer.parent == -1);
  CHECK(inner.seconds >= 0.020);
  CHECK(outer.seconds >= inner.seconds + 0.010);
  CHECK(outer.self_seconds() == doctest::Approx(outer.seconds - inner.seconds));
  CHECK(profile.op_seconds() == doctest::Approx(outer.seconds));
  CHECK(profile.seconds >= outer.seconds + 0.015);
  CHECK(profile.cost().flops == 1000);  // the outer op's work includes that of its callees
}

TEST_CASE("ops belong to the module that called them, in forward and backward") {
  Net net;
  const Tensor x = tt::ones({2, 5});
  Profiler profiler(net);
  tt::sum(net(x)).backward();
  const Profile profile = profiler.finish();
  const ProfileTable modules = by_module(profile);
  for (const char* name : {"hidden", "out"}) {
    for (const bool backward : {false, true}) {
      const ProfileRow* const row = row_of(modules, name, backward);
      CAPTURE(name);
      CAPTURE(backward);
      REQUIRE(row);
      const double products = 2.0 * 2 * (name[0] == 'h' ? 5 * 7 : 7 * 3);
      const double gradients = products * (name[0] == 'h' ? 1 : 2);  // x needs no gradient
      CHECK(row->cost.flops >= (backward ? gradients : products));
      CHECK(row->cost.flops <= 1.4 * (backward ? gradients : products));
    }
  }
  // relu belongs to the model itself; the sum is outside of it.
  size_t own = 0;
  for (const OpRecord& op : profile.ops) {
    if (op.name == "relu" && !op.backward) own = static_cast<size_t>(op.scope);
  }
  REQUIRE(own > 0);
  CHECK(profile.scopes[own].path == "model");
  CHECK(profile.scopes[own].parent == 0);
  CHECK(profile.scopes[own].seconds > 0);
}

TEST_CASE("a forward() with more arguments has one scope, however it is called") {
  Twice model;
  Profiler profiler(model);
  model(tt::ones({1, 4}));
  model.forward(tt::ones({1, 4}), 1);
  const Profile profile = profiler.finish();
  std::vector<std::string> paths;
  for (const auto& scope : profile.scopes) paths.push_back(scope.path);
  CHECK(paths == std::vector<std::string>{"", "model", "inner", "inner", "model", "inner"});
  CHECK(profile.scopes[2].parent == 1);
  CHECK(profile.scopes[4].parent == 0);
}

TEST_CASE("an optimizer step is recorded with its cost, also with clipping") {
  Net net;
  tt::AdamW optimizer(net.named_parameters());
  const double parameters = static_cast<double>(net.parameter_count());
  tt::sum(net(tt::ones({2, 5}))).backward();
  Profiler profiler(net);
  optimizer.step();
  optimizer.step_clipped(1);
  const Profile profile = profiler.finish();
  const ProfileTable table = by_op(profile);
  const ProfileRow* const step = row_of(table, "optimizer step", false);
  const ProfileRow* const norm = row_of(table, "gradient norm", false);
  REQUIRE(step);
  REQUIRE(norm);
  CHECK(step->calls == 2);
  CHECK(step->cost.bytes == 2 * 4 * 7 * parameters);  // reads g, p, m, v and writes p, m, v
  CHECK(step->seconds > 0);
  CHECK(norm->cost.bytes == 4 * parameters);
  CHECK(norm->cost.flops == 2 * parameters);
}

TEST_CASE("scopes have the user's names; modules outside of the model have the name of their class") {
  tt::Linear layer(3, 3);
  tt::Sequential stack;
  Profiler profiler;
  {
    const tt::Scope step("f");  // a demangler would turn it into `float`
    layer(tt::ones({1, 3}));
  }
  stack(tt::ones({1, 3}));
  const Profile profile = profiler.finish();
  std::vector<std::string> paths;
  for (const auto& scope : profile.scopes) paths.push_back(scope.path);
  CHECK(paths == std::vector<std::string>{"", "f", "Linear", "Sequential"});
}

TEST_CASE("an op that throws leaves the records of other ops intact") {
  const Tensor x = tt::ones({3});
  Profiler profiler;
  {
    const tt::Scope outer("outer");
    try {
      const tt::Scope inner("inner");
      tt::apply(Slow(0, false, true), {x});
    } catch (const tt::Error&) {
    }
    x + 1;
  }
  CHECK_THROWS_AS(x + tt::ones({4}), tt::Error);
  x * 2;
  const Profile profile = profiler.finish();
  REQUIRE(profile.ops.size() == 4);
  CHECK(profile.ops[0].name == "slow");
  CHECK(profile.ops[0].seconds == 0);
  CHECK(profile.ops[1].name == "add");
  CHECK(profile.ops[1].parent == -1);
  CHECK(profile.scopes[static_cast<size_t>(profile.ops[1].scope)].path == "outer");
  CHECK(profile.ops[2].cost.flops == 0);
  CHECK(profile.ops[3].parent == -1);
  CHECK(profile.ops[3].scope == 0);
}
