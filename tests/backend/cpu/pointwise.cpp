// The interpreter of pointwise programs against single operations, which must give the same bits.
#include <doctest/doctest.h>

#include <support/pointwise_programs.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd_stream.hpp>
#include <vector>

namespace {
using namespace tinytorch_tests;

// Runs a program on random inputs; the number of elements that differ from single operations.
int64_t differences(const PointwiseProgram& program, const tt::Shape& shape, tt::Generator& random) {
  Arrays arrays;
  std::vector<View> in, out;
  for (const tt::DType d : program.inputs) in.push_back(arrays.input(random, d, shape));
  const std::vector<View> expected = single_operations(program, in, shape, arrays);
  for (const View& v : expected) out.push_back(arrays.contiguous(v.dtype, shape));
  cpu::pointwise(program, out, in);
  int64_t different = 0;
  for (size_t k = 0; k < out.size(); ++k) different += different_bits(out[k], expected[k]);
  return different;
}
tt::Shape random_shape(tt::Generator& random) {
  switch (random.below(6)) {
    case 0:
      return {};
    case 1:
      return {1 + static_cast<int64_t>(random.below(3000))};
    case 2:
      return {3, 67};
    case 3:
      return {5, 1, 41};
    case 4:
      return {2, 3, 5, 37};
    default:
      return {2, 2, 2, 3, 33};
  }
}
}  // namespace

TEST_CASE("random programs give the bits of single operations") {
  tt::Generator random(7);
  for (int round = 0; round < 300; ++round) {
    const tt::DType compute = round % 4 == 0 ? tt::f64 : tt::f32;
    const int steps = 1 + static_cast<int>(random.below(round % 10 == 0 ? 60 : 8));
    const RandomProgram made(random, compute, 1 + static_cast<int>(random.below(4)), steps);
    INFO("round ", round, ", ", made.program.steps.size(), " steps");
    CHECK(differences(made.program, random_shape(random), random) == 0);
  }
}

TEST_CASE("every function") {
  tt::Generator random(8);
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16}) {
    PointwiseProgram program;
    program.compute = dtype == tt::f64 ? tt::f64 : tt::f32;
    program.inputs = {dtype, dtype};
    program.outputs = {2};
    for (int fn = 0; fn < kUnaryCount; ++fn) {
      program.steps = {
          {PointwiseStep::Kind::unary, static_cast<uint8_t>(fn), dtype, {0, -1, -1}, {0.25, 1.5}}};
      INFO(tt::name_of(dtype), " unary ", fn);
      CHECK(differences(program, {2057}, random) == 0);
    }
    for (int fn = 0; fn < kBinaryCount; ++fn) {
      program.steps = {{PointwiseStep::Kind::binary, static_cast<uint8_t>(fn), dtype, {0, 1, -1}, {0.25, 0}}};
      INFO(tt::name_of(dtype), " binary ", fn);
      CHECK(differences(program, {2057}, random) == 0);
    }
  }
}

TEST_CASE("a conversion to bool gives 0 or 1 to the steps that follow") {
  // 2.5 as bool is 1, and 1 + 1 is 2.
  using Kind = PointwiseStep::Kind;
  PointwiseProgram program{tt::f32,
                           {tt::f32},
                           {{Kind::convert, 0, tt::boolean, {0, -1, -1}, {}},
                            {Kind::convert, 0, tt::f32, {1, -1, -1}, {}},
                            {Kind::binary, static_cast<uint8_t>(BinaryFn::add), tt::f32, {2, 2, -1}, {}}},
                           {3}};
  std::vector<float> x = {2.5f, 0, -1, std::numeric_limits<float>::quiet_NaN(), -0.0f}, y(5, 9);
  const View in{x.data(), tt::f32, {5}, {1}}, out{y.data(), tt::f32, {5}, {1}};
  cpu::pointwise(program, std::vector{out}, std::vector{in});
  CHECK(y == std::vector<float>{2, 0, 2, 2, 0});
}

TEST_CASE("an output may be an input, and an input may be an output") {
  tt::Generator random(9);
  using Kind = PointwiseStep::Kind;
  const auto add = static_cast<uint8_t>(BinaryFn::add), mul = static_cast<uint8_t>(BinaryFn::mul);
  // y = (a + b) * a, written over a; a + b as well.
  PointwiseProgram program{
      tt::f32,
      {tt::f32, tt::f32},
      {{Kind::binary, add, tt::f32, {0, 1, -1}, {}}, {Kind::binary, mul, tt::f32, {2, 0, -1}, {}}},
      {3, 2}};
  Arrays arrays;
  const tt::Shape shape{70001};
  const View a = arrays.contiguous(tt::f32, shape), b = arrays.contiguous(tt::f32, shape),
             sum = arrays.contiguous(tt::f32, shape);
  for (int64_t i = 0; i < shape[0]; ++i) {
    a.as<float>()[i] = static_cast<float>(random.uniform(-1, 1));
    b.as<float>()[i] = static_cast<float>(random.uniform(-1, 1));
  }
  const std::vector<View> expected = single_operations(program, {a, b}, shape, arrays);
  cpu::pointwise(program, std::vector{a, sum}, std::vector{a, b});
  CHECK(different_bits(a, expected[0]) == 0);
  CHECK(different_bits(sum, expected[1]) == 0);
  // An input that is written as it is.
  PointwiseProgram copy{tt::f32, {tt::f32}, {}, {0}};
  cpu::pointwise(copy, std::vector{b}, std::vector{sum});
  CHECK(different_bits(b, sum) == 0);
}

TEST_CASE("non-temporal stores and several threads") {
  tt::Generator random(10);
  const int64_t before = tt::streaming_bytes;
  for (const int64_t limit : {int64_t{0}, before}) {
    tt::streaming_bytes = limit;
    const RandomProgram made(random, tt::f32, 3, 6);
    CHECK(differences(made.program, {100003}, random) == 0);
    CHECK(differences(made.program, {300, 331}, random) == 0);
  }
  tt::streaming_bytes = before;
}

TEST_CASE("no elements") {
  PointwiseProgram program{
      tt::f32, {tt::f32}, {{PointwiseStep::Kind::convert, 0, tt::f32, {0, -1, -1}, {}}}, {1}};
  const View none{nullptr, tt::f32, {0, 3}, {3, 1}};
  cpu::pointwise(program, std::vector{none}, std::vector{none});
}
