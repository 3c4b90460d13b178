// The shape family: every case in every dtype and layout.
#include <rapidcheck.h>

#include <limits>
#include <support/cases/shape.hpp>
#include <support/check.hpp>
#include <support/errors.hpp>

using namespace cases;

TEST_CASE("shape ops match their oracles") {
  for (const OpCase& c : shape_cases()) check_values(c);
}
TEST_CASE("shape ops report their FLOPs and bytes") {
  for (const OpCase& c : shape_cases()) check_cost(c);
}

namespace {
using errors::check_error;
// A tensor of distinct numbers, changed by random views.
Tensor random_view() {
  Shape shape;
  const int rank = *rc::gen::inRange(1, 5);
  for (int d = 0; d < rank; ++d) shape.push_back(*rc::gen::inRange<int64_t>(1, 5));
  Tensor t = tt::arange(0, shape.numel()).reshape(shape);
  for (int step = *rc::gen::inRange(0, 4); step > 0; --step) {
    const int d = *rc::gen::inRange(0, rank), e = *rc::gen::inRange(0, rank);
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        t = t.transpose(d, e);
        break;
      case 1:
        t = t.slice(d, *rc::gen::inRange<int64_t>(0, 2), tt::kEnd, *rc::gen::inRange<int64_t>(1, 3));
        break;
      default:
        if (t.size(d) == 1) {
          Shape wide = t.shape();
          wide[d] = 3;
          t = t.expand(wide);
        }
    }
  }
  return t;
}
std::vector<int64_t> elements(const Tensor& t) { return t.to_vector<int64_t>(); }
}  // namespace

TEST_CASE("reshape of any view keeps the order of elements, and can be inverted") {
  CHECK(rc::check([] {
    const Tensor t = random_view();
    const Tensor flat = t.reshape({-1});
    RC_ASSERT(elements(flat) == elements(t));
    const Tensor back = flat.reshape(t.shape());
    RC_ASSERT(back.shape() == t.shape());
    RC_ASSERT(elements(back) == elements(t));
    if (t.is_contiguous()) RC_ASSERT(flat.storage() == t.storage());
    RC_ASSERT(elements(t.contiguous()) == elements(t));
    RC_ASSERT(elements(t.clone()) == elements(t));
  }));
}

TEST_CASE("permute, slice and expand are undone by inverse permutation, cat and sum") {
  CHECK(rc::check([] {
    const Tensor t = random_view();
    const int rank = t.rank();
    Dims order, inverse = Dims::filled(rank, 0);
    for (int d = 0; d < rank; ++d) order.push_back(d);
    for (int d = rank - 1; d > 0; --d) std::swap(order[d], order[*rc::gen::inRange(0, d + 1)]);
    for (int d = 0; d < rank; ++d) inverse[static_cast<int>(order[d])] = d;
    const Tensor there = t.permute(order);
    for (int d = 0; d < rank; ++d) RC_ASSERT(there.size(d) == t.size(static_cast<int>(order[d])));
    RC_ASSERT(elements(there.permute(inverse)) == elements(t));
    const int dim = *rc::gen::inRange(0, rank);
    if (t.numel() > 0) {
      const int64_t cut = *rc::gen::inRange<int64_t>(0, t.size(dim) + 1);
      RC_ASSERT(elements(tt::cat({t.slice(dim, 0, cut), t.slice(dim, cut)}, dim)) == elements(t));
      RC_ASSERT(elements(tt::cat(tt::split(t, 2, dim), dim)) == elements(t));
      RC_ASSERT(elements(tt::stack(tt::split(t, 1, dim), 0).squeeze(dim + 1)) ==
                elements(t.transpose(0, dim).contiguous().transpose(0, dim).permute([&] {
                  Dims front{dim};
                  for (int d = 0; d < rank; ++d) {
                    if (d != dim) front.push_back(d);
                  }
                  return front;
                }())));
      Shape wide = t.shape();
      wide.insert(0, 3);
      RC_ASSERT(elements(tt::sum_to(t.expand(wide), t.shape())) == elements(t * 3));
    }
  }));
}

TEST_CASE("slices follow Python's rules for every start and stop") {
  const Tensor t = tt::arange(0, 5);
  for (int64_t start = -7; start <= 7; ++start) {
    for (int64_t stop = -7; stop <= 7; ++stop) {
      for (int64_t step = 1; step <= 3; ++step) {
        std::vector<int64_t> expected;
        const int64_t first = std::clamp<int64_t>(start < 0 ? start + 5 : start, 0, 5);
        const int64_t last = std::clamp<int64_t>(stop < 0 ? stop + 5 : stop, 0, 5);
        for (int64_t i = first; i < last; i += step) expected.push_back(i);
        CHECK(elements(t.slice(0, start, stop, step)) == expected);
      }
    }
  }
}

TEST_CASE("split and chunk cover all elements, and the last part may be shorter") {
  const Tensor t = tt::arange(0, 7);
  const auto parts = tt::split(t, 3);
  REQUIRE(parts.size() == 3);
  CHECK(elements(parts[2]) == std::vector<int64_t>{6});
  CHECK(tt::chunk(t, 3).size() == 3);
  CHECK(tt::chunk(t, 3)[0].numel() == 3);
  CHECK(tt::chunk(t, 10).size() == 7);
  CHECK(tt::split(tt::empty({0, 2}), 4).size() == 1);
}

TEST_CASE("errors of shape operations, complete texts") {
  const Tensor x = tt::zeros({2, 3}).named("x"), s = tt::zeros({});
  check_error(
      "TT-SHAPE-05: reshape: 'x' f32 [2, 3] on cpu (6 elements) does not fit [4]\n  hint: sizes must "
      "multiply to the same count; one may be -1",
      [&] { x.reshape({4}); });
  check_error(
      "TT-SHAPE-05: reshape: 'x' f32 [2, 3] on cpu (6 elements) does not fit [-1, -1]\n  hint: sizes must "
      "multiply to the same count; one may be -1",
      [&] {
        x.reshape({-1, -1});
      });
  check_error(
      "TT-SHAPE-05: reshape: f32 [0] on cpu (0 elements) does not fit [0, -1]\n  hint: sizes must multiply "
      "to the same count; one may be -1",
      [&] {
        tt::zeros({0}).reshape({0, -1});
      });
  check_error("TT-SHAPE-03: transpose: dimension 2 is outside [-2, 1] of a tensor of rank 2",
              [&] { x.transpose(0, 2); });
  check_error("TT-SHAPE-03: unsqueeze: dimension 3 is outside [-3, 2] of a tensor of rank 3",
              [&] { x.unsqueeze(3); });
  check_error("TT-SHAPE-03: squeeze: dimension -3 is outside [-2, 1] of a tensor of rank 2",
              [&] { x.squeeze(-3); });
  check_error(
      "TT-SHAPE-02: expand: 'x' f32 [2, 3] on cpu does not broadcast to [2, 4]\n  rule: only dimensions of "
      "size 1 are stretched; new dimensions are added in front",
      [&] {
        x.expand({2, 4});
      });
  check_error("TT-SHAPE-03: slice: a tensor of rank 0 has no dimension to slice", [&] { s.slice(0, 0); });
  check_error("TT-RANGE-03: slice: step must be at least 1, got -1\n  hint: flip() reverses",
              [&] { x.slice(0, 0, 2, -1); });
  check_error("TT-SHAPE-03: select: a tensor of rank 0 has no dimension to select from",
              [&] { s.select(0, 0); });
  check_error("TT-RANGE-04: select: index 3 is outside dimension 1 of 'x' f32 [2, 3] on cpu",
              [&] { x.select(1, 3); });
  check_error("TT-RANGE-04: select: index -3 is outside dimension 0 of 'x' f32 [2, 3] on cpu",
              [&] { x[-3]; });
  check_error("TT-RANGE-03: split: the size of a part must be at least 1", [&] { tt::split(x, 0); });
  check_error("TT-RANGE-03: chunk: the number of parts must be at least 1", [&] { tt::chunk(x, 0); });
  for (const Dims& order : {Dims{0}, Dims{0, 0}, Dims{0, 5}})
    CHECK(errors::thrown_by([&] { x.permute(order); }).file == __FILE__);
}

TEST_CASE("negative sizes and sizes whose product overflows are errors of every function") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  const Tensor ten = tt::ones({10}), one = tt::ones({1}), two = tt::ones({2}), none = tt::ones({0});
  const auto code = [](const std::function<void()>& f) { return errors::thrown_by(f).code; };
  const std::vector<Shape> wrapping{
      {2, 13, 419, 691, 823, 2977518503},  // the product is 10 modulo 2^64
      {int64_t{1} << 32, int64_t{1} << 32}, {kMost, 2}, {kMost, kMost}, {-5}, {2, -5}, {kLeast}};
  for (const Shape& shape : wrapping) {
    INFO(shape.str());
    CHECK(code([&] { ten.reshape(shape); }) == "TT-SHAPE-05");
    CHECK(code([&] { one.expand(shape); }).starts_with("TT-SHAPE-0"));
    CHECK(code([&] { tt::empty(shape); }) == "TT-SHAPE-01");
    CHECK(code([&] { tt::zeros(shape); }) == "TT-SHAPE-01");
    CHECK(code([&] { tt::full(shape, 1, tt::u8); }) == "TT-SHAPE-01");
    CHECK(code([&] { tt::rand(shape); }) == "TT-SHAPE-01");
    CHECK(code([&] { tt::randint(0, 2, shape); }) == "TT-SHAPE-01");
    CHECK(code([&] { tt::bernoulli(0.5, shape); }) == "TT-SHAPE-01");
  }
  CHECK(code([&] { none.reshape({-1, kMost, kMost}); }) == "TT-SHAPE-05");
  CHECK(code([&] {
          none.expand({kMost, kMost, 0});
        }).starts_with("TT-SHAPE-0"));  // the strides would overflow
  CHECK(code([&] { tt::eye(int64_t{1} << 33); }) == "TT-SHAPE-01");
  for (const auto& by : {std::pair<int64_t, int64_t>{kMost, kMost},
                         {kMost, 0},
                         {0, kMost},
                         {kLeast, 0},
                         {-1, 0},
                         {kMost / 2, kMost / 2}}) {
    CHECK(code([&] { tt::pad(two, {{by.first, by.second}}); }) != "");
  }
  CHECK(code([&] { tt::arange(kLeast, kMost); }) == "TT-SHAPE-07");
  CHECK(code([&] { tt::linspace(0, 1, kMost); }) == "TT-SHAPE-01");
  CHECK(code([&] { tt::stack(Tensors(3, one.expand({int64_t{1} << 57}))); }) != "");
  CHECK(code([&] { tt::cat(Tensors(3, one.expand({int64_t{1} << 57}))); }) != "");
  const Tensor image = tt::ones({1, 1, 4, 4});
  for (const int64_t huge : {kMost, kMost / 2, kLeast, int64_t{1} << 40}) {
    INFO(huge);
    CHECK(code([&] { tt::conv2d(image, image, {}, {.stride = huge}); }) == "TT-RANGE-08");
    CHECK(code([&] { tt::conv2d(image, image, {}, {.padding = huge}); }) == "TT-RANGE-08");
    CHECK(code([&] { tt::conv2d(image, image, {}, {.dilation = huge}); }) == "TT-RANGE-08");
    CHECK(code([&] { tt::conv2d(image, image, {}, {.groups = huge}); }) != "");
    CHECK(code([&] { tt::avg_pool2d(image, {.kernel = huge}); }) == "TT-RANGE-08");
    CHECK(code([&] { tt::max_pool2d(image, {.stride = huge}); }) == "TT-RANGE-08");
    CHECK(code([&] { tt::adaptive_avg_pool2d(image, huge, huge); }) != "");
  }
}

TEST_CASE("positions and steps at the ends of their range") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  const Tensor x = tt::arange(0, 12).reshape({3, 4});
  using Integers = std::vector<int64_t>;
  CHECK(x.slice(1, kLeast, kMost, kMost).to_vector<int64_t>() == Integers{0, 4, 8});
  CHECK(x.slice(0, 1, kMost, kMost).to_vector<int64_t>() == Integers{4, 5, 6, 7});
  CHECK(x.slice(0, kMost, kMost).numel() == 0);
  CHECK(x.slice(0, kMost, kLeast, kMost).numel() == 0);
  CHECK(tt::split(x, kMost).size() == 1);
  CHECK(tt::chunk(x, kMost).size() == 3);
  CHECK(errors::thrown_by([&] { x.select(0, kMost); }).code == "TT-RANGE-04");
  CHECK(errors::thrown_by([&] { x.select(0, kLeast); }).code == "TT-RANGE-04");
  CHECK(tt::tril(x, kMost).to_vector<int64_t>() == x.to_vector<int64_t>());
  CHECK(tt::any(tt::triu(x, kMost) != 0).item<bool>() == false);
  CHECK(tt::any(tt::tril(x, kLeast) != 0).item<bool>() == false);
  CHECK(tt::triu(x, kLeast).to_vector<int64_t>() == x.to_vector<int64_t>());
  for (const int64_t d : {kMost, kLeast, int64_t{1} << 32}) {  // not truncated to int
    CHECK(errors::thrown_by([&] { tt::sum(x, {d}); }).code == "TT-SHAPE-03");
    CHECK(errors::thrown_by([&] { x.permute({d, 0}); }).code == "TT-SHAPE-03");
    CHECK(errors::thrown_by([&] { tt::flip(x, {d}); }).code == "TT-SHAPE-03");
  }
}
