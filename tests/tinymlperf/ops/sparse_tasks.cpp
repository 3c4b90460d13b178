// The op on a 2:4 sparse weight: the two forms of the weight agree with each other and with those of the
// library, the oracle with a dense product, and the tolerance separates sums of f32 from those of f16.
#include <tinymlperf/ops/sparse_tasks.hpp>

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <tinymlperf/judge/match/grade.hpp>
#include <tinytorch/backend/cpu/sparse24.hpp>
#include <tinytorch/pruning/strips.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge::kernels;

namespace {

const KernelTask& spmm() { return task_named("spmm_24"); }

// Sides with one row, with primes, with whole strips and parts, and with more than one of each.
const std::vector<Shape>& awkward() {
  static const std::vector<Shape> all{{1, 1, 1},   {2, 3, 5},    {5, 4, 16},   {3, 16, 17},  {7, 17, 31},
                                      {4, 31, 33}, {33, 45, 61}, {130, 7, 13}, {1, 64, 128}, {9, 33, 130}};
  return all;
}

// Different in every run.
channel::Tensors inputs(const Shape& sides, Distribution d = Distribution::ordinary) {
  static std::random_device random;
  return draw_inputs(spmm(), sides, d, random());
}
tinytorch::backend::View view(const channel::Tensor& t) { return library::view(t); }

// w [n, k] with its zeros, as the library decodes the strips.
std::vector<double> dense_of_strips(const channel::Tensors& in) {
  const int64_t n = in[1].shape[0], k = in[0].shape[1];
  const tinytorch::Tensor strips =
      tinytorch::empty({in[3].shape[0], in[3].shape[1]}, tinytorch::u8, tinytorch::cpu);
  std::memcpy(strips.raw(), in[3].bytes.data(), in[3].bytes.size());
  const tinytorch::Tensor dense = tinytorch::StripsMatrix(strips, tinytorch::f16, n, k).dense();
  std::vector<double> out;
  for (int64_t i = 0; i < n * k; ++i)
    out.push_back(
        static_cast<double>(static_cast<float>(static_cast<const tinytorch::Half*>(dense.raw())[i])));
  return out;
}

// The answer [m, n] of a kernel: `place(row, i)` is the place that it takes for kept number i, `round` is
// applied to numbers, `add` adds a product to the sum.
template <class Place, class Round, class Add>
std::vector<float> answer_with(const channel::Tensors& in, Place place, Round round, Add add) {
  const auto m = static_cast<size_t>(in[0].shape[0]), k = static_cast<size_t>(in[0].shape[1]),
             n = static_cast<size_t>(in[1].shape[0]);
  const auto x = in[0].values<tinytorch::Half>(), values = in[1].values<tinytorch::Half>();
  std::vector<float> out;
  for (size_t r = 0; r < m; ++r)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t i = 0; i < k / 2; ++i)
        sum = add(sum, round(static_cast<float>(values[j * k / 2 + i])) *
                           round(static_cast<float>(x[r * k + i / 2 * 4 + place(j, i)])));
      out.push_back(sum);
    }
  return out;
}
size_t place_of(const channel::Tensors& in, size_t row, size_t i) {
  const auto bytes = static_cast<size_t>(in[2].shape[1]);
  return in[2].values<uint8_t>()[row * bytes + i / 4] >> i % 4 * 2 & 3u;
}
float same(float x) { return x; }
float as_half(float x) { return static_cast<float>(tinytorch::Half(x)); }
float as_bf16(float x) { return static_cast<float>(tinytorch::BFloat16(x)); }
float plus(float a, float b) { return a + b; }
// Adds like tensor cores: the digits that f32 cannot hold are cut off, not rounded.
float plus_cut(float a, float b) {
  const double sum = double{a} + double{b};
  const auto near = static_cast<float>(sum);
  return std::abs(double{near}) > std::abs(sum) ? std::nextafter(near, 0.0f) : near;
}

Grade grade(const Shape& sides, Distribution d, const channel::Tensors& in, std::span<const float> answer) {
  return Grader(spmm(), sides, d, in)({channel::make_tensor(spmm().output(sides), answer)});
}

}  // namespace

TEST_CASE("the strips are those that the library makes of the values and places") {
  for (const Shape& sides : awkward()) {
    CAPTURE(to_text(sides));
    const channel::Tensors in = inputs(sides);
    const tinytorch::Shape shape = tinytorch::backend::Strips24::shape(sides[2], 4 * sides[1]);
    REQUIRE(in[3].shape == Shape{shape[0], shape[1]});
    channel::Tensor made = in[3];
    std::ranges::fill(made.bytes, std::byte{1});
    tinytorch::backend::cpu::strips24(view(made), view(in[1]), view(in[2]));
    CHECK(made.bytes == in[3].bytes);
  }
}

TEST_CASE("places ascend, all six pairs come, the last one only if asked, and beyond a row are 0 and 1") {
  for (const bool last : {false, true}) {
    std::set<int> pairs;
    for (const Shape& sides : awkward()) {
      CAPTURE(to_text(sides));
      const channel::Tensors in = inputs(sides, last ? Distribution::extreme : Distribution::ordinary);
      const SparseSides s(sides);
      for (int64_t i = 0; i < s.n; ++i)
        for (int64_t j = 0; j < 2 * s.place_bytes(); ++j) {
          const auto byte = in[2].values<uint8_t>()[static_cast<size_t>(i * s.place_bytes() + j / 2)];
          const int two = byte >> j % 2 * 4 & 15;
          if (j < s.g)
            pairs.insert(two);
          else
            CHECK(two == 0b0100);
        }
    }
    CHECK(pairs ==
          (last ? std::set<int>{0b1110} : std::set<int>{0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110}));
  }
}

TEST_CASE("the oracle is the product with the dense weight") {
  for (const Shape& sides : awkward())
    for (const Distribution d : {Distribution::ordinary, Distribution::extreme, Distribution::subnormal}) {
      CAPTURE(to_text(sides));
      const channel::Tensors in = inputs(sides, d);
      const std::vector<double> w = dense_of_strips(in);
      const auto n = static_cast<size_t>(sides[2]), k = static_cast<size_t>(4 * sides[1]);
      CHECK(w.size() - static_cast<size_t>(std::ranges::count(w, 0.0)) <= n * k / 2);
      std::vector<double> row(n);
      for (int64_t r = 0; r < sides[0]; ++r) {
        spmm().oracle(in, r, row);
        for (size_t j = 0; j < n; ++j) {
          double sum = 0, size = 0;
          for (size_t i = 0; i < k; ++i) {
            const auto x = static_cast<double>(
                static_cast<float>(in[0].values<tinytorch::Half>()[static_cast<size_t>(r) * k + i]));
            sum += x * w[j * k + i], size += std::abs(x * w[j * k + i]);
          }
          CHECK(std::abs(row[j] - sum) <= 1e-12 * size);
        }
      }
    }
}

TEST_CASE("sums of f32 in any order are right; sums and results of f16, and numbers of bf16, are not") {
  const Shape sides{6, 256, 40};
  const channel::Tensors in = inputs(sides);
  const auto place = [&](size_t row, size_t i) { return place_of(in, row, i); };
  const auto is_right = [&](const std::vector<float>& answer) {
    return grade(sides, Distribution::ordinary, in, answer).right;
  };
  std::vector<float> one_by_one = answer_with(in, place, same, plus), half = one_by_one;
  CHECK(is_right(one_by_one));
  CHECK(is_right(answer_with(in, place, same, plus_cut)));
  for (float& x : half) x = as_half(x);
  CHECK_FALSE(is_right(half));
  CHECK_FALSE(is_right(answer_with(in, place, same, [](float a, float b) { return as_half(a + b); })));
  CHECK_FALSE(is_right(answer_with(in, place, as_bf16, plus)));
}

TEST_CASE(
    "sums of f32 are right on the smallest hidden shapes, whose results are sometimes small by chance") {
  tinytorch::Generator random(std::random_device{}());
  for (int match = 0; match < 400; ++match) {
    const Shape sides = draw_hidden_shapes(spmm(), random)[0];
    const channel::Tensors in = inputs(sides);
    const auto place = [&](size_t row, size_t i) { return place_of(in, row, i); };
    const Grade one = grade(sides, Distribution::ordinary, in, answer_with(in, place, same, plus_cut));
    CHECK_MESSAGE(one.right, one.reason);
  }
}

TEST_CASE("a kernel that takes other places than those of the weight is wrong") {
  for (const Shape& sides : {Shape{3, 5, 7}, Shape{17, 37, 23}})
    for (const Distribution d : {Distribution::ordinary, Distribution::zero_one, Distribution::one_hot}) {
      const channel::Tensors in = inputs(sides, d);
      const auto is_right = [&](auto place) {
        return grade(sides, d, in, answer_with(in, place, same, plus)).right;
      };
      CHECK(is_right([&](size_t row, size_t i) { return place_of(in, row, i); }));
      CHECK_FALSE(is_right([&](size_t, size_t i) { return i % 2; }));
      CHECK_FALSE(is_right([&](size_t, size_t i) { return place_of(in, 0, i); }));
      CHECK_FALSE(is_right([&](size_t row, size_t i) { return place_of(in, row, i ^ 1); }));
      CHECK_FALSE(is_right([&](size_t row, size_t i) { return place_of(in, row, i ^ 2); }));
    }
}

TEST_CASE("the floor counts the kept numbers once") {
  const Shape sides{16, 1024, 4096};  // k = 4096
  CHECK(spmm().multiply_adds(sides) == 16.0 * 4096 * 4096 / 2);
  CHECK(read_bytes_of(spmm(), sides) == 2.0 * 16 * 4096 + 4096.0 * 4096 * 9 / 8);
  CHECK(bytes_of(spmm(), sides) - read_bytes_of(spmm(), sides) == 4.0 * 16 * 4096);
}
