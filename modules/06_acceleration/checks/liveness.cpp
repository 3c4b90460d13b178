#include <06_acceleration/checks/made_graph.hpp>
#include <tinytorch/acceleration/liveness.hpp>

using namespace course;

namespace {

using Bytes = std::vector<int64_t>;

// True if step s reads memory of value `owner`.
bool reads(const MadeGraph& g, int s, int owner) {
  const GraphStep& step = g.graph.steps[static_cast<size_t>(s)];
  if (step.op->is_view()) return false;
  return std::ranges::any_of(step.inputs, [&](int v) { return v >= 0 && g.owner(v) == owner; });
}
bool is_result(const MadeGraph& g, int owner) {
  return std::ranges::any_of(g.graph.outputs, [&](int v) { return g.owner(v) == owner; });
}
// Finds the last use of a value by its definition, from every step.
int last_use(const MadeGraph& g, int v) {
  const int owner = g.owner(v);
  int last = -1;
  for (int s = 0; s < g.steps(); ++s) last = reads(g, s, owner) ? s : last;
  return is_result(g, owner) ? g.steps() : last;
}
bool needs_memory(const GraphValue& v) { return v.kind == ValueKind::computed && v.step >= 0; }
bool is_live(const MadeGraph& g, int v, int s) {
  const int made = g.graph.values[static_cast<size_t>(v)].step;
  return s == made || (s > made && s <= last_use(g, v));
}

void check_graph(const std::string& what, const MadeGraph& g) {
  const std::vector<int> last = last_uses(g.graph);
  expect_equal(what + ": last_uses has an entry for each value", last.size(), g.graph.values.size());
  const std::string graph = " in" + g.text();
  for (size_t v = 0; v < last.size(); ++v)
    expect_equal(what + ": the last use of value " + std::to_string(v) + graph, last[v],
                 last_use(g, static_cast<int>(v)));
  const Liveness live = liveness(g.graph);
  expect_equal(what + ": steps", live.steps, g.steps());
  std::vector<int> values;
  for (size_t v = 0; v < g.graph.values.size(); ++v)
    if (needs_memory(g.graph.values[v])) values.push_back(static_cast<int>(v));
  expect_equal(what + ": the number of values that need memory" + graph, live.values.size(), values.size());
  expect(what + ": the values that need memory are the computed ones that a step makes" + graph,
         live.values == values);
  expect_equal(what + ": one block for each of them", live.intervals.size(), values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    const GraphValue& v = g.graph.values[static_cast<size_t>(values[k])];
    const std::string name = "of value " + std::to_string(values[k]) + graph;
    auto bytes = static_cast<int64_t>(size_of(v.dtype));
    for (int d = 0; d < v.shape.size(); ++d) bytes *= v.shape[d];
    expect_equal(what + ": the bytes " + name, live.intervals[k].bytes, bytes);
    int first = g.steps(), end = -1;
    for (int s = 0; s < g.steps(); ++s)
      if (is_live(g, values[k], s)) first = std::min(first, s), end = s;
    expect_equal(what + ": the first step " + name, live.intervals[k].first, first);
    expect_equal(what + ": the last step " + name, live.intervals[k].last, end);
  }
}

MadeGraph random_graph(int steps) {
  MadeGraph g;
  const auto below = [](int64_t n) { return static_cast<int>(random_source()() % static_cast<uint64_t>(n)); };
  const auto any = [&] { return below(static_cast<int64_t>(g.graph.values.size())); };
  g.input({3, 4}), g.input({5}), g.external({7});
  for (int s = 0; s < steps; ++s) {
    if (below(3) == 0) {
      g.view(any(), {1 + below(4)});
      continue;
    }
    std::vector<int> operands;
    for (int k = below(4); k > 0; --k) operands.push_back(below(6) == 0 ? -1 : any());
    std::vector<Shape> shapes;
    for (int k = 1 + below(2); k > 0; --k) shapes.push_back({1 + below(9), below(6)});
    g.compute(operands, shapes, below(2) ? f32 : below(2) ? bf16 : f64);
  }
  for (int k = below(4); k > 0; --k) g.graph.outputs.push_back(any());
  return g;
}

}  // namespace

TEST_CASE("6.12 a timeline: a block counts from its first to its last step") {
  const std::vector<LiveBlock> blocks = {{10, 0, 2}, {5, 2, 3}, {1, 1, 1}, {0, 0, 4}};
  expect("blocks of 10, 5 and 1 bytes in steps 0-2, 2-3 and 1",
         timeline(blocks, 5) == Bytes{10, 11, 15, 5, 0});
  expect("a block of all steps, and one of the last",
         timeline(std::vector<LiveBlock>{{3, 0, 1}, {4, 1, 1}}, 2) == Bytes{3, 7});
  expect("no blocks", timeline({}, 3) == Bytes{0, 0, 0});
  expect("no steps", timeline({}, 0).empty());
  const int64_t big = int64_t{3} << 32;
  expect("blocks of gigabytes",
         timeline(std::vector<LiveBlock>{{big, 0, 0}, {big, 0, 0}}, 1) == Bytes{2 * big});
}

TEST_CASE("6.12 a timeline takes time for each block once, not for each of its steps") {
  constexpr int kSteps = 200'000;
  std::vector<LiveBlock> blocks(kSteps);
  for (int k = 0; k < kSteps; ++k) blocks[static_cast<size_t>(k)] = {1, k / 2, kSteps - 1};
  const Bytes bytes = timeline(blocks, kSteps);
  expect_equal("bytes in the last step", bytes.back(), int64_t{kSteps});
  expect_equal("bytes in the first step", bytes.front(), int64_t{2});
}

TEST_CASE("6.12 a value lives to its last reader, also one that reads a view of it") {
  MadeGraph g;
  const int x = g.input({100});
  const int a = g.compute({x}, Shape{100});    // step 0
  const int view = g.view(a, {10, 10});        // step 1
  const int part = g.view(view, {10});         // step 2: a view of a view
  const int b = g.compute({a}, Shape{100});    // step 3
  const int c = g.compute({part}, Shape{10});  // step 4: the last reader of a
  const int late = g.view(b, {50});            // step 5: nobody reads it
  g.graph.outputs = {c};
  const std::vector<int> last = last_uses(g.graph);
  expect_equal("a is read last by the step that reads a view of a view of it", last[static_cast<size_t>(a)],
               4);
  expect_equal("a view has the entry of its root", last[static_cast<size_t>(view)], 4);
  expect_equal("the argument", last[static_cast<size_t>(x)], 0);
  expect_equal("nothing reads b: making a view reads no element", last[static_cast<size_t>(late)], -1);
  expect_equal("a result outlives the graph", last[static_cast<size_t>(c)], 6);
  expect("live bytes of each step", liveness(g.graph).timeline() == Bytes{400, 400, 400, 800, 440, 40});
  check_graph("by hand", g);
}

TEST_CASE("6.12 results live to the end, also if a view or nobody names them") {
  MadeGraph g;
  const int x = g.input({8}), w = g.external({8});
  const std::vector<int> two = g.compute({x, -1, w}, std::vector<Shape>{{8}, {2, 8}});
  const int unread = g.compute({two[0]}, Shape{1000});
  const int part = g.view(two[1], {8});
  g.compute({unread, unread}, Shape{16});
  g.graph.outputs = {part, x, w};
  check_graph("a view, an argument and an external as results", g);
  g.graph.outputs.clear();
  check_graph("no results", g);
  check_graph("no steps", MadeGraph{});
}

TEST_CASE("6.12 arguments, externals, views and values without a step need no memory") {
  MadeGraph g;
  const int x = g.input({1000}), w = g.external({1000});
  const int a = g.compute({x, w}, Shape{10}), b = g.compute({a}, Shape{20});
  const int part = g.add(ValueKind::view, {5}, f32, b);  // a view that no step made
  g.compute({part}, Shape{30});
  g.graph.values[static_cast<size_t>(a)].step = -1;  // its step was merged into the next one
  g.graph.steps[1].inputs = {x};
  expect_equal("values with memory", liveness(g.graph).values.size(), size_t{2});
  check_graph("a value without a step", g);
}

TEST_CASE("6.12 values of gigabytes") {
  MadeGraph g;
  const int x = g.input({1});
  const int a = g.compute({x}, Shape{int64_t{1} << 20, int64_t{1} << 13});
  g.graph.outputs = {g.compute({a}, Shape{int64_t{1} << 33}, f64)};
  check_graph("32 and 64 GiB", g);
  expect_equal("the peak", liveness(g.graph).peak(), (int64_t{32} + 64) << 30);
}

TEST_CASE("6.12 random graphs, by the definition") {
  for (int round = 0; round < 60; ++round)
    check_graph("random graph " + std::to_string(round), random_graph(1 + round % 25));
}
