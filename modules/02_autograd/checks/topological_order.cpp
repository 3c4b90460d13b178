#include <support/check.hpp>
#include <tinytorch/autograd/engine.hpp>

#include "small_stack.hpp"

using namespace course;

namespace {

using NodePointer = std::shared_ptr<Node>;

// A graph built by hand: each node is computed from earlier ones.
struct Graph {
  std::vector<NodePointer> nodes;
  size_t add(const std::vector<size_t>& made_from) {
    auto node = std::make_shared<Node>();
    node->sequence = nodes.size() + 1;
    for (const size_t k : made_from) node->edges.push_back(Edge{nodes[k], 0, nullptr});
    nodes.push_back(std::move(node));
    return nodes.size() - 1;
  }
  size_t number_of(const Node* node) const {
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].get() == node) return i;
    }
    return nodes.size();
  }
  std::string str() const {
    std::string text;
    for (size_t i = 0; i < nodes.size(); ++i) {
      text += (i ? ", " : "") + std::to_string(i) + " from {";
      for (size_t k = 0; k < nodes[i]->edges.size(); ++k) {
        text += (k ? ", " : "") + std::to_string(number_of(nodes[i]->edges[k].node.get()));
      }
      text += "}";
    }
    return text;
  }
};

void check_order(const std::string& what, const Graph& graph, size_t root) {
  // Marks the nodes that the root depends on.
  std::vector<bool> reachable(graph.nodes.size());
  reachable[root] = true;
  std::map<const Node*, size_t> number;
  for (size_t i = 0; i < graph.nodes.size(); ++i) number[graph.nodes[i].get()] = i;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!reachable[i]) continue;
    for (const Edge& e : graph.nodes[i]->edges) {
      if (e.node) reachable[number.at(e.node.get())] = true;
    }
  }
  const std::vector<NodePointer> order = topological_order(graph.nodes[root]);
  std::string came;
  for (size_t i = 0; i < std::min<size_t>(order.size(), 20); ++i) {
    came += (i ? ", " : "") +
            (order[i] ? std::to_string(number.at(order[i].get())) : std::string("a null pointer"));
  }
  const std::string why = "got " + std::to_string(order.size()) + " nodes: " + came;
  std::map<const Node*, size_t> place;
  for (size_t i = 0; i < order.size(); ++i) {
    expect(what + ": no node comes twice", place.emplace(order[i].get(), i).second, why);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    expect(what + (reachable[i] ? ": node " : ": only nodes that the root depends on; node ") +
               std::to_string(i) + (reachable[i] ? " comes" : " does not come"),
           place.count(graph.nodes[i].get()) == (reachable[i] ? 1 : 0), why);
  }
  for (const auto& node : order) {
    for (const Edge& e : node->edges) {
      if (!e.node) continue;
      expect(what + ": node " + std::to_string(number.at(node.get())) + " comes before node " +
                 std::to_string(number.at(e.node.get())) + ", from which it was computed",
             place.at(node.get()) < place.at(e.node.get()), why);
    }
  }
  expect(what + ": the root comes first", order.front() == graph.nodes[root], why);
}
void check_order(const Graph& graph, size_t root) {
  check_order("topological_order of node " + std::to_string(root) + " in the graph " + graph.str(), graph,
              root);
}

}  // namespace

TEST_CASE("2.4 one node, and a chain") {
  Graph chain;
  chain.add({});
  check_order(chain, 0);
  chain.add({0});
  chain.add({1});
  check_order(chain, 2);
}

TEST_CASE("2.4 a diamond: each node comes once, after all nodes that used it") {
  Graph diamond;
  diamond.add({});
  diamond.add({0});
  diamond.add({0});
  diamond.add({1, 2});
  check_order(diamond, 3);
}

TEST_CASE("2.4 a short path and a long path to the same node") {
  Graph skip;  // a residual connection
  skip.add({});
  skip.add({0});
  skip.add({1});
  skip.add({2, 0});
  check_order(skip, 3);
  Graph other;
  other.add({});
  other.add({0});
  other.add({1});
  other.add({0, 2});
  check_order(other, 3);
  Graph same;
  same.add({});
  same.add({0, 0});
  check_order(same, 1);
}

TEST_CASE("2.4 edges without a node are skipped, and nodes that the root does not depend on do not come") {
  Graph graph;
  graph.add({});
  graph.add({0});
  graph.nodes[1]->edges.push_back(Edge{nullptr, 0, std::make_shared<GradState>()});
  graph.nodes[1]->edges.push_back(Edge{});
  graph.add({0});
  graph.add({1, 2});
  check_order(graph, 1);
  check_order(graph, 2);
}

TEST_CASE("2.4 random graphs") {
  for (int run = 0; run < 30; ++run) {
    Graph graph;
    const auto size = static_cast<size_t>(uniform(2, 9));
    for (size_t i = 0; i < size; ++i) {
      std::vector<size_t> made_from;
      for (int k = 0; i > 0 && k < static_cast<int>(uniform(0, 4)); ++k) {
        made_from.push_back(static_cast<size_t>(uniform(0, static_cast<double>(i))));
      }
      graph.add(made_from);
    }
    check_order(graph, size - 1);
  }
}

TEST_CASE("2.4 many paths to a node: it is visited once, not once per path") {
  Graph ladder;
  ladder.add({});
  for (size_t rung = 0; rung < 18; ++rung) ladder.add({rung, rung});
  check_order("topological_order of 18 nodes in a row, each using the one before twice", ladder, 18);
}

TEST_CASE("2.4 a long chain does not exhaust the stack") {
  Graph chain;
  chain.add({});
  for (size_t i = 0; i < 10'000; ++i) chain.add({i});
  std::vector<NodePointer> order;
  on_small_stack([&] { order = topological_order(chain.nodes.back()); });
  expect_equal("topological_order of a chain of 10,001 nodes: number of nodes", order.size(), size_t{10'001});
  bool newest_first = true;
  for (size_t i = 0; i < order.size(); ++i)
    newest_first = newest_first && order[i] == chain.nodes[order.size() - 1 - i];
  expect("topological_order of a chain of 10,001 nodes: each comes before the one it was computed from",
         newest_first);
}

TEST_CASE("2.4 more than 65,536 nodes") {
  Graph star;  // the root is computed from all others
  std::vector<size_t> leaves(70'000);
  for (size_t& leaf : leaves) leaf = star.add({});
  const size_t root = star.add(leaves);
  const std::vector<NodePointer> order = topological_order(star.nodes[root]);
  expect_equal("topological_order of a node with 70,000 parents: number of nodes", order.size(),
               size_t{70'001});
  expect("topological_order of a node with 70,000 parents: the root comes first",
         order.front() == star.nodes[root]);
}
