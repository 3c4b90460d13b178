// SmallVector against std::vector, with inline and with allocated storage; elements are not copied
// needlessly, lost, or destroyed twice.
#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <string>
#include <tinytorch/core/small_vector.hpp>
#include <type_traits>
#include <vector>

namespace tt = tinytorch;
using namespace std::string_literals;

namespace {

using Owners = tt::SmallVector<std::shared_ptr<int>, 2>;
using Texts = tt::SmallVector<std::string, 3>;

std::vector<std::string> listed(const Texts& t) { return {t.begin(), t.end()}; }
bool lives_inside(const Texts& t) {
  const auto* const from = reinterpret_cast<const char*>(&t);
  const auto* const at = reinterpret_cast<const char*>(t.data());
  return at >= from && at < from + sizeof(t);
}

}  // namespace

TEST_CASE("construction from braces, ranges and sizes") {
  CHECK(listed({}).empty());
  CHECK(listed({"a"s, "b"s}) == std::vector<std::string>{"a", "b"});
  CHECK(listed({"a"s, "b"s, "c"s, "d"s}) == std::vector<std::string>{"a", "b", "c", "d"});
  CHECK(listed(Texts(2)) == std::vector<std::string>(2));
  const std::vector<std::string> five{"1", "2", "3", "4", "5"};
  CHECK(listed(Texts(five.begin(), five.end())) == five);
  CHECK(listed(five) == five);  // a std::vector converts to a SmallVector
  CHECK(listed(Texts(5, "x")) == std::vector<std::string>(5, "x"));
  const tt::SmallVector<std::pair<int, int>, 2> nested{{1, 2}, {3, 4}, {5, 6}};
  CHECK(nested.size() == 3);
  CHECK(nested.back().second == 6);
}

TEST_CASE("elements are stored inline up to kInline, and are moved to the heap beyond that") {
  Texts t{"a"s, "b"s, "c"s};
  CHECK(lives_inside(t));
  t.push_back(t[0]);  // the argument is an element, which this call moves
  CHECK_FALSE(lives_inside(t));
  CHECK(listed(t) == std::vector<std::string>{"a", "b", "c", "a"});
}

TEST_CASE("an element in braces is copied once, and a single value does not convert to a list") {
  static int copies = 0;
  struct Counted {
    std::shared_ptr<int> owned;
    Counted() = default;
    Counted(const Counted& other) : owned(other.owned) { ++copies; }
  };
  const Counted a;
  const tt::SmallVector<Counted, 2> list{a, Counted()};
  CHECK(copies == 2);
  CHECK(list.size() == 2);
  CHECK_FALSE(std::is_convertible_v<Counted, tt::SmallVector<Counted, 2>>);
}

TEST_CASE("copies are independent, moves leave an empty list, and each element is destroyed once") {
  const auto owned = std::make_shared<int>(0);
  for (const size_t n : {0u, 1u, 2u, 3u, 9u}) {
    CAPTURE(n);
    const auto held = [&] { return static_cast<size_t>(owned.use_count()) - 1; };
    {
      Owners a;
      for (size_t i = 0; i < n; ++i) a.push_back(owned);
      Owners copy = a;
      CHECK(held() == 2 * n);
      Owners moved = std::move(a);
      CHECK(a.empty());
      CHECK(moved.size() == n);
      CHECK(held() == 2 * n);
      a.push_back(owned);  // the moved-from vector can be used again
      CHECK(a.size() == 1);
      a = moved;
      CHECK(held() == 3 * n);
      a = std::move(copy);
      CHECK(copy.empty());
      CHECK(held() == 2 * n);
      a = *&a;
      CHECK(a == moved);
      a.clear();
      CHECK(held() == n);
    }
    CHECK(held() == 0);
  }
}

TEST_CASE("random calls give the same as std::vector") {
  std::mt19937 random(1);
  for (int run = 0; run < 200; ++run) {
    Texts ours;
    std::vector<std::string> theirs;
    for (int step = 0; step < 30; ++step) {
      const std::string value(random() % 40,
                              static_cast<char>('a' + random() % 26));  // short and long strings
      switch (random() % 6) {
        case 0:
        case 1:
          ours.push_back(value), theirs.push_back(value);
          break;
        case 2:
          if (!theirs.empty()) ours.pop_back(), theirs.pop_back();
          break;
        case 3: {
          const size_t n = random() % 8;
          ours.resize(n), theirs.resize(n);
          break;
        }
        case 4: {
          const auto at = static_cast<std::ptrdiff_t>(random() % (theirs.size() + 1));
          const std::vector<std::string> more(random() % 4, value);
          ours.insert(ours.begin() + at, more.begin(), more.end());
          theirs.insert(theirs.begin() + at, more.begin(), more.end());
          break;
        }
        default:
          ours.reserve(random() % 8);
      }
      REQUIRE(listed(ours) == theirs);
    }
    Texts other = ours;
    REQUIRE(other == ours);
    other.push_back("x");
    REQUIRE_FALSE(other == ours);
  }
}
