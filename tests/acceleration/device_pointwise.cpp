// Compiled programs on a GPU against the interpreter there: the same bits, for random programs, shapes and
// layouts. On the emulator and without a device nothing runs, and the problem says why.
#include <doctest/doctest.h>

#include <deque>
#include <tinytorch/acceleration/device_pointwise.hpp>
#include <tinytorch/tinytorch.hpp>
#if TINYTORCH_WITH_CUDA
#include <support/device_programs.hpp>
#endif

using namespace tinytorch;
using namespace tinytorch::acceleration;
using Kind = PointwiseStep::Kind;

TEST_CASE("without a GPU nothing runs") {
  if (!backend::cuda::architecture().empty()) return;
  std::vector<float> x(64, 2), y(64, 7);
  const View in[] = {{x.data(), f32, {64}, {1}}}, out[] = {{y.data(), f32, {64}, {1}}};
  DevicePointwise square(
      {f32,
       {f32},
       {{Kind::unary, static_cast<uint8_t>(backend::UnaryFn::square), f32, {0, -1, -1}, {}}},
       {1}},
      false);
  CHECK_FALSE(square.run(out, in));
  CHECK(square.problem() != "");
  CHECK(y == std::vector<float>(64, 7));
}

#if TINYTORCH_WITH_CUDA
namespace {

using namespace test;

int64_t compiled_runs = 0;

// The number of elements that differ from the interpreter's.
int64_t differences(const PointwiseProgram& program, const Shape& shape, Generator& random) {
  programs::Arrays arrays;
  std::deque<DeviceView> inputs, mine, expected;
  std::vector<View> in, out, other;
  for (const DType d : program.inputs)
    in.push_back(inputs.emplace_back(arrays.input(random, d, shape)).view());
  for (const int v : program.outputs) {
    const DType dtype = program.dtype_of_value(v);
    out.push_back(mine.emplace_back(arrays.contiguous(dtype, shape)).view());
    other.push_back(expected.emplace_back(arrays.contiguous(dtype, shape)).view());
  }
  DevicePointwise compiled(program, false);
  backend::cuda::pointwise(program, other, in);
  if (!compiled.run(out, in)) {
    INFO(compiled.problem());
    CHECK(compiled.problem() == "");  // the layout has no kernel
    return 0;
  }
  ++compiled_runs;
  int64_t different = 0;
  for (size_t k = 0; k < out.size(); ++k)
    different += programs::different_bits(mine[k].fetched(), expected[k].fetched());
  return different;
}

}  // namespace

TEST_CASE("random programs give the bits of the interpreter") {
  if (backend::cuda::architecture().empty()) return;
  REQUIRE(nvrtc().problem == "");
  Generator random(17);
  const Shape shapes[] = {{},      {1},     {31},     {1031},     {4096},
                          {70001}, {3, 67}, {8, 256}, {5, 1, 41}, {2, 3, 5, 64}};
  compiled_runs = 0;
  for (int round = 0; round < 40; ++round) {
    const DType compute = round % 4 == 0 ? f64 : f32;
    const int steps = 1 + static_cast<int>(random.below(round % 10 == 0 ? 30 : 8));
    const programs::RandomProgram made(random, compute, 1 + static_cast<int>(random.below(4)), steps);
    if (made.program.steps.size() > backend::kDeviceSteps ||
        made.program.outputs.size() > backend::kDeviceResults)
      continue;
    INFO("round ", round, ", ", made.program.steps.size(), " steps");
    CHECK(differences(made.program, shapes[random.below(std::size(shapes))], random) == 0);
  }
  CHECK(compiled_runs > 10);
}

TEST_CASE("every function, whose result a sum reads") {
  // The sum finds a compiler that joins it with a product at the end of the function: other bits.
  if (backend::cuda::architecture().empty()) return;
  Generator random(18);
  for (const DType dtype : {f32, f64, bf16, f16}) {
    PointwiseProgram program;
    program.compute = dtype == f64 ? f64 : f32;
    program.inputs = {dtype, dtype};
    const auto check = [&](Kind kind, int fn, int second) {
      program.steps = {{kind, static_cast<uint8_t>(fn), dtype, {0, second, -1}, {0.25, 1.5}},
                       {Kind::binary, static_cast<uint8_t>(backend::BinaryFn::add), dtype, {2, 1, -1}, {}}};
      program.outputs = {2, 3};
      INFO(name_of(dtype), kind == Kind::unary ? " unary " : " binary ", fn);
      CHECK(differences(program, {2057}, random) == 0);
    };
    for (int fn = 0; fn < backend::kUnaryCount; ++fn) check(Kind::unary, fn, -1);
    for (int fn = 0; fn < backend::kBinaryCount; ++fn) check(Kind::binary, fn, 1);
  }
}
#endif
