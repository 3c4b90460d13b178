#include <tinytorch/layers/module.hpp>

#include <support/errors.hpp>
#include <tinytorch/layers/linear.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {

struct Counter : tt::Module {
  tt::Tensor scale, count;
  Counter() {
    scale = add_parameter("scale", tt::full({2}, 3.0));
    count = add_buffer("count", tt::zeros(tt::Shape{}, tt::i64));
  }
  tt::Tensor forward(const tt::Tensor& x) override { return x * scale; }
};

struct Net : tt::Module {
  tt::Linear first{3, 2};
  Counter second;
  Net() {
    add("first", first);
    add("second", second);
  }
  tt::Tensor forward(const tt::Tensor& x) override { return second(first(x)); }
};

std::vector<std::string> names(const tt::NamedTensors& tensors) {
  std::vector<std::string> all;
  for (const tt::NamedTensor& t : tensors) all.push_back(t.name);
  return all;
}

}  // namespace

TEST_CASE("parameters and buffers are listed by path, in order of registration") {
  Net net;
  CHECK(names(net.named_parameters()) ==
        std::vector<std::string>{"first.weight", "first.bias", "second.scale"});
  CHECK(names(net.named_buffers()) == std::vector<std::string>{"second.count"});
  CHECK(net.parameter_count() == 3 * 2 + 2 + 2);
  for (const tt::Tensor& p : net.parameters()) CHECK(p.requires_grad());
  CHECK_FALSE(net.second.count.requires_grad());
  std::vector<std::string> paths;
  net.for_each_module([&](const std::string& path, tt::Module&) { paths.push_back(path); });
  CHECK(paths == std::vector<std::string>{"", "first", "second"});
}

TEST_CASE("a tied parameter is listed once and saved under both names") {
  struct Tied : tt::Module {
    tt::Linear a{2, 2, false};
    Tied() {
      add("a", a);
      add_parameter("b", a.weight);
    }
  } net;
  CHECK(net.named_parameters().size() == 1);
  CHECK(net.parameter_count() == 4);
  CHECK(net.state_dict().size() == 2);
}

TEST_CASE("train and eval set the mode of every module") {
  Net net;
  CHECK((net.training() && net.first.training() && net.second.training()));
  net.eval();
  CHECK_FALSE((net.training() || net.first.training() || net.second.training()));
  net.train();
  CHECK((net.training() && net.first.training() && net.second.training()));
}

TEST_CASE("every parameter gets a gradient, and zero_grad clears it") {
  Net net;
  const tt::Tensor x = tt::from_data({1.f, -2.f, 3.f, 0.5f, 1.f, 2.f}, {2, 3});
  tt::sum(tt::square(net(x))).backward();
  for (const tt::NamedTensor& p : net.named_parameters()) {
    INFO(p.name);
    REQUIRE(p.tensor.grad().defined());
    CHECK(p.tensor.grad().shape() == p.tensor.shape());
    CHECK(tt::sum(tt::abs(p.tensor.grad())).item() > 0);
  }
  net.zero_grad();
  for (const tt::Tensor& p : net.parameters()) CHECK_FALSE(p.grad().defined());
}

TEST_CASE("state_dict and load_state_dict copy all values to another module") {
  Net a, b;
  a.second.count.fill_(7);
  CHECK(a.first.weight.to_vector() != b.first.weight.to_vector());
  b.load_state_dict(a.state_dict());
  CHECK(a.first.weight.to_vector() == b.first.weight.to_vector());
  CHECK(a.first.bias.to_vector() == b.first.bias.to_vector());
  CHECK(b.second.count.item<int64_t>() == 7);
  CHECK(b.first.weight.storage() != a.first.weight.storage());
  CHECK(b.first.weight.requires_grad());
}

TEST_CASE("load_state_dict lists all differences in one message, and changes nothing") {
  Net net;
  tt::StateDict state = net.state_dict();
  state.erase("first.bias");
  state.erase("second.count");
  state["other"] = tt::zeros({1});
  state["first.weight"] = tt::zeros({3, 2});
  state["second.scale"] = tt::zeros({2});
  CHECK(message_of([&] { net.load_state_dict(state); }) ==
        "TT-NN-04: load_state_dict: the state does not fit this module\n"
        "  missing (2): first.bias, second.count\n"
        "  unexpected (1): other\n"
        "  wrong shape (1): first.weight is f32 [3, 2], expected f32 [2, 3]\n"
        "  hint: build this module with the sizes and options it was saved with");
  CHECK(net.second.scale.to_vector() == std::vector<float>{3, 3});
}

TEST_CASE("to(dtype) converts floating-point tensors, visibly through every handle") {
  Net net;
  const std::vector<double> before = net.first.weight.to_vector<double>();
  net.to(tt::f64);
  CHECK(net.first.weight.dtype() == tt::f64);
  CHECK(net.second.count.dtype() == tt::i64);
  CHECK(net.first.weight.to_vector<double>() == before);
  CHECK(net.parameters()[0].dtype() == tt::f64);
  CHECK(net(tt::ones({1, 3}, tt::f64)).dtype() == tt::f64);
  CHECK(net.first.weight.requires_grad());
  net.to(tt::bf16);
  CHECK(net.first.weight.dtype() == tt::bf16);
  CHECK(message_of([&] { net.to(tt::i32); }).rfind("TT-NN-05", 0) == 0);
}

TEST_CASE("add throws for names that exist, are empty or contain a dot") {
  struct Bad : tt::Module {
    explicit Bad(const std::string& name) {
      add_parameter("weight", tt::ones({1}));
      add_buffer(name, tt::ones({1}));
    }
  };
  for (const char* name : {"weight", "", "a.b"})
    CHECK(message_of([&] { Bad{name}; }).rfind("TT-NN-02", 0) == 0);
  CHECK(message_of([] { Bad{"fine"}; }).empty());
}

TEST_CASE("a moved module keeps its children") {
  Net net;
  const tt::Tensor x = tt::ones({1, net.parameters()[0].size(1)});
  const std::vector<float> expected = net(x).to_vector();
  Net other(std::move(net));
  CHECK(other(x).to_vector() == expected);
  for (const tt::NamedTensor& p : other.named_parameters()) p.tensor.detach().fill_(0);
  CHECK(tt::all(other(x) == 0));  // the listed parameters are those of the layers that compute
  tt::Linear layer(2, 3);
  const std::vector<float> weights = layer.weight.to_vector();
  tt::Linear moved(std::move(layer));
  CHECK(moved.named_parameters().size() == 2);
  CHECK(moved.weight.to_vector() == weights);
}

TEST_CASE("a link to a child follows its moves, and throws after it is destroyed") {
  struct Layers : tt::Module {
    std::vector<tt::Linear> kept;
    explicit Layers(int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        kept.push_back(tt::Linear(2, 2));  // each time the vector grows, all of its elements move
        add("layer" + std::to_string(i), kept.back());
      }
    }
    tt::Tensor forward(const tt::Tensor& x) override {
      tt::Tensor y = x;
      for (tt::Linear& layer : kept) y = layer(y);
      return y;
    }
  };
  Layers layers(20);
  REQUIRE(layers.parameters().size() == 40);
  for (size_t i = 0; i < 20; ++i) CHECK(layers.parameters()[2 * i].impl() == layers.kept[i].weight.impl());
  layers.train(false);
  for (const tt::Linear& layer : layers.kept) CHECK_FALSE(layer.training());
  Layers elsewhere(std::move(layers));
  elsewhere.to(tt::f64);
  CHECK(elsewhere.kept[19].weight.dtype() == tt::f64);
  elsewhere.kept.pop_back();
  CHECK(message_of([&] { elsewhere.parameters(); }).starts_with("TT-NN-03"));
  CHECK(message_of([&] { elsewhere.state_dict(); }).starts_with("TT-NN-03"));
  CHECK(message_of([&] { elsewhere.eval(); }).starts_with("TT-NN-03"));

  tt::Module parent;
  tt::Linear first(2, 2), second(3, 3);
  parent.add("layer", first);
  first = std::move(second);  // the parent's child is another layer now
  CHECK(parent.parameters()[0].shape() == tt::Shape{3, 3});
}

TEST_CASE("calling a module without forward throws") {
  struct Empty : tt::Module {
  } empty;
  CHECK(message_of([&] { empty(tt::ones({1})); }).rfind("TT-NN-01", 0) == 0);
}
