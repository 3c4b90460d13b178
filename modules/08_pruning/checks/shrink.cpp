#include <08_pruning/checks/nets.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/pruning/shrink.hpp>

using namespace course;

namespace {

double largest(const Tensor& t) {
  double most = 0;
  for (const double v : numbers(t)) most = std::isnan(v) ? v : std::max(most, std::abs(v));
  return most;
}
// One net is masked and an equal one shrunk: both have the same outputs.
template <class Net>
int64_t check_same(const std::string& what, const Shape& shape, const ShrinkOptions& o) {
  Net masked, small;
  stir(masked), take_values(small, masked), small.eval();
  const NoGrad no_grad;
  const Tensor x = random_tensor(shape);
  const Tensor before = masked(x);
  const ShrinkPlan plan = plan_shrink(masked, x, o);
  expect(what + ": some groups go", plan.groups_removed > 0 && plan.groups_removed < plan.groups);
  mask_channels(masked, plan);
  shrink(small, plan);
  expect(what + ": the shrunk net has fewer numbers", numbers_of(small) < numbers_of(masked));
  const Tensor y = masked(x), z = small(x);
  expect(what + ": something was removed", largest(y - before) > 1e-4);
  const double difference = largest(z - y) / largest(y);
  expect(what + ": the shrunk net's outputs are those of the masked net; the largest difference is " +
             shown(difference),
         difference < 2e-6);
  return numbers_of(small);
}
// in -> 8 hidden features -> 2, whose hidden features have the given sizes.
struct Hidden : Module {
  Linear up{6, 8}, down{8, 2};
  explicit Hidden(const Numbers& size) {
    add("up", up), add("down", down);
    const NoGrad no_grad;
    Numbers first(48), second(16);
    for (size_t c = 0; c < 8; ++c)
      for (size_t k = 0; k < 6; ++k) first[c * 6 + k] = size[c];
    for (size_t i = 0; i < 16; ++i) second[i] = 1;
    up.weight.detach().copy_(of_numbers(first, {8, 6})),
        down.weight.detach().copy_(of_numbers(second, {2, 8}));
  }
  Tensor forward(const Tensor& x) override { return down(relu(up(x))); }
};

}  // namespace

TEST_CASE("8.9 the masked net is the shrunk net: a shortcut, a concatenation, and heads with shared keys") {
  (void)check_same<Residual>("a residual net", {2, 3, 8, 8}, {.sparsity = 0.4, .multiple = 1});
  (void)check_same<Concat>("a net with a concatenation", {2, 3, 8, 8}, {.sparsity = 0.5, .multiple = 1});
  // 2 of 4 groups of heads and 24 of 40 hidden features stay.
  expect_equal("numbers of an attention net",
               check_same<Attention>("an attention net", {2, 6, 16}, {.sparsity = 0.5}),
               int64_t{16 * 16 + 16 + 8 * 16 + 8 * 16 + 8 + 16 * 16 + 16 + 24 * 16 + 24 + 24 * 16 + 16});
}

TEST_CASE("8.9 the groups with the smallest squares go") {
  Hidden net({5, -1, 3, 2, 8, -7, 6, 4});
  const ShrinkPlan plan = plan_shrink(net, ones({3, 6}), {.sparsity = 0.5, .multiple = 1});
  const std::vector<int64_t> want{1, 2, 3, 7};
  expect_equal("groups", plan.groups, int64_t{8});
  expect_equal("groups that go", plan.groups_removed, int64_t{4});
  expect("rows of the first weight: 1, 2, 3 and 7", plan.removed.at("up.weight").at(0) == want);
  expect("its bias", plan.removed.at("up.bias").at(0) == want);
  expect("columns of the second weight", plan.removed.at("down.weight").at(1) == want);
  expect("inputs and outputs stay",
         !plan.removed.at("up.weight").count(1) && !plan.removed.at("down.weight").count(0));
  mask_channels(net, plan);
  const Numbers bias = numbers(net.up.bias), rows = numbers(net.up.weight),
                columns = numbers(net.down.weight);
  for (const int64_t c : want) {
    const auto at = static_cast<size_t>(c);
    expect("everything of feature " + shown(c) + " is 0 in the masked net: row, bias and column",
           rows[at * 6] == 0 && bias[at] == 0 && columns[at] == 0 && columns[8 + at] == 0);
  }
}

TEST_CASE("8.9 a group counts by all of its weights, not by those of one layer") {
  Hidden net({5, 1, 3, 2, 8, 7, 6, 4});
  {
    const NoGrad no_grad;
    Numbers second(16, 1);
    second[1] = 100, second[8 + 3] = -100;  // features 1 and 3 are small, and their readers large
    net.down.weight.detach().copy_(of_numbers(second, {2, 8}));
  }
  const ShrinkPlan plan = plan_shrink(net, ones({3, 6}), {.sparsity = 0.25, .multiple = 1});
  expect("features 2 and 7 go", plan.removed.at("up.weight").at(0) == std::vector<int64_t>{2, 7});
}

TEST_CASE("8.9 what stays is rounded up to a multiple, but heads are not") {
  for (const auto& [sparsity, multiple, stays] :
       std::vector<std::tuple<double, int64_t, int64_t>>{{0.45, 8, 16},
                                                         {0.7, 8, 8},
                                                         {0.6, 8, 16},
                                                         {0.45, 4, 16},
                                                         {0.45, 1, 13},
                                                         {0.1, 16, 24},
                                                         {0.9, 8, 8}}) {
    Residual net;
    stir(net);
    const ShrinkPlan plan =
        plan_shrink(net, random_tensor({1, 3, 8, 8}), {.sparsity = sparsity, .multiple = multiple});
    const auto found = plan.removed.find("a.weight");
    const int64_t gone = found == plan.removed.end() || !found->second.count(0)
                             ? 0
                             : static_cast<int64_t>(found->second.at(0).size());
    expect_equal("of 24 channels at sparsity " + shown(sparsity) + " in multiples of " + shown(multiple),
                 24 - gone, stays);
  }
  Attention net;
  const ShrinkPlan plan = plan_shrink(net, random_tensor({1, 4, 16}), {.sparsity = 0.25});
  expect_equal("rows of k after one of four groups of heads has gone",
               plan.removed.at("k.weight").at(0).size(), size_t{4});
}

TEST_CASE("8.9 families that are not chosen keep their channels") {
  Residual net;
  stir(net);
  const ShrinkPlan plan =
      plan_shrink(net, random_tensor({1, 3, 8, 8}),
                  {.sparsity = 0.25, .multiple = 1, .choose = [](const std::set<std::string>& names) {
                     return names.count("stem.weight") == 0;
                   }});
  expect("the stream stays", plan.removed.count("stem.weight") == 0);
  expect_equal("channels of a that go", plan.removed.at("a.weight").at(0).size(), size_t{6});
}

TEST_CASE("8.9 memory, handles and gradients: a tensor really becomes smaller") {
  Hidden net({5, 1, 3, 2, 8, 7, 6, 4});
  sum(net(ones({3, 6}))).backward();
  const Tensor handle = net.up.weight;
  const std::weak_ptr<Storage> memory = handle.storage();
  const ShrinkPlan plan = plan_shrink(net, ones({3, 6}), {.sparsity = 0.5, .multiple = 1});
  shrink(net, plan);
  expect_equal("the shape in the layer", net.up.weight.shape(), Shape{4, 6});
  expect_equal("the shape of another handle", handle.shape(), Shape{4, 6});
  expect_equal("the shape of the second weight", net.down.weight.shape(), Shape{2, 4});
  expect("both are contiguous", net.up.weight.is_contiguous() && net.down.weight.is_contiguous());
  expect("the old memory is freed", memory.expired());
  expect("the old gradient is gone", !handle.grad().defined() || handle.grad().shape() == handle.shape());
  net.zero_grad();
  sum(net(ones({3, 6}))).backward();
  expect_equal("the new gradient", handle.grad().shape(), Shape{4, 6});
}

TEST_CASE("8.9 the state of the optimizer follows") {
  Attention masked, small;
  take_values(small, masked);
  AdamW a(masked.named_parameters(), {.lr = 0.01}), b(small.named_parameters(), {.lr = 0.01});
  const Tensor x = random_tensor({2, 6, 16});
  const auto train = [&](Module& net, Optimizer& optimizer) {
    optimizer.zero_grad();
    mean(square(net(x) - 1)).backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) train(masked, a), train(small, b);
  const ShrinkPlan plan = plan_shrink(masked, x, {.sparsity = 0.5});
  shrink(small, plan, &b);
  for (const NamedTensor& p : small.named_parameters()) {
    for (const auto& [name, state] : b.state_dict())
      if (name.starts_with(p.name + ".") && state.rank() == p.tensor.rank() && state.numel() > 1)
        expect_equal("the shape of '" + name + "'", state.shape(), p.tensor.shape());
  }
  // An optimizer that only ever saw the channels that stay has the same moments as one that loses the others.
  for (const auto& [name, state] : b.state_dict()) {
    const auto before = a.state_dict().find(name);
    expect("'" + name + "' is there", before != a.state_dict().end());
  }
  train(small, b);
  bool finite = true;
  for (const NamedTensor& p : small.named_parameters()) finite = finite && std::isfinite(largest(p.tensor));
  expect("it trains on", finite);
}

TEST_CASE("8.9 plans that remove everything, or belong to another model, are refused") {
  Hidden net(Numbers(8, 1));
  expect_throws("TT-PRUNE-04", "sparsity 0.99 of 8 channels, without a multiple", [&] {
    (void)plan_shrink(net, ones({3, 6}), {.sparsity = 0.99, .multiple = 1});
  });
  expect_throws("TT-PRUNE-02", "sparsity 1", [&] { (void)plan_shrink(net, ones({3, 6}), {.sparsity = 1}); });
  const ShrinkPlan plan = plan_shrink(net, ones({3, 6}), {.sparsity = 0.5, .multiple = 1});
  Residual other;
  const int64_t before = numbers_of(other);
  expect_throws("TT-PRUNE-03", "the plan of another model", [&] { shrink(other, plan); });
  expect_equal("nothing was removed", numbers_of(other), before);
  shrink(net, plan);
  expect_throws("TT-PRUNE-03", "the same plan twice", [&] { shrink(net, plan); });
}
