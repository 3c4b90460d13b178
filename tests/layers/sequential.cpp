#include <tinytorch/layers/sequential.hpp>

#include <doctest/doctest.h>

#include <tinytorch/layers/linear.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

namespace {
struct Affine : tt::Module {
  double factor, offset;
  Affine(double f, double o) : factor(f), offset(o) {}
  tt::Tensor forward(const tt::Tensor& x) override { return x * factor + offset; }
};
}  // namespace

TEST_CASE("modules are applied in order") {
  tt::Sequential net(Affine(2, 1), Affine(10, 0), Affine(1, -3));
  CHECK(net.size() == 3);
  CHECK(net(tt::from_data({1.f, 2.f})).to_vector() == std::vector<float>{27, 47});
}

TEST_CASE("children are named by position, and a moved or nested Sequential keeps them") {
  tt::Sequential inner(tt::Linear(2, 3), tt::Linear(3, 4, false));
  tt::Sequential net(std::move(inner), tt::Linear(4, 1));
  std::vector<std::string> names;
  for (const tt::NamedTensor& p : net.named_parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"0.0.weight", "0.0.bias", "0.1.weight", "1.weight", "1.bias"});
  tt::Sequential moved(std::move(net));
  CHECK(moved.named_parameters().size() == 5);
  CHECK(moved(tt::ones({7, 2})).shape() == tt::Shape{7, 1});
}

TEST_CASE("append takes a module or a shared_ptr; an empty Sequential is the identity") {
  tt::Sequential net;
  const tt::Tensor x = tt::from_data({1.f, 2.f});
  CHECK(net(x).to_vector() == x.to_vector());
  auto shared = std::make_shared<Affine>(2, 0);
  net.append(shared).append(Affine(1, 1)).append(shared);
  CHECK(net(x).to_vector() == std::vector<float>{6, 10});
  shared->factor = 3;
  CHECK(net(x).to_vector() == std::vector<float>{12, 21});
  CHECK(&net[0] == shared.get());
}
