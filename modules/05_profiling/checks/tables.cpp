#include <support/check.hpp>
#include <tinytorch/profiling/profile.hpp>

using namespace course;
using namespace profiling;

namespace {

struct Op {
  const char* name;
  int scope;
  bool backward;
  double seconds, inner;
  int parent;
  Cost cost;
};
// The times of the host differ from those of the device, as on a GPU.
Profile profile_of(const std::vector<Op>& ops, double seconds = 100) {
  Profile p;
  for (const char* path :
       {"", "model", "blocks.0.attention.qkv", "blocks.0.mlp", "blocks.1.attention", "head"})
    p.scopes.push_back({path, path[0] ? 0 : -1, 0, seconds});
  for (const Op& o : ops) {
    OpRecord r;
    r.name = o.name;
    r.scope = o.scope;
    r.backward = o.backward;
    r.parent = o.parent;
    r.device_seconds = o.seconds, r.inner_device_seconds = o.inner;
    r.seconds = 7 * o.seconds, r.inner_seconds = 3 * o.inner;
    r.cost = o.cost;
    p.ops.push_back(r);
  }
  p.seconds = seconds;
  return p;
}
// A line for each row, such as "mul: 2 calls, 3 s, 10 FLOPs, 4 bytes".
std::vector<std::string> rows_of(const ProfileTable& table) {
  std::vector<std::string> rows;
  for (const ProfileRow& r : table) {
    rows.push_back(r.name + (r.backward ? " backward" : "") + ": " + shown(r.calls) + " calls, " +
                   shown(r.seconds) + " s, " + shown(r.cost.flops) + " FLOPs, " + shown(r.cost.bytes) +
                   " bytes");
  }
  return rows;
}
void expect_rows(const std::string& what, const ProfileTable& table, const std::vector<std::string>& want) {
  std::vector<std::string> got = rows_of(table), sorted = got, wanted = want;
  std::sort(sorted.begin(), sorted.end());
  std::sort(wanted.begin(), wanted.end());
  const auto lines = [](const std::vector<std::string>& rows) {
    std::string text;
    for (const std::string& row : rows) text += "\n    " + row;
    return text;
  };
  expect(what + "\n  expected" + lines(want) + "\n  got" + lines(got), got == want,
         sorted == wanted
             ? "the rows are right, but not their order: longest first, then by name, then forward first"
             : "");
}

}  // namespace

TEST_CASE("5.3 the own time of an op is its time less the time of the ops that it called") {
  const auto own = [](double seconds, double inner) {
    return profile_of({{"a", 0, false, seconds, inner, -1, {}}}).ops[0].self_seconds();
  };
  expect_close("self_seconds of an op of 5 s on the device that called ops of 3 s", {own(5, 3)}, {2}, {},
               {.dtype = f64});
  expect_close("self_seconds of an op of 5 s that called no op", {own(5, 0)}, {5}, {}, {.dtype = f64});
  expect_close("self_seconds if the clock is imprecise: an op of 5 s that called ops of 5.5 s", {own(5, 5.5)},
               {0}, {}, {.dtype = f64});
}

TEST_CASE("5.3 all time and all work count once") {
  const Profile p = profile_of({{"outer", 0, false, 10, 7, -1, {100, 50}},
                                {"middle", 0, false, 7, 4, 0, {80, 40}},
                                {"inner", 0, false, 4, 0, 1, {30, 20}},
                                {"other", 0, true, 6, 0, -1, {9, 8}}});
  expect_close("op_seconds of ops of 10 s (which calls 7 s, which calls 4 s) and 6 s", {p.op_seconds()}, {16},
               {}, {.dtype = f64});
  expect_close("cost().flops of ops of 100 (which calls 80, which calls 30) and 9", {p.cost().flops}, {109},
               {}, {.dtype = f64});
  expect_close("cost().bytes of ops of 50 (which calls 40, which calls 20) and 8", {p.cost().bytes}, {58}, {},
               {.dtype = f64});
  expect_close("op_seconds of an empty profile", {profile_of({}).op_seconds()}, {0}, {}, {.dtype = f64});
}

TEST_CASE("5.3 one row per name, forward and backward separate") {
  const Profile p = profile_of({{"mul", 0, false, 1, 0, -1, {1, 2}},
                                {"add", 0, false, 8, 0, -1, {10, 20}},
                                {"mul", 0, true, 2, 0, -1, {100, 200}},
                                {"mul", 0, false, 4, 0, -1, {1000, 2000}}});
  expect_rows("by_op of mul, add, mul backward, mul", by_op(p),
              {"add: 1 calls, 8 s, 10 FLOPs, 20 bytes", "mul: 2 calls, 5 s, 1001 FLOPs, 2002 bytes",
               "mul backward: 1 calls, 2 s, 100 FLOPs, 200 bytes"});
  expect_rows("by_op of an empty profile", by_op(profile_of({})), {});
}

TEST_CASE("5.3 a row has the own time of its ops; the work of an inner op counts for its caller") {
  const Profile p = profile_of({{"layer", 0, false, 10, 9, -1, {100, 50}},
                                {"matmul", 0, false, 9, 0, 0, {80, 40}},
                                {"matmul", 0, false, 2, 0, -1, {20, 10}}});
  expect_rows("by_op of a layer of 10 s that calls a matmul of 9 s, and another matmul", by_op(p),
              {"matmul: 2 calls, 11 s, 20 FLOPs, 10 bytes", "layer: 1 calls, 1 s, 100 FLOPs, 50 bytes"});
}

TEST_CASE("5.3 rows are sorted by time, then by name, then forward first") {
  const Profile p = profile_of({{"c", 0, true, 1, 0, -1, {}},
                                {"b", 0, false, 1, 0, -1, {}},
                                {"c", 0, false, 1, 0, -1, {}},
                                {"a", 0, false, 3, 0, -1, {}},
                                {"d", 0, false, 2, 0, -1, {}}});
  expect_rows("by_op of five rows", by_op(p),
              {"a: 1 calls, 3 s, 0 FLOPs, 0 bytes", "d: 1 calls, 2 s, 0 FLOPs, 0 bytes",
               "b: 1 calls, 1 s, 0 FLOPs, 0 bytes", "c: 1 calls, 1 s, 0 FLOPs, 0 bytes",
               "c backward: 1 calls, 1 s, 0 FLOPs, 0 bytes"});
}

TEST_CASE("5.3 by module, down to a depth") {
  const Profile p = profile_of({{"a", 0, false, 1, 0, -1, {}},
                                {"a", 1, false, 2, 0, -1, {}},
                                {"a", 2, false, 4, 0, -1, {}},
                                {"b", 3, false, 8, 0, -1, {}},
                                {"b", 4, false, 16, 0, -1, {}},
                                {"b", 5, true, 32, 0, -1, {}}});
  const auto names = [&](int depth) {
    std::vector<std::string> text;
    for (const ProfileRow& r : by_module(p, depth)) text.push_back(r.name + " " + shown(r.seconds));
    return text;
  };
  using Names = std::vector<std::string>;
  expect_equal("by_module to depth 1", names(1), Names{"head 32", "blocks 28", "model 2", " 1"});
  expect_equal("by_module to depth 2", names(2),
               Names{"head 32", "blocks.1 16", "blocks.0 12", "model 2", " 1"});
  expect_equal(
      "by_module to depth 3", names(3),
      Names{"head 32", "blocks.1.attention 16", "blocks.0.mlp 8", "blocks.0.attention 4", "model 2", " 1"});
  std::vector<std::string> whole;
  for (const ProfileRow& r : by_module(p)) whole.push_back(r.name);
  expect_equal("by_module without a depth, which gives whole paths", whole,
               Names{"head", "blocks.1.attention", "blocks.0.mlp", "blocks.0.attention.qkv", "model", ""});
}

TEST_CASE("5.3 whatever the key, rows add up to the whole") {
  std::vector<Op> ops;
  const char* const names[] = {"matmul", "add", "softmax"};
  for (int i = 0; i < 60; ++i) {
    const bool inner = i % 5 == 4;  // called by the op before it, which takes longer
    const double seconds = static_cast<double>(1 + random_source()() % 50);
    if (inner) ops.back().seconds += seconds, ops.back().inner = seconds;
    ops.push_back({names[random_source()() % 3],
                   static_cast<int>(random_source()() % 6),
                   random_source()() % 2 == 0,
                   seconds,
                   0,
                   inner ? i - 1 : -1,
                   {static_cast<double>(random_source()() % 100), 3}});
  }
  const Profile p = profile_of(ops);
  double want_seconds = 0, want_flops = 0;
  for (const Op& o : ops) want_seconds += o.seconds - o.inner, want_flops += o.parent < 0 ? o.cost.flops : 0;
  const std::pair<const char*, ProfileTable> tables[] = {
      {"by_op", by_op(p)},
      {"by_shape", by_shape(p)},
      {"by_module", by_module(p, 2)},
      {"table_of with one name for all", table_of(p, [](const OpRecord&) { return std::string("all"); })}};
  for (const auto& [name, table] : tables) {
    double seconds = 0, flops = 0;
    int64_t calls = 0;
    for (const ProfileRow& r : table) seconds += r.seconds, flops += r.cost.flops, calls += r.calls;
    expect_equal(std::string(name) + ": the sum of the calls of all rows", calls, int64_t{60});
    expect_close(std::string(name) + ": the sum of the seconds of all rows", {seconds}, {want_seconds}, {},
                 {.dtype = f64});
    expect_close(std::string(name) + ": the sum of the FLOPs of all rows", {flops}, {want_flops}, {},
                 {.dtype = f64});
  }
}
