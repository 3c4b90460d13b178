#include <tinytorch/pruning/groups.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/layers/linear.hpp>

using namespace test;

namespace {

struct Mlp : tt::Module {
  tt::Linear up{3, 6}, down{6, 2};
  bool softmax = false;
  Mlp() { add("up", up), add("down", down); }
  tt::Tensor forward(const tt::Tensor& x) override {
    const tt::Tensor h = tt::relu(up(x));
    return down(softmax ? tt::softmax(h, -1) : h);
  }
};

}  // namespace

TEST_CASE("a hidden feature is a row, a bias and a column; inputs and outputs of the model are pinned") {
  Mlp net;
  tt::ChannelGraph graph(net, tt::ones({4, 3}));
  CHECK(graph.unknown().empty());
  int64_t free = 0;
  for (const tt::ChannelGroup& g : graph.groups()) {
    std::set<std::string> names;
    for (const tt::ChannelMember& m : g.members) names.insert(m.name + std::to_string(m.dim));
    if (names.count("up.weight0")) {
      CHECK_FALSE(g.pinned);
      CHECK(names == std::set<std::string>{"up.weight0", "up.bias0", "down.weight1"});
      for (const tt::ChannelMember& m : g.members) CHECK(m.index == g.members.front().index);
      ++free;
    } else {
      CHECK(g.pinned);
    }
  }
  CHECK(free == 6);
}

TEST_CASE("a softmax over features pins them, and its name is told") {
  Mlp net;
  net.softmax = true;
  tt::ChannelGraph graph(net, tt::ones({4, 3}));
  for (const tt::ChannelGroup& g : graph.groups()) CHECK(g.pinned);
  CHECK(graph.unknown() == std::set<std::string>{"softmax"});
}
