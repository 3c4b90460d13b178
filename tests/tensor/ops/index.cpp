// The index family: every case in every dtype and layout.
#include <support/cases/index.hpp>
#include <support/check.hpp>
#include <support/errors.hpp>

using namespace cases;

TEST_CASE("index ops match their oracles") {
  for (const OpCase& c : index_cases()) check_values(c);
}
TEST_CASE("index ops report their FLOPs and bytes") {
  for (const OpCase& c : index_cases()) check_cost(c);
}

using errors::check_error;

TEST_CASE("errors of indexing, complete texts") {
  const Tensor x = tt::zeros({2, 3}).named("x"), s = tt::zeros({});
  const Tensor index = tt::from_data(std::vector<int64_t>{0, 3});
  check_error(
      "TT-SHAPE-11: cat: needs at least one tensor, each of rank 1 or more\n  hint: stack() joins scalars",
      [] { tt::cat({}); });
  check_error(
      "TT-SHAPE-11: cat: needs at least one tensor, each of rank 1 or more\n  hint: stack() joins scalars",
      [&] {
        tt::cat({s, s});
      });
  check_error(
      "TT-SHAPE-11: cat: all sizes but dimension 0 must agree: 'x' f32 [2, 3] on cpu and f32 [2, 4] on cpu",
      [&] {
        tt::cat({x, tt::zeros({2, 4})});
      });
  check_error("TT-SHAPE-11: stack: needs at least one tensor", [] { tt::stack({}); });
  check_error("TT-SHAPE-11: stack: all shapes must agree: 'x' f32 [2, 3] on cpu and f32 [3] on cpu", [&] {
    tt::stack({x, tt::zeros({3})});
  });
  check_error(
      "TT-SHAPE-12: pad: needs one (before, after) pair of sizes >= 0 per dimension of 'x' f32 [2, 3] on "
      "cpu\n  hint: slice() removes elements",
      [&] {
        tt::pad(x, {{1, 1}});
      });
  check_error(
      "TT-SHAPE-12: pad: needs one (before, after) pair of sizes >= 0 per dimension of 'x' f32 [2, 3] on "
      "cpu\n  hint: slice() removes elements",
      [&] {
        tt::pad(x, {{1, 1}, {-1, 0}});
      });
  check_error("TT-SHAPE-04: tril: expected matrices [..., M, N], got f32 [3] on cpu",
              [] { tt::tril(tt::zeros({3})); });
  check_error("TT-SHAPE-04: triu: expected matrices [..., M, N], got f32 [] on cpu", [&] { tt::triu(s); });
  check_error("TT-SHAPE-03: gather: a tensor of rank 0 has no dimension to index",
              [&] { tt::gather(s, 0, index); });
  check_error("TT-RANGE-05: index_select: index 3 at position 1 is outside [0, 3)",
              [&] { tt::index_select(x, 1, index); });
  check_error("TT-RANGE-05: index_select: index -1 at position 0 is outside [0, 2)",
              [&] { tt::index_select(x, 0, index.slice(0, 0, 1) - 1); });
  check_error(
      "TT-DTYPE-04: index_select: indices must be i64, got f32 [2] on cpu\n  hint: convert them with "
      ".to(i64)",
      [&] { tt::index_select(x, 0, tt::zeros({2})); });
  check_error(
      "TT-SHAPE-04: index_select: expected an index vector [N] (rank 1), got i64 [1, 2] on cpu\n  hint: "
      "reshape, unsqueeze or squeeze the operand",
      [&] {
        tt::index_select(x, 0, index.reshape({1, 2}));
      });
  check_error(
      "TT-SHAPE-13: gather: the index i64 [2] on cpu must have the rank of 'x' f32 [2, 3] on cpu and fit "
      "into it outside dimension 0",
      [&] { tt::gather(x, 0, index); });
  check_error(
      "TT-SHAPE-13: scatter_add: source and index must have the same shape: f32 [1, 3] on cpu and i64 [1, 2] "
      "on "
      "cpu",
      [&] {
        tt::scatter_add(x, 1, index.reshape({1, 2}) - index.reshape({1, 2}), tt::zeros({1, 3}));
      });
  check_error("TT-RANGE-06: topk: k = 4 is outside [0, 3], the size of dimension 1 of 'x' f32 [2, 3] on cpu",
              [&] { tt::topk(x, 4); });
  check_error("TT-SHAPE-03: sort: a tensor of rank 0 has no dimension to index", [&] { tt::sort(s); });
}

TEST_CASE("sort is stable, and NaN is greater than all numbers") {
  const Tensor x = tt::from_data({2.0f, NAN, 1.0f, 2.0f, INFINITY});
  CHECK(tt::sort(x).indices.to_vector<int>() == std::vector<int>{2, 0, 3, 4, 1});
  CHECK(tt::sort(x, 0, true).indices.to_vector<int>() == std::vector<int>{1, 4, 0, 3, 2});
  CHECK(tt::topk(x, 2).indices.to_vector<int>() == std::vector<int>{1, 4});
  CHECK(tt::topk(x, 3, 0, false).indices.to_vector<int>() == std::vector<int>{2, 0, 3});
}
