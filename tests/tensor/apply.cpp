// apply(): every operation is checked, run, recorded and observed here.
#include <support/check.hpp>
#include <support/errors.hpp>

namespace {

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

// An operation with two outputs: x + 1, and the number of kernel calls so far.
struct Counted final : tt::Primitive<Counted> {
  static constexpr const char* kName = "counted";
  int* calls;
  explicit Counted(int* c) : calls(c) {}
  tt::Specs infer(const Tensors& in, tt::Loc) const override {
    return {{in[0].shape(), in[0].dtype()}, {{}, tt::i64}};
  }
  double flops(const Tensors& in, const Tensors&) const override {
    return 3.0 * static_cast<double>(in[0].numel());
  }
  void run(const Tensors& in, Tensors& out) const override {
    ++*calls;
    out[0].copy_(in[0].detach() + 1);
    out[1].fill_(*calls);
  }
  Tensors vjp(const tt::Saved&, const Tensors& g) const override { return {g[0]}; }
};

struct Recorder final : tt::OpObserver {
  std::vector<std::string> events;
  double flops = 0, bytes = 0;
  void before(const tt::PrimitiveBase& op, const Tensors& in) override {
    events.push_back(std::string("before ") + op.name() + " " + std::to_string(in.size()));
  }
  void after(const tt::PrimitiveBase& op, const Tensors&, const Tensors& out, tt::Cost cost) override {
    events.push_back(std::string("after ") + op.name() + " " + out[0].shape().str());
    flops = cost.flops;
    bytes = cost.bytes;
  }
};

}  // namespace

TEST_CASE("apply_all() returns all outputs, apply() the first; the kernel runs once") {
  int calls = 0;
  const Tensors all = tt::apply_all(Counted(&calls), {tt::zeros({3})});
  REQUIRE(all.size() == 2);
  CHECK(all[0].to_vector() == std::vector<float>{1, 1, 1});
  CHECK(all[1].item<int>() == 1);
  CHECK(tt::apply(Counted(&calls), {tt::zeros({2})}).to_vector() == std::vector<float>{1, 1});
  CHECK(calls == 2);
}

TEST_CASE("only floating outputs become part of the graph, and only if an input requires grad") {
  int calls = 0;
  Tensor x = tt::zeros({2});
  CHECK_FALSE(tt::apply(Counted(&calls), {x}).requires_grad());
  x.requires_grad_();
  const Tensors all = tt::apply_all(Counted(&calls), {x});
  CHECK(all[0].requires_grad());
  CHECK_FALSE(all[0].is_leaf());
  CHECK_FALSE(all[1].requires_grad());
  const tt::NoGrad guard;
  CHECK_FALSE(tt::apply(Counted(&calls), {x}).requires_grad());
}

TEST_CASE("an observer is called before and after each operation, with its cost") {
  Recorder recorder;
  int calls = 0;
  {
    const tt::Observing watch(recorder);
    tt::apply(Counted(&calls), {tt::zeros({4}).detach()});
  }
  // zeros() is not an operation of apply(); the addition inside the kernel is observed.
  CHECK(recorder.events ==
        std::vector<std::string>{"before counted 1", "before add 2", "after add [4]", "after counted [4]"});
  CHECK(recorder.flops == 12);
  CHECK(recorder.bytes == 16 + 16 + 8);
  tt::ones({2}) + 1;
  CHECK(recorder.events.size() == 4);
}

TEST_CASE("views are observed, with 0 bytes") {
  Recorder recorder;
  const Tensor x = tt::ones({2, 3});
  {
    const tt::Observing watch(recorder);
    x.t();
  }
  CHECK(recorder.events == std::vector<std::string>{"before permute 1", "after permute [3, 2]"});
  CHECK(recorder.flops == 0);
  CHECK(recorder.bytes == 0);
}

TEST_CASE("a failed check gives no result and no node; the observer gets only before()") {
  Recorder recorder;
  Tensor x = tt::ones({2});
  x.requires_grad_();
  const size_t before = tt::allocator_stats().current;
  {
    const tt::Observing watch(recorder);
    const Tensor three = tt::ones({3});
    CHECK_THROWS_AS(x + three, tt::Error);
  }
  CHECK(recorder.events == std::vector<std::string>{"before add 2"});
  CHECK(tt::allocator_stats().current == before);
}

TEST_CASE("the backward pass also runs its operations by apply()") {
  Recorder recorder;
  Tensor x = tt::ones({2});
  x.requires_grad_();
  const Tensor y = tt::sum(tt::exp(x));
  {
    const tt::Observing watch(recorder);
    y.backward();
  }
  CHECK(std::find(recorder.events.begin(), recorder.events.end(), "after mul [2]") != recorder.events.end());
}
