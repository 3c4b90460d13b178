// Tables of a profile: grouping, sums and order of rows.
#include <doctest/doctest.h>

#include <tinytorch/profiling/profile.hpp>

namespace tt = tinytorch;
using tt::profiling::by_module;
using tt::profiling::by_op;
using tt::profiling::by_shape;
using tt::profiling::OpRecord;
using tt::profiling::Profile;
using tt::profiling::ProfileTable;

TEST_CASE("tables separate forward and backward, sort by time, group by shape, and cut module paths") {
  Profile profile;
  profile.scopes = {{"", -1, 0, 9}, {"blocks.0.attention", 0, 0, 4}, {"blocks.0.mlp.up", 0, 4, 4}};
  const auto op = [&](const char* name, int scope, bool backward, double seconds, tt::Shape shape) {
    OpRecord r;
    r.name = name;
    r.scope = scope;
    r.backward = backward;
    r.seconds = r.device_seconds = seconds;
    r.cost = {100, 10};
    r.inputs = {shape};
    profile.ops.push_back(r);
  };
  op("add", 1, false, 1, {2});
  op("add", 2, false, 2, {3});
  op("add", 2, true, 4, {3});
  const ProfileTable ops = by_op(profile);
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].backward);
  CHECK(ops[0].seconds == 4);
  CHECK(ops[1].calls == 2);
  CHECK(ops[1].seconds == 3);
  CHECK(ops[1].flops_per_second() == doctest::Approx(200.0 / 3));
  CHECK(ops[1].bytes_per_second() == doctest::Approx(20.0 / 3));
  CHECK(ops[1].intensity() == 10);
  CHECK(by_shape(profile).size() == 3);
  CHECK(by_shape(profile)[0].name == "add [3]");
  const ProfileTable modules = by_module(profile, 2);
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].name == "blocks.0");
  CHECK(modules[1].seconds == 3);
  CHECK(by_module(profile)[1].name == "blocks.0.mlp.up");
}

TEST_CASE("an op's own time excludes its callees, its work includes theirs") {
  Profile profile;
  profile.scopes = {{"", -1, 0, 9}};
  OpRecord outer, inner;
  outer.name = "outer";
  outer.device_seconds = 5;
  outer.inner_device_seconds = 3;
  outer.cost = {100, 50};
  inner.name = "inner";
  inner.parent = 0;
  inner.device_seconds = 3;
  inner.cost = {80, 40};
  profile.ops = {outer, inner};
  profile.seconds = 9;
  CHECK(profile.op_seconds() == 5);
  CHECK(profile.cost().flops == 100);
  CHECK(profile.cost().bytes == 50);
  const ProfileTable table = by_op(profile);
  REQUIRE(table.size() == 2);
  CHECK(table[0].name == "inner");
  CHECK(table[0].seconds == 3);
  CHECK(table[0].cost.flops == 0);
  CHECK(table[1].seconds == 2);
  CHECK(table[1].cost.flops == 100);
  outer.inner_device_seconds = 5.1;  // a difference of clocks gives no negative time
  CHECK(outer.self_seconds() == 0);
}

TEST_CASE("rates of rows without time or bytes are 0, not infinite") {
  const tt::profiling::ProfileRow row;
  CHECK(row.flops_per_second() == 0);
  CHECK(row.bytes_per_second() == 0);
  CHECK(row.intensity() == 0);
}
