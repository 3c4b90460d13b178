#include <08_pruning/checks/nets.hpp>
#include <set>
#include <tinytorch/pruning/groups.hpp>

using namespace course;

namespace {

using Place = std::tuple<std::string, int, int64_t>;  // name, dimension, index
using Places = std::set<Place>;

std::string text_of(const Places& places) {
  std::string text;
  for (const auto& [name, dim, index] : places)
    text += " " + name + "[" + shown(dim) + ":" + shown(index) + "]";
  return text;
}
struct Groups {
  std::map<Place, size_t> of;
  std::vector<ChannelGroup> all;
  Groups(Module& net, const Shape& shape) {
    ChannelGraph graph(net, random_tensor(shape));
    all = graph.groups();
    expect("every op of the net has a rule", graph.unknown().empty());
    for (size_t g = 0; g < all.size(); ++g)
      for (const ChannelMember& m : all[g].members)
        expect("a channel is in one group", of.emplace(Place{m.name, m.dim, m.index}, g).second);
  }
  // The group of a channel has exactly these members.
  void check(const std::string& what, const Place& of_this, const Places& want, bool pinned = false) const {
    const auto found = of.find(of_this);
    expect(what + ": it is in a group", found != of.end());
    Places got;
    for (const ChannelMember& m : all[found->second].members) got.insert({m.name, m.dim, m.index});
    expect(what + ": expected" + text_of(want) + "; got" + text_of(got), got == want);
    expect_equal(what + ": whether it must stay", all[found->second].pinned, pinned);
  }
};
void add(Places& to, const std::string& name, int dim, int64_t first, int64_t count = 1) {
  for (int64_t i = first; i < first + count; ++i) to.insert({name, dim, i});
}
void add_norm(Places& to, const std::string& name, int64_t c) {
  for (const char* const part : {".weight", ".bias", ".running_mean", ".running_var"})
    add(to, name + part, 0, c);
}

}  // namespace

TEST_CASE("8.8 a hidden channel: its row, its bias, and the column that reads it") {
  struct Mlp : Module {
    Linear up{6, 10}, down{10, 4};
    Mlp() { add("up", up), add("down", down); }
    Tensor forward(const Tensor& x) override { return down(relu(up(x))); }
  } net;
  const Groups g(net, {3, 6});
  for (int64_t c = 0; c < 10; ++c)
    g.check("hidden channel " + shown(c), {"up.weight", 0, c},
            {{"up.weight", 0, c}, {"up.bias", 0, c}, {"down.weight", 1, c}});
}

TEST_CASE("8.8 inputs and outputs of the model must stay") {
  struct One : Module {
    Linear only{6, 4};
    One() { add("only", only); }
    Tensor forward(const Tensor& x) override { return only(x); }
  } net;
  const Groups g(net, {3, 6});
  for (int64_t c = 0; c < 4; ++c)
    g.check("output " + shown(c), {"only.weight", 0, c}, {{"only.weight", 0, c}, {"only.bias", 0, c}}, true);
  for (int64_t c = 0; c < 6; ++c)
    g.check("input " + shown(c), {"only.weight", 1, c}, {{"only.weight", 1, c}}, true);
}

TEST_CASE("8.8 a convolution's channel has a norm, and readers behind it") {
  Residual net;
  stir(net);
  const Groups g(net, {2, 3, 8, 8});
  for (int64_t c = 0; c < 24; ++c) {
    Places want{{"a.weight", 0, c}, {"a.bias", 0, c}, {"b.weight", 1, c}};
    add_norm(want, "a_norm", c);
    g.check("channel " + shown(c) + " of a", {"a.weight", 0, c}, want);
  }
}

TEST_CASE("8.8 a shortcut: what is added goes together, with all that reads it") {
  Residual net;
  stir(net);
  const Groups g(net, {2, 3, 8, 8});
  for (int64_t c = 0; c < 16; ++c) {
    Places want{{"stem.weight", 0, c}, {"a.weight", 1, c}, {"b.weight", 0, c}, {"b.bias", 0, c}};
    add_norm(want, "stem_norm", c), add_norm(want, "b_norm", c);
    add(want, "head.weight", 1, c * 4, 4);  // a channel has four places when it is flattened
    g.check("channel " + shown(c) + " of the stream", {"stem.weight", 0, c}, want);
  }
}

TEST_CASE("8.8 branches that are joined keep their own channels") {
  Concat net;
  const Groups g(net, {2, 3, 8, 8});
  for (int64_t c = 0; c < 24; ++c) {
    const std::string from = c < 8 ? "left" : "right";
    const int64_t own = c < 8 ? c : c - 8;
    g.check("channel " + shown(c) + " of the joined ones", {"mix.weight", 1, c},
            {{from + ".weight", 0, own}, {from + ".bias", 0, own}, {"mix.weight", 1, c}});
  }
}

TEST_CASE("8.8 a head is one group, with the keys and values that it reads") {
  Attention net;
  const Groups g(net, {2, 6, 16});
  for (int64_t kv = 0; kv < 4; ++kv) {
    Places want;
    add(want, "q.weight", 0, kv * 8, 8), add(want, "q.bias", 0, kv * 8, 8),
        add(want, "k.weight", 0, kv * 4, 4);
    add(want, "v.weight", 0, kv * 4, 4), add(want, "v.bias", 0, kv * 4, 4),
        add(want, "proj.weight", 1, kv * 8, 8);
    g.check("two heads that share keys " + shown(kv), {"k.weight", 0, kv * 4}, want);
  }
  for (int64_t c = 0; c < 40; ++c)
    g.check("hidden feature " + shown(c), {"up.weight", 0, c},
            {{"up.weight", 0, c}, {"up.bias", 0, c}, {"down.weight", 1, c}});
}

TEST_CASE("8.8 what is added to an input or an output stays with it") {
  Attention net;
  const Groups g(net, {2, 6, 16});
  for (int64_t c = 0; c < 16; ++c) {
    for (const char* const name : {"proj.weight", "down.weight"})
      expect(std::string(name) + " row " + shown(c) + " must stay", g.all[g.of.at({name, 0, c})].pinned);
    for (const char* const name : {"q.weight", "k.weight", "v.weight", "up.weight"})
      expect(std::string(name) + " column " + shown(c) + " must stay", g.all[g.of.at({name, 1, c})].pinned);
  }
}

TEST_CASE("8.8 what is united with a channel that must stay, must stay") {
  struct Sum : Module {
    Linear first{6, 10}, second{6, 10}, down{10, 4};
    Sum() { add("first", first), add("second", second), add("down", down); }
    Tensor forward(const Tensor& x) override {
      const Tensor a = first(x), b = second(x), shares = softmax(b, -1);  // which needs all channels of b
      return cat({down(a + b), shares}, -1);
    }
  } net;
  ChannelGraph graph(net, random_tensor({3, 6}));
  for (const ChannelGroup& g : graph.groups())
    expect("'" + g.members[0].name + "' and what is united with it", g.pinned);
}

TEST_CASE("8.8 a softmax over channels needs all of them") {
  struct Gate : Module {
    Linear gate{6, 10}, down{10, 4};
    Gate() { add("gate", gate), add("down", down); }
    Tensor forward(const Tensor& x) override { return down(softmax(gate(x), -1)); }
  } net;
  ChannelGraph graph(net, random_tensor({3, 6}));
  const std::vector<ChannelGroup> groups = graph.groups();
  for (const ChannelGroup& g : groups) expect("every channel must stay", g.pinned);
  expect("the op without a rule is named", !graph.unknown().empty());
}
