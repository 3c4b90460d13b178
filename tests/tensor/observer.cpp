// Observers: scopes and the backward pass; operations are tested in apply.cpp.
#include <support/check.hpp>
#include <support/errors.hpp>
#include <tinytorch/tensor/graph.hpp>

namespace {

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

struct Recorder final : tt::OpObserver {
  std::vector<std::string> events;
  void after(const tt::PrimitiveBase& op, const Tensors&, const Tensors&, tt::Cost) override {
    events.push_back(op.name());
  }
  void failed(const tt::PrimitiveBase& op) override { events.push_back(std::string("failed ") + op.name()); }
  void enter(const char* name, const void* owner) override {
    events.push_back(std::string("enter ") + name + (owner ? " of someone" : ""));
  }
  void leave() override { events.push_back("leave"); }
  void begin_backward(const tt::Node& node) override {
    events.push_back(std::string("backward of ") + node.op->name());
  }
  void end_backward() override { events.push_back("end"); }
};
using Events = std::vector<std::string>;

}  // namespace

TEST_CASE("scopes nest, and enclose the operations inside them") {
  Recorder recorder;
  const Tensor x = tt::ones({2});
  {
    const tt::Observing observing(recorder);
    const tt::Scope step("step");
    {
      const tt::Scope part("part", &x);
      x + 1;
    }
    x * 2;
  }
  CHECK(recorder.events == Events{"enter step", "enter part of someone", "add", "leave", "mul", "leave"});
}

TEST_CASE("an exception leaves its scopes, and failed() names the operation") {
  Recorder recorder;
  const tt::Observing observing(recorder);
  try {
    const tt::Scope scope("step");
    tt::ones({2}) + tt::ones({3});
  } catch (const tt::Error&) {
  }
  CHECK(recorder.events == Events{"enter step", "failed add", "leave"});
}

TEST_CASE("an observer gets no end of a scope that began before it or under another observer") {
  Recorder first, second;
  {
    const tt::Scope before("before");
    const tt::Observing observing(first);
    const tt::Scope inside("inside");
    {
      const tt::Observing other(second);
      const tt::Scope theirs("theirs");
    }
    tt::ones({1}) + 1;
  }
  CHECK(first.events == Events{"enter inside", "add", "leave"});
  CHECK(second.events == Events{"enter theirs", "leave"});
  CHECK(tt::op_observer() == nullptr);
  auto late = std::make_unique<Recorder>();
  {
    auto observing = std::make_unique<tt::Observing>(*late);
    const tt::Scope scope("scope");
    observing.reset();
    late.reset();  // removed before its scope ends
  }
}

TEST_CASE("the backward pass reports whose derivative is computed") {
  Recorder recorder;
  Tensor x = tt::ones({2});
  x.requires_grad_();
  const Tensor y = tt::sum(tt::exp(x));
  const tt::Observing observing(recorder);
  y.backward();
  const auto position = [&](const std::string& what) {
    return std::find(recorder.events.begin(), recorder.events.end(), what) - recorder.events.begin();
  };
  CHECK(position("backward of sum") < position("backward of exp"));
  CHECK(position("backward of exp") < position("mul"));
  CHECK(std::count(recorder.events.begin(), recorder.events.end(), "end") == 2);
  CHECK(recorder.events.back() == "end");
}
