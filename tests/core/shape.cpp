// Dims against std::vector, operation by operation.
#include <rapidcheck.h>

#include <support/errors.hpp>
#include <tinytorch/core/shape.hpp>

namespace tt = tinytorch;

namespace {
std::vector<int64_t> values(const tt::Dims& d) { return {d.begin(), d.end()}; }
}  // namespace

TEST_CASE("a shape of rank 0 has one element") {
  const tt::Shape s;
  CHECK(s.size() == 0);
  CHECK(s.empty());
  CHECK(s.numel() == 1);
  CHECK(s.str() == "[]");
}

TEST_CASE("element counts, text form and comparison") {
  CHECK(tt::Shape{2, 3, 4}.numel() == 24);
  CHECK(tt::Shape{2, 0, 4}.numel() == 0);
  CHECK(tt::Shape{2, 3}.str() == "[2, 3]");
  CHECK(tt::Shape{2, 3} == tt::Shape{2, 3});
  CHECK_FALSE(tt::Shape{2, 3} == tt::Shape{3, 2});
  CHECK_FALSE(tt::Shape{2, 3} == tt::Shape{2, 3, 1});
  CHECK(tt::Dims::filled(3, 7) == tt::Dims{7, 7, 7});
  CHECK(tt::Dims{1, 2, 3}.back() == 3);
}

TEST_CASE("insert, erase, push and pop behave like a vector's") {
  const bool ok = rc::check([] {
    const auto start = *rc::gen::container<std::vector<int64_t>>(*rc::gen::inRange<size_t>(1, 8),
                                                                 rc::gen::inRange<int64_t>(0, 9));
    tt::Dims d(start.begin(), start.end());
    std::vector<int64_t> model = start;
    const int at = *rc::gen::inRange(0, static_cast<int>(model.size()));
    d.insert(at, 42);
    model.insert(model.begin() + at, 42);
    RC_ASSERT(values(d) == model);
    const int gone = *rc::gen::inRange(0, static_cast<int>(model.size()));
    d.erase(gone);
    model.erase(model.begin() + gone);
    RC_ASSERT(values(d) == model);
    d.pop_back();
    model.pop_back();
    RC_ASSERT(values(d) == model);
  });
  CHECK(ok);
}

TEST_CASE("a ninth dimension throws TT-SHAPE-09") {
  tt::Dims d = tt::Dims::filled(8, 1);
  const auto t = errors::thrown_by([&] { d.push_back(1); });
  CHECK(t.text == "TT-SHAPE-09: a tensor has at most 8 dimensions\n  hint: merge some with reshape");
  CHECK(d.size() == 8);
  CHECK_THROWS_AS(tt::Dims::filled(9, 1), tt::Error);
}

TEST_CASE("parts and multiples are counted upwards, in the type of the numbers") {
  static_assert(std::is_same_v<decltype(tt::ceil_div(7, 2)), int>);
  static_assert(std::is_same_v<decltype(tt::ceil_div(int64_t{7}, 2)), int64_t>);
  static_assert(std::is_same_v<decltype(tt::round_up(7u, 2u)), unsigned>);
  for (int b = 1; b <= 9; ++b) {
    for (int a = 1 - b; a <= 40; ++a) {
      int parts = 0;
      while (parts * b < a) ++parts;
      CHECK(tt::ceil_div(a, b) == parts);
      CHECK(tt::round_up(int64_t{a}, b) == parts * b);
    }
  }
  CHECK(tt::round_up(size_t{5000}, size_t{4096}) == 8192);
}
