#include <06_acceleration/checks/made_graph.hpp>
#include <tinytorch/acceleration/step_groups.hpp>

using namespace course;

namespace {

int below(int64_t n) { return static_cast<int>(random_source()() % static_cast<uint64_t>(n)); }

// The groups by their definition: `group` is a number that all steps of a group share.
struct Partition {
  const MadeGraph& g;
  std::vector<int> group, end;  // of each step

  explicit Partition(const MadeGraph& made) : g(made) {
    for (int s = 0; s < g.steps(); ++s) group.push_back(s), end.push_back(s);
  }
  const GraphStep& step(int s) const { return g.graph.steps[static_cast<size_t>(s)]; }
  int& of(std::vector<int>& list, int s) { return list[static_cast<size_t>(s)]; }
  int of(const std::vector<int>& list, int s) const { return list[static_cast<size_t>(s)]; }
  bool computed(int v) const {
    const GraphValue& x = g.graph.values[static_cast<size_t>(v)];
    return x.kind == ValueKind::computed && x.step >= 0;
  }
  int maker(int v) const { return g.graph.values[static_cast<size_t>(v)].step; }
  bool reads(int s, int owner) const {
    return !step(s).is_view() &&
           std::ranges::any_of(step(s).inputs, [&](int v) { return v >= 0 && g.owner(v) == owner; });
  }
  bool read_through_view(int owner) const {
    for (int s = 0; s < g.steps(); ++s)
      for (const int v : step(s).inputs)
        if (v >= 0 && !step(s).is_view() && v != owner && g.owner(v) == owner) return true;
    return false;
  }
  bool is_result(int owner) const {
    return std::ranges::any_of(g.graph.outputs, [&](int v) { return g.owner(v) == owner; });
  }
  int size(int s) const { return static_cast<int>(std::ranges::count(group, of(group, s))); }
  bool leaves(int v) const {
    if (is_result(v)) return true;
    for (int s = 0; s < g.steps(); ++s)
      if (reads(s, v) && of(group, s) != of(group, maker(v))) return true;
    return false;
  }
  // True if each group can run at its end: what it reads was made before.
  bool can_run() const {
    for (int s = 0; s < g.steps(); ++s) {
      for (size_t v = 0; v < g.graph.values.size(); ++v) {
        const int value = static_cast<int>(v);
        if (!computed(value) || !reads(s, value)) continue;
        const int p = maker(value);
        const bool together = of(group, p) == of(group, s);
        if (together ? read_through_view(value) : of(end, p) >= of(end, s)) return false;
      }
    }
    return true;
  }
  int64_t peak() const {
    std::vector<int64_t> live(static_cast<size_t>(g.steps()), 0);
    for (size_t v = 0; v < g.graph.values.size(); ++v) {
      const int value = static_cast<int>(v);
      if (!computed(value) || (size(maker(value)) > 1 && !leaves(value))) continue;
      const int first = of(end, maker(value));
      int last = first;
      for (int s = 0; s < g.steps(); ++s)
        if (reads(s, value)) last = std::max(last, of(end, s));
      if (is_result(value)) last = g.steps() - 1;
      int64_t bytes = static_cast<int64_t>(size_of(g.graph.values[v].dtype));
      for (int d = 0; d < g.graph.values[v].shape.size(); ++d) bytes *= g.graph.values[v].shape[d];
      for (int t = first; t <= last; ++t) live[static_cast<size_t>(t)] += bytes;
    }
    return live.empty() ? 0 : *std::ranges::max_element(live);
  }
  bool wide(int s) const {
    const auto is_f64 = [&](int v) { return v >= 0 && g.graph.values[static_cast<size_t>(v)].dtype == f64; };
    return std::ranges::any_of(step(s).inputs, is_f64) || is_f64(step(s).outputs[0]);
  }
  // Merges if that is allowed.
  bool merge(int producer, int consumer, int64_t budget, int max_steps, const StepGroups& given) {
    const auto shape = [&](int s) { return g.graph.values[static_cast<size_t>(step(s).outputs[0])].shape; };
    if (of(group, producer) == of(group, consumer)) return true;
    if (!given.pointwise(producer) || !given.pointwise(consumer) || !(shape(producer) == shape(consumer)) ||
        wide(producer) != wide(consumer) || size(producer) + size(consumer) > max_steps)
      return false;
    const auto group_before = group, end_before = end;
    const int64_t peak_before = peak();
    const int from = of(group, producer), to = of(group, consumer);
    for (int s = 0; s < g.steps(); ++s) {
      if (of(group, s) == from) of(group, s) = to;
      if (of(group, s) == to) of(end, s) = consumer;
    }
    if (can_run() && peak() <= std::max(budget, peak_before)) return true;
    group = group_before, end = end_before;
    return false;
  }
};

std::string shown(const StepGroups& groups, const MadeGraph& g) {
  std::string text = g.text();
  for (int s = 0; s < g.steps(); ++s)
    text += "\n  group of step " + std::to_string(s) + ": " + std::to_string(groups.group(s)) +
            ", which ends at step " + std::to_string(groups.end(groups.group(s)));
  return text;
}

void check_same(const std::string& what, const StepGroups& got, const Partition& want) {
  const MadeGraph& g = want.g;
  const auto require = [&](bool holds, int number, const char* text) {
    expect_or(holds, [&] { return what + ": " + std::to_string(number) + text + shown(got, g); });
  };
  for (int s = 0; s < g.steps(); ++s) {
    std::vector<int> members = got.members(got.group(s)), all;
    std::ranges::sort(members);
    for (int t = 0; t < g.steps(); ++t) {
      const bool together = want.of(want.group, t) == want.of(want.group, s);
      if (together) all.push_back(t);
      require((got.group(s) == got.group(t)) == together, s, " is the step whose group has other steps");
    }
    require(got.end(got.group(s)) == want.of(want.end, s), s, " is the step whose group ends elsewhere");
    require(members == all, s, " is the step whose group must have each of its steps once as a member");
  }
  for (size_t v = 0; v < g.graph.values.size(); ++v) {
    const int value = static_cast<int>(v);
    if (!want.computed(value)) continue;
    const bool leaves = want.leaves(value);
    require(got.leaves_group(value) == leaves, value,
            leaves ? " is a value that leaves its group" : " is a value that does not leave its group");
  }
  const int64_t peak = got.peak(), right = want.peak();
  expect_or(peak == right, [&] {
    return what + ": the peak is " + std::to_string(right) + ", not " + std::to_string(peak) + shown(got, g);
  });
}

// Tries to merge each step with the makers of its operands, and compares with the definition each time.
// `shuffled`: in random order, where the order of the steps allows it. Returns the number of merges.
int check_graph(const std::string& what, const MadeGraph& g, int64_t budget = 0, int max_steps = 64,
                bool shuffled = false) {
  StepGroups groups(g.graph, budget, max_steps);
  Partition want(g);
  check_same(what + ", before any merge", groups, want);
  const int64_t limit = budget > 0 ? budget : want.peak();
  std::vector<std::pair<int, int>> pairs;
  for (int s = 0; s < g.steps(); ++s) {
    if (want.step(s).is_view()) continue;
    for (const int v : want.step(s).inputs)
      if (v >= 0 && want.computed(v)) pairs.emplace_back(want.maker(v), s);
  }
  if (shuffled) std::ranges::shuffle(pairs, random_source());
  int merges = 0;
  for (const auto& [p, s] : pairs) {
    if (want.of(want.end, p) > s || want.of(want.end, s) > s) continue;  // a member would be behind the end
    const bool one = want.of(want.group, p) == want.of(want.group, s);
    const std::string call = what + ": merge(" + std::to_string(p) + ", " + std::to_string(s) + ")";
    const std::string said = groups.merge(p, s);
    const bool may = want.merge(p, s, limit, max_steps, groups);
    expect_or(said.empty() == may, [&] {
      return call + (may ? " is possible, but was refused: " + said : " must be refused, but was done") +
             shown(groups, g);
    });
    check_same(call + (may ? ", done" : ", refused"), groups, want);
    merges += may && !one ? 1 : 0;
  }
  return merges;
}

MadeGraph random_graph(int steps) {
  MadeGraph g;
  const Shape shapes[] = {{64}, {64}, {64}, {8}, {300}};
  const DType dtype = below(8) == 0 ? f64 : below(4) == 0 ? bf16 : f32;
  const auto any = [&] {  // recent values are more likely
    const auto count = static_cast<int64_t>(g.graph.values.size());
    return std::max(below(count), below(count));
  };
  g.input({64}, dtype), g.input({300}, dtype), g.external({8});
  for (int s = 0; s < steps; ++s) {
    const int kind = below(10);
    if (kind == 0) {
      g.view(any(), {8});
    } else if (kind < 3) {
      g.compute({any(), below(4) == 0 ? -1 : any()}, shapes[below(5)], dtype);
    } else {
      std::vector<int> operands = {any()};
      for (int k = below(3); k > 0; --k) operands.push_back(any());
      g.elementwise(operands, shapes[below(5)], below(20) == 0 ? bf16 : dtype);
    }
  }
  for (int k = 1 + below(2); k > 0; --k) g.graph.outputs.push_back(any());
  return g;
}

}  // namespace

TEST_CASE("6.14 a chain becomes one group, and its values stay in it") {
  MadeGraph g;
  const int x = g.input({100});
  int v = x;
  for (int k = 0; k < 5; ++k) v = g.elementwise({v, x}, {100});
  g.graph.outputs = {v};
  expect_equal("merges of five steps", check_graph("a chain", g), 4);
}

TEST_CASE("6.14 a value that others read, or that is a result, leaves its group") {
  MadeGraph g;
  const int x = g.input({100});
  const int a = g.elementwise({x}, {100}), b = g.elementwise({a}, {100}), c = g.elementwise({b}, {100});
  const int part = g.view(a, {10});
  g.compute({b}, Shape{100});
  g.graph.outputs = {c, part};
  expect_equal("merges", check_graph("readers outside, and a result through a view", g), 2);
}

TEST_CASE("6.14 no cycle through a step outside, and no result that comes too late") {
  MadeGraph direct;
  {
    const int a = direct.elementwise({direct.input({100})}, {100});
    const int between = direct.compute({a}, Shape{100});
    direct.graph.outputs = {direct.elementwise({a, between}, {100})};
  }
  expect_equal("merges around a step between", check_graph("a -> kernel -> c, a -> c", direct), 0);
  MadeGraph longer;
  {
    const int x = longer.input({100});
    const int a = longer.elementwise({x}, {100}), b = longer.elementwise({a}, {100});
    const int k = longer.compute({a}, Shape{100}), l = longer.compute({k}, Shape{100});
    const int c = longer.elementwise({b, x}, {100});
    longer.graph.outputs = {longer.elementwise({l, c}, {100})};
  }
  check_graph("a group around two kernels", longer);
  MadeGraph aside;  // the reader outside does not lead back, but runs before the group's end
  {
    const int a = aside.elementwise({aside.input({100})}, {100});
    aside.graph.outputs = {aside.compute({a}, Shape{1})};
    aside.graph.outputs.push_back(aside.elementwise({a}, {100}));
  }
  expect_equal("merges beside an earlier reader", check_graph("a -> kernel, a -> c", aside), 0);
}

TEST_CASE("6.14 an earlier reader whose group runs later is no obstacle") {
  MadeGraph g;
  const int a = g.elementwise({g.input({100})}, {100}), b = g.elementwise({a}, {100});
  const int c = g.elementwise({a}, {100}), d = g.elementwise({b}, {100});
  g.graph.outputs = {c, d};
  StepGroups groups(g.graph, int64_t{1} << 40, 64);
  expect_equal("steps 1 and 3 are merged", groups.merge(1, 3), std::string());
  expect_equal("steps 0 and 2 are merged: step 1 runs after them", groups.merge(0, 2), std::string());
  expect("a leaves its group", groups.leaves_group(a));
  expect("steps 2 and 3 stay apart", groups.group(2) != groups.group(3));
}

TEST_CASE("6.14 a result that is read through a view is in memory first") {
  MadeGraph g;
  const int a = g.elementwise({g.input({100})}, {100});
  const int turned = g.view(a, {100});
  g.graph.outputs = {g.elementwise({a, turned}, {100})};
  expect_equal("merges", check_graph("a + (a view of a)", g), 0);
}

TEST_CASE("6.14 two groups become one, and each step is in one group") {
  MadeGraph g;
  const int x = g.input({100}), y = g.input({100});
  const int a = g.elementwise({g.elementwise({x}, {100})}, {100});
  const int b = g.elementwise({g.elementwise({y}, {100})}, {100});
  g.graph.outputs = {g.elementwise({a, b, a}, {100})};
  expect_equal("merges of two chains and their sum", check_graph("two chains", g), 4);
  expect_equal("merges with at most 3 steps", check_graph("two chains, 3 steps", g, 0, 3), 3);
  expect_equal("merges with at most 2 steps", check_graph("two chains, 2 steps", g, 0, 2), 2);
}

TEST_CASE("6.14 other shapes and types, and steps that are not elementwise") {
  MadeGraph g;
  const int x = g.input({100});
  const int a = g.elementwise({x}, {100}), b = g.elementwise({a}, {50}), c = g.elementwise({b}, {50}, bf16);
  const int k = g.compute({c}, Shape{50});
  const int wide = g.input({50}, f64);
  const int d = g.elementwise({wide}, {50}, f64);
  g.graph.outputs = {g.elementwise({k}, {50}), g.elementwise({d}, {50}, f64), g.elementwise({c, d}, {50})};
  expect_equal("merges: b with c, and d with its reader", check_graph("other shapes and types", g), 2);
}

TEST_CASE("6.14 the budget decides: a merge keeps operands alive for longer") {
  MadeGraph
      g;  // `late` is small, but reads two large values; merged with the last step, they live across `big`
  const int x = g.input({10});
  const int wide = g.compute({x}, Shape{1000}), wide2 = g.compute({x}, Shape{1000});
  const int late = g.elementwise({wide, wide2}, {10});
  const int big = g.compute({x}, Shape{1500});
  const int last = g.elementwise({late, g.compute({big}, Shape{10})}, {10});
  g.graph.outputs = {last};
  expect_equal("merges with the budget of the graph itself", check_graph("no budget", g), 0);
  expect_equal("merges with 14040 bytes", check_graph("14040 bytes", g, 14'040), 1);
  expect_equal("merges with 14039 bytes", check_graph("14039 bytes", g, 14'039), 0);
  MadeGraph chain;
  int v = chain.elementwise({chain.input({100})}, {100});
  for (int k = 0; k < 3; ++k) v = chain.elementwise({v}, {100});
  chain.graph.outputs = {v};
  expect_equal("merges that lower the peak, with a budget of 1 byte", check_graph("1 byte", chain, 1), 3);
}

TEST_CASE("6.14 a peak that has fallen does not rise again above the budget") {
  MadeGraph g;
  const int x = g.input({10});
  const int a = g.elementwise({g.elementwise({x}, {2500})}, {2500});  // 20000 bytes, or 10000 in one group
  const int small = g.compute({a}, Shape{10});
  const int wide = g.compute({x}, Shape{1000}), wide2 = g.compute({x}, Shape{1000});
  const int late = g.elementwise({wide, wide2}, {10});
  const int big = g.compute({x}, Shape{1500});
  g.graph.outputs = {g.elementwise({late, g.compute({big, small}, Shape{10})}, {10})};
  expect_equal("merges with a budget of 9000 bytes", check_graph("9000 bytes", g, 9000), 1);
  expect_equal("merges with a budget of 15000 bytes", check_graph("15000 bytes", g, 15'000), 2);
}

TEST_CASE("6.14 values of gigabytes") {
  MadeGraph g;
  const Shape large{int64_t{1} << 20, int64_t{1} << 12};
  const int a = g.elementwise({g.input(large)}, large);
  g.graph.outputs = {g.elementwise({a, g.compute({a}, large)}, large)};
  check_graph("16 GiB", g);
}

TEST_CASE("6.14 random graphs and budgets, by the definition") {
  int merges = 0;
  for (int round = 0; round < 60; ++round) {
    const MadeGraph g = random_graph(2 + below(14));
    const int64_t budgets[] = {0, 0, 1, 500 + below(3000), int64_t{1} << 40};
    merges += check_graph("random graph " + std::to_string(round), g, budgets[below(5)], 2 + below(20),
                          round % 2 == 1);
  }
  expect("there are merges", merges > 50);
}
