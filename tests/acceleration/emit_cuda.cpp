// The text of kernels for a GPU, and the elements per thread. That kernels compute the right bits is tested
// in device_pointwise.cpp.
#include <doctest/doctest.h>

#include <string>
#include <support/pointwise_programs.hpp>
#include <tinytorch/acceleration/emit_cuda.hpp>
#include <tinytorch/acceleration/nvrtc.hpp>
#include <vector>

using namespace tinytorch;
using namespace tinytorch::acceleration;
using Kind = PointwiseStep::Kind;

namespace {

PointwiseProgram clamp_sum(DType dtype) {
  const auto add = static_cast<uint8_t>(backend::BinaryFn::add),
             clamp = static_cast<uint8_t>(backend::UnaryFn::clamp);
  return {f32,
          {dtype, dtype},
          {{Kind::binary, add, dtype, {0, 1, -1}, {}}, {Kind::unary, clamp, dtype, {2, -1, -1}, {0, 1}}},
          {3}};
}

// Elements per thread of a program with two inputs of these strides at these addresses.
int elements(DType dtype, const Shape& shape, const Strides& a, const Strides& b, uintptr_t out = 256,
             uintptr_t in = 512) {
  const PointwiseProgram p = clamp_sum(dtype);
  const View views[] = {{nullptr, dtype, shape, a}, {nullptr, dtype, shape, b}};
  const auto call = kernel_call_for(p, shape, views, false);
  REQUIRE(call);
  void* const results[] = {reinterpret_cast<void*>(out)};
  const void* const operands[] = {reinterpret_cast<void*>(in), reinterpret_cast<void*>(in)};
  return elements_per_thread(p, *call, results, operands);
}

}  // namespace

TEST_CASE("elements per thread") {
  CHECK(elements(f32, {1000}, {1}, {1}) == 8);
  CHECK(elements(bf16, {1000}, {1}, {1}) == 16);
  CHECK(elements(f32, {1000}, {1}, {0}) == 8);
  CHECK(elements(f32, {8, 64}, {64, 1}, {0, 1}) == 8);   // a row for all rows
  CHECK(elements(f32, {8, 64}, {64, 1}, {1, 0}) == 8);   // a column for all columns
  CHECK(elements(f32, {8, 65}, {65, 1}, {0, 1}) == 1);   // a vector would cross rows
  CHECK(elements(f32, {8, 64}, {65, 1}, {64, 1}) == 1);  // rows that begin between vectors
  CHECK(elements(f32, {1000}, {2}, {1}) == 1);           // every second element
  CHECK(elements(f32, {8, 64}, {1, 8}, {64, 1}) == 1);   // transposed
  CHECK(elements(f32, {1000}, {1}, {1}, 260) == 1);      // addresses between vectors
  CHECK(elements(f32, {1000}, {1}, {1}, 256, 516) == 1);
}

TEST_CASE("sizes, strides and parameters are arguments, not text") {
  PointwiseProgram p = clamp_sum(f32), q = clamp_sum(f32);
  q.steps[1].p[0] = -3;
  const KernelLayout layout{true, {InputLayout::contiguous, InputLayout::repeated}};
  CHECK(emit_cuda(p, layout, 8) == emit_cuda(q, layout, 8));
  CHECK(emit_cuda(p, layout, 8) != emit_cuda(p, layout, 1));
}

TEST_CASE("NVRTC compiles random programs in every layout") {
  REQUIRE(device_prelude().problem == "");
  if (!nvrtc().problem.empty()) {
    MESSAGE("not run: ", nvrtc().problem);
    return;
  }
  Generator random(3);
  using enum InputLayout;
  for (int round = 0; round < 12; ++round) {
    const DType compute = round % 4 == 0 ? f64 : f32;
    const tinytorch_tests::RandomProgram made(random, compute, 1 + static_cast<int>(random.below(4)),
                                              2 + 3 * (round % 5));
    KernelLayout layout{round % 2 == 1, {}};
    const int elements = round % 3 == 0 ? 1 : most_elements(made.program);
    for (size_t k = 0; k < made.program.inputs.size(); ++k) {
      const InputLayout all[] = {constant, contiguous, layout.rows ? repeated : constant,
                                 elements == 1 ? strided : contiguous};
      layout.inputs.push_back(all[random.below(4)]);
    }
    INFO("round ", round);
    std::string problem;
    CHECK(!compile_cuda(device_prelude().text + emit_cuda(made.program, layout, elements), "sm_90", problem)
               .empty());
    CHECK(problem == "");
  }
}
