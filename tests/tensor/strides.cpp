// Shape arithmetic, property-based: random shapes, strides and views against index arithmetic.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <support/oracle.hpp>
#include <tinytorch/tensor/strides.hpp>

namespace tt = tinytorch;
using tt::Dims;
using tt::Shape;
using tt::Strides;

namespace {

Shape random_shape(int max_rank = 4, int64_t smallest = 1) {
  Shape s;
  const int rank = *rc::gen::inRange(0, max_rank + 1);
  for (int d = 0; d < rank; ++d) s.push_back(*rc::gen::inRange<int64_t>(smallest, 5));
  return s;
}

// Strides of a view as slicing, expanding and permuting give them: any order, steps, zeros.
Strides random_strides(const Shape& shape) {
  Strides strides = tt::contiguous_strides(shape);
  if (*rc::gen::inRange(0, 3) == 0) return strides;
  for (int d = 0; d < shape.size(); ++d) {
    const int kind = *rc::gen::inRange(0, 4);
    if (kind == 1) strides[d] = 0;
    if (kind == 2) strides[d] *= 2;
    if (kind == 3) strides[d] = *rc::gen::inRange<int64_t>(0, 30);
  }
  return strides;
}

// The offsets of all elements in row-major order.
std::vector<int64_t> offsets(const Shape& shape, const Strides& strides) {
  std::vector<int64_t> out;
  oracle::for_each_index(shape, [&](const Dims& i) {
    int64_t at = 0;
    for (int d = 0; d < i.size(); ++d) at += i[d] * strides[d];
    out.push_back(at);
  });
  return out;
}

// Another shape with the same number of elements: prime factors are distributed randomly, and ones are
// inserted.
Shape regroup(const Shape& from) {
  std::vector<int64_t> factors;
  for (int64_t s : from) {
    for (int64_t p = 2; s > 1; ++p) {
      while (s % p == 0) factors.push_back(p), s /= p;
    }
  }
  Shape to;
  for (int64_t f : factors) {
    if (to.empty() || (to.size() < 6 && *rc::gen::arbitrary<bool>())) {
      to.push_back(f);
    } else {
      to.back() *= f;
    }
    if (to.size() < 6 && *rc::gen::inRange(0, 6) == 0) to.push_back(1);
  }
  return to;
}

}  // namespace

TEST_CASE("strides and broadcasting of known shapes") {
  CHECK(tt::contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(tt::contiguous_strides({}) == Strides{});
  CHECK(*tt::broadcast_shapes({5, 1, 4}, {3, 1}) == Shape{5, 3, 4});
  CHECK(*tt::broadcast_shapes({0}, {1}) == Shape{0});
  CHECK_FALSE(tt::broadcast_shapes({2}, {3}));
  CHECK_FALSE(tt::broadcast_shapes({0}, {2}));
  CHECK(*tt::reshape_strides({2, 3}, {3, 1}, {6}) == Strides{1});
  CHECK_FALSE(tt::reshape_strides({2, 3}, {1, 2}, {6}));
  CHECK(*tt::reshape_strides({2, 3}, {0, 0}, {6}) == Strides{0});
  CHECK(tt::broadcast_strides({3, 1}, {1, 1}, {2, 3, 4}) == Strides{0, 1, 0});
}

TEST_CASE("contiguous strides number the elements 0, 1, 2 ...") {
  CHECK(rc::check([] {
    const Shape s = random_shape(5);
    const auto at = offsets(s, tt::contiguous_strides(s));
    for (size_t i = 0; i < at.size(); ++i) RC_ASSERT(at[i] == static_cast<int64_t>(i));
    RC_ASSERT(tt::is_contiguous(s, tt::contiguous_strides(s)));
  }));
}

TEST_CASE("is_contiguous() is true exactly if the offsets are 0, 1, 2 ...") {
  CHECK(rc::check([] {
    const Shape s = random_shape(4, 0);
    const Strides strides = random_strides(s);
    const auto at = offsets(s, strides);
    bool dense = true;
    for (size_t i = 0; i < at.size(); ++i) dense = dense && at[i] == static_cast<int64_t>(i);
    RC_ASSERT(tt::is_contiguous(s, strides) == dense);
  }));
}

TEST_CASE("broadcasting is commutative, associative, and a scalar is its identity element") {
  CHECK(rc::check([] {
    const auto shape = [] {
      Shape s = random_shape(3, 0);
      for (int64_t& v : s) v = *rc::gen::elementOf(std::vector<int64_t>{0, 1, 1, 3, 3, 4});
      return s;
    };
    const Shape a = shape(), b = shape(), c = shape();
    const auto ab = tt::broadcast_shapes(a, b), ba = tt::broadcast_shapes(b, a);
    RC_ASSERT(ab.has_value() == ba.has_value());
    if (ab) RC_ASSERT(*ab == *ba);
    RC_ASSERT(*tt::broadcast_shapes(a, a) == a);
    RC_ASSERT(*tt::broadcast_shapes(a, {}) == a);
    const auto bc = tt::broadcast_shapes(b, c);
    const auto left = ab ? tt::broadcast_shapes(*ab, c) : std::nullopt;
    const auto right = bc ? tt::broadcast_shapes(a, *bc) : std::nullopt;
    RC_ASSERT(left.has_value() == right.has_value());
    if (left) RC_ASSERT(*left == *right);
  }));
}

TEST_CASE("broadcast strides address the elements given by index arithmetic") {
  CHECK(rc::check([] {
    const Shape to = random_shape(4);
    Shape from = to;
    for (int64_t& s : from) {
      if (*rc::gen::arbitrary<bool>()) s = 1;
    }
    while (!from.empty() && *rc::gen::inRange(0, 3) == 0) from.erase(0);
    const Strides strides = random_strides(from);
    const auto got = offsets(to, tt::broadcast_strides(from, strides, to));
    size_t n = 0;
    oracle::for_each_index(to, [&](const Dims& i) {
      int64_t at = 0;
      for (int d = 0; d < from.size(); ++d)
        at += from[d] == 1 ? 0 : i[d + to.size() - from.size()] * strides[d];
      RC_ASSERT(got[n++] == at);
    });
  }));
}

TEST_CASE("reshape_strides() gives the same elements in the same order") {
  CHECK(rc::check([] {
    const Shape from = random_shape(4), to = regroup(from);
    const Strides strides = random_strides(from);
    RC_PRE(from.numel() == to.numel());
    const auto result = tt::reshape_strides(from, strides, to);
    RC_CLASSIFY(result.has_value());
    if (result) RC_ASSERT(offsets(to, *result) == offsets(from, strides));
    if (tt::is_contiguous(from, strides)) RC_ASSERT(result.has_value());
    // If only sizes of 1 are added or removed, no copy is needed.
    Shape bare, padded;
    for (int64_t s : from) {
      if (s != 1) bare.push_back(s);
    }
    for (int64_t s : bare) {
      padded.push_back(1);
      padded.push_back(s);
    }
    const auto squeezed = tt::reshape_strides(from, strides, bare),
               stretched = tt::reshape_strides(from, strides, padded);
    RC_ASSERT(squeezed.has_value());
    RC_ASSERT(stretched.has_value());
    RC_ASSERT(offsets(bare, *squeezed) == offsets(from, strides));
    RC_ASSERT(offsets(padded, *stretched) == offsets(from, strides));
  }));
}

TEST_CASE("an empty tensor can be viewed as any empty shape") {
  CHECK(tt::reshape_strides({0, 3}, {7, 2}, {3, 0, 2}).has_value());
  CHECK(tt::is_contiguous({0, 3}, {7, 2}));
}

TEST_CASE("a permuted shape addresses the same elements with permuted indices") {
  CHECK(rc::check([] {
    const Shape from = random_shape(4);
    const Strides strides = random_strides(from);
    Dims order;
    for (int d = 0; d < from.size(); ++d) order.insert(*rc::gen::inRange(0, d + 1), d);
    const tt::StridedShape seen = tt::permuted(from, strides, order);
    RC_ASSERT(seen.first == 0);
    const auto got = offsets(seen.shape, seen.strides);
    size_t n = 0;
    oracle::for_each_index(seen.shape, [&](const Dims& i) {
      int64_t at = 0;
      for (int d = 0; d < from.size(); ++d) at += i[d] * strides[static_cast<int>(order[d])];
      RC_ASSERT(got[n++] == at);
    });
  }));
}

TEST_CASE("a slice addresses every step-th element between two positions") {
  CHECK(rc::check([] {
    Shape from = random_shape(3);
    from.push_back(*rc::gen::inRange<int64_t>(0, 9));
    const Strides strides = random_strides(from);
    const int dim = from.size() - 1;
    const int64_t size = from[dim], step = *rc::gen::inRange<int64_t>(1, 5);
    const int64_t start = tt::slice_position(*rc::gen::inRange<int64_t>(-12, 12), size);
    const int64_t stop = std::max(start, tt::slice_position(*rc::gen::inRange<int64_t>(-12, 12), size));
    const tt::StridedShape seen = tt::sliced(from, strides, dim, start, stop, step);
    int64_t count = 0;
    for (int64_t i = start; i < stop; i += step) ++count;
    RC_ASSERT(seen.shape[dim] == count);
    RC_ASSERT(seen.first == start * strides[dim]);
    RC_ASSERT(seen.strides[dim] == step * strides[dim]);
  }));
}

TEST_CASE("negative positions of a slice count from the end, and all positions are clamped") {
  CHECK(tt::slice_position(2, 5) == 2);
  CHECK(tt::slice_position(-1, 5) == 4);
  CHECK(tt::slice_position(-9, 5) == 0);
  CHECK(tt::slice_position(9, 5) == 5);
  CHECK(tt::slice_position(0, 0) == 0);
}
