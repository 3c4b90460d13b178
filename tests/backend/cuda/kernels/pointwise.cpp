// The interpreter on the device against the kernels of single operations, which must give the same bits.
#include <support/device_programs.hpp>
#include <support/errors.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using backend::BinaryFn;
using backend::UnaryFn;
using backend::View;
using Kind = PointwiseStep::Kind;

// Runs a program on random inputs; the number of elements that differ from single operations.
int64_t differences(const PointwiseProgram& program, const Shape& shape, Generator& random) {
  programs::Arrays arrays;
  std::deque<DeviceView> inputs, outputs;
  std::vector<View> in, out;
  for (const DType d : program.inputs) {
    inputs.emplace_back(arrays.input(random, d, shape));
    in.push_back(inputs.back().view());
  }
  for (const int v : program.outputs) {
    outputs.emplace_back(arrays.contiguous(program.dtype_of_value(v), shape));
    out.push_back(outputs.back().view());
  }
  SingleKernels single(program, in, shape, arrays);
  backend::cuda::pointwise(program, out, in);
  int64_t different = 0;
  for (size_t k = 0; k < out.size(); ++k) {
    const size_t step = static_cast<size_t>(program.outputs[k]) - program.inputs.size();
    different += programs::different_bits(outputs[k].fetched(), single.result(step));
  }
  return different;
}

const Shape kShapes[] = {{},      {1},     {3},        {511},         {1024},
                         {3, 67}, {6, 64}, {5, 1, 41}, {2, 3, 5, 36}, {2, 2, 2, 3, 33}};

}  // namespace

TEST_CASE("random programs give the bits of single kernels") {
  Fresh fresh;
  INFO(fresh.text());
  Generator random(fresh.next());
  for (int round = 0; round < 60; ++round) {
    const DType compute = round % 4 == 0 ? f64 : f32;
    const int steps = 1 + static_cast<int>(random.below(round % 10 == 0 ? 50 : 8));
    const programs::RandomProgram made(random, compute, 1 + static_cast<int>(random.below(5)), steps);
    if (made.program.steps.size() > backend::kDeviceSteps ||
        made.program.outputs.size() > backend::kDeviceResults)
      continue;
    INFO("round ", round, ", ", made.program.steps.size(), " steps");
    CHECK(differences(made.program, kShapes[random.below(std::size(kShapes))], random) == 0);
  }
}

TEST_CASE("every function") {
  Fresh fresh;
  INFO(fresh.text());
  Generator random(fresh.next());
  for (const DType dtype : {f32, f64, bf16, f16}) {
    PointwiseProgram program;
    program.compute = dtype == f64 ? f64 : f32;
    program.inputs = {dtype, dtype};
    program.outputs = {2};
    for (int fn = 0; fn < backend::kUnaryCount; ++fn) {
      program.steps = {{Kind::unary, static_cast<uint8_t>(fn), dtype, {0, -1, -1}, {0.25, 1.5}}};
      INFO(name_of(dtype), " unary ", fn);
      CHECK(differences(program, {260}, random) == 0);
    }
    for (int fn = 0; fn < backend::kBinaryCount; ++fn) {
      program.steps = {{Kind::binary, static_cast<uint8_t>(fn), dtype, {0, 1, -1}, {0.25, 0}}};
      INFO(name_of(dtype), " binary ", fn);
      CHECK(differences(program, {260}, random) == 0);
    }
  }
}

TEST_CASE("an output may be an input, and an input may be an output") {
  Generator random(9);
  // y = (a + b) a, written over a; a + b as well, and b as it is.
  const PointwiseProgram program{f32,
                                 {f32, f32},
                                 {{Kind::binary, static_cast<uint8_t>(BinaryFn::add), f32, {0, 1, -1}, {}},
                                  {Kind::binary, static_cast<uint8_t>(BinaryFn::mul), f32, {2, 0, -1}, {}}},
                                 {3, 2, 1}};
  programs::Arrays arrays;
  const Shape shape{1031};
  const View x = arrays.contiguous(f32, shape), y = arrays.contiguous(f32, shape);
  for (int64_t i = 0; i < shape[0]; ++i) {
    x.as<float>()[i] = static_cast<float>(random.uniform(-1, 1));
    y.as<float>()[i] = static_cast<float>(random.uniform(-1, 1));
  }
  DeviceView a(x), b(y), sum(arrays.contiguous(f32, shape)), same(arrays.contiguous(f32, shape));
  SingleKernels single(program, {a.view(), b.view()}, shape, arrays);
  const View in[] = {a.view(), b.view()}, out[] = {a.view(), sum.view(), same.view()};
  backend::cuda::pointwise(program, out, in);
  CHECK(programs::different_bits(a.fetched(), single.result(1)) == 0);
  CHECK(programs::different_bits(sum.fetched(), single.result(0)) == 0);
  CHECK(programs::different_bits(same.fetched(), y) == 0);
}

TEST_CASE("results that begin inside a 16-byte word, and none at all") {
  const PointwiseProgram program{
      f32, {f32}, {{Kind::unary, static_cast<uint8_t>(UnaryFn::square), f32, {0, -1, -1}, {}}}, {1}};
  const Shape shape{64};
  DeviceArray x = DeviceArray::random(f32, shape, 3), y(f32, shape, Layout::offset);
  const View in[] = {x.view()}, out[] = {y.view()};
  backend::cuda::pointwise(program, out, in);
  const std::vector<double> v = x.values(), squares = y.values();
  for (size_t i = 0; i < v.size(); ++i)
    CHECK(squares[i] == static_cast<double>(static_cast<float>(v[i]) * static_cast<float>(v[i])));
  CHECK(y.untouched_around());
  const View none[] = {{nullptr, f32, {0, 3}, {3, 1}}};
  backend::cuda::pointwise(program, none, none);
}

TEST_CASE("too many operands") {
  PointwiseProgram program{
      f32, std::vector<DType>(17, f32), {{Kind::convert, 0, f32, {0, -1, -1}, {}}}, {17}};
  DeviceArray x(f32, {4}), y(f32, {4});
  const std::vector<View> in(17, x.view());
  const View out[] = {y.view()};
  CHECK_THROWS_WITH_AS(backend::cuda::pointwise(program, out, in), doctest::Contains("TT-SHAPE-02"), Error);
}

#endif
