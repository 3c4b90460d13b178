// The text of kernels, and the classes of layout. That kernels compute the right bits is tested in
// compiled_pointwise.cpp.
#include <doctest/doctest.h>

#include <bit>
#include <string>
#include <tinytorch/acceleration/emit_cpu.hpp>
#include <vector>

using namespace tinytorch;
using namespace tinytorch::acceleration;
using Kind = PointwiseStep::Kind;

namespace {
PointwiseProgram clamp_sum(double low, double high) {
  const auto add = static_cast<uint8_t>(backend::BinaryFn::add),
             clamp = static_cast<uint8_t>(backend::UnaryFn::clamp);
  return {f32,
          {f32, f32},
          {{Kind::binary, add, f32, {0, 1, -1}, {}}, {Kind::unary, clamp, f32, {2, -1, -1}, {low, high}}},
          {3}};
}
View view(const Shape& shape, const Strides& strides, DType dtype = f32) {
  return {nullptr, dtype, shape, strides};
}
using Layouts = std::vector<InputLayout>;
}  // namespace

TEST_CASE("the class of layout of each input") {
  using enum InputLayout;
  const PointwiseProgram p = clamp_sum(0, 1);
  const auto layout = [&](const Shape& shape, const View& a, const View& b) {
    const View in[] = {a, b};
    const auto call = kernel_call_for(p, shape, in, false);
    return call ? call->layout : KernelLayout{true, {}};
  };
  const View full = view({8, 64}, {64, 1});
  CHECK(layout({8, 64}, full, full) == KernelLayout{false, Layouts{contiguous, contiguous}});
  CHECK(layout({8, 64}, full, view({}, {})) == KernelLayout{false, Layouts{contiguous, constant}});
  CHECK(layout({8, 64}, full, view({1, 1}, {1, 1})) == KernelLayout{false, Layouts{contiguous, constant}});
  CHECK(layout({8, 64}, full, view({64}, {1})) == KernelLayout{true, Layouts{contiguous, contiguous}});
  CHECK(layout({8, 64}, full, view({8, 1}, {1, 1})) == KernelLayout{true, Layouts{contiguous, repeated}});
  CHECK(layout({8, 64}, full, view({8, 64}, {1, 8})) == KernelLayout{true, Layouts{contiguous, strided}});
  CHECK(layout({512}, view({512}, {2}), view({512}, {-1})) == KernelLayout{false, Layouts{strided, strided}});
  // Too many dimensions, and rows that are too short.
  CHECK(layout({2, 2, 2, 2, 64}, view({2, 2, 2, 2, 64}, {1, 2, 4, 8, 16}), full).inputs.empty());
  CHECK(layout({64, 3}, view({64, 3}, {3, 1}), view({3}, {1})).inputs.empty());
}

TEST_CASE("sizes, strides and parameters are arguments, not text") {
  const View small[] = {view({8, 64}, {64, 1}), view({64}, {1})},
             large[] = {view({2, 5, 99}, {495, 99, 1}), view({99}, {1})};
  const PointwiseProgram p = clamp_sum(0, 1), q = clamp_sum(-2, 7);
  const auto a = kernel_call_for(p, {8, 64}, small, false), b = kernel_call_for(q, {2, 5, 99}, large, true);
  REQUIRE(a);
  REQUIRE(b);
  CHECK(emit_cpu(p, a->layout) == emit_cpu(q, b->layout));
  CHECK(a->arguments ==
        std::vector<int64_t>{1, 1, 8, 64, 0, 0, 64, 1, 0, 0, 0, 1, 0, 0, 0, std::bit_cast<int64_t>(1.0), 0});
  CHECK(b->arguments[2] == 10);  // merged: 2 times 5
  CHECK(b->arguments.back() == 1);
}

TEST_CASE("what decides the result is in the text") {
  const KernelLayout flat{false, {InputLayout::contiguous, InputLayout::contiguous}};
  const PointwiseProgram p = clamp_sum(0, 1);
  const std::string text = emit_cpu(p, flat);
  CHECK(text.find("#include") == std::string::npos);
  std::vector<PointwiseProgram> others(5, p);
  others[0].steps[0].fn = static_cast<uint8_t>(backend::BinaryFn::sub);
  others[1].steps[0].dtype = bf16;
  others[2].inputs[1] = f16;
  others[3].outputs = {3, 2};
  others[4].steps[1].in[0] = 1;
  for (const PointwiseProgram& other : others) CHECK(emit_cpu(other, flat) != text);
  CHECK(emit_cpu(p, {true, {InputLayout::contiguous, InputLayout::repeated}}) != text);
}
