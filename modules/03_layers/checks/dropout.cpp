#include <support/check.hpp>
#include <tinytorch/backend/cpu/dropout.hpp>
#include <tinytorch/core/random.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

std::string call(const Shape& shape, double p, Layout layout, uint64_t first) {
  return "dropout of " + shape.str() + ", p " + shown(p) + ", first block " + std::to_string(first) + ", " +
         name_of_layout(layout);
}
void check(DType dtype, const Shape& shape, double p, Layout layout = Layout::contiguous, uint64_t seed = 7,
           uint64_t first = 0) {
  Values x = Values::random(dtype, shape, layout, 1, 2), out(dtype, shape, layout);
  Numbers want = x.numbers();
  std::vector<PhiloxBlock> blocks;
  for (size_t i = 0; i < want.size(); ++i) {
    if (i % 4 == 0) blocks.push_back(philox(seed, first + i / 4));
    want[i] = blocks[i / 4].v[i % 4] < p * 4294967296.0 ? 0 : want[i] / (1 - p);
  }
  cpu::dropout(out.view(), x.view(), p, seed, first);
  expect_close(call(shape, p, layout, first), out, want, {.roundings = 4, .scale = 0});
}

}  // namespace

TEST_CASE("3.11 an element's random word decides whether it is kept") {
  check(f32, {4}, 0.5);
  for (const int64_t n : {1, 3, 5, 17, 129}) check(f32, {n}, 0.3);
}

TEST_CASE("3.11 another seed or another position in the stream gives another mask") {
  check(f32, {37}, 0.5, Layout::contiguous, 12345678901234567ull, 0);
  check(f32, {37}, 0.5, Layout::contiguous, 7, 1000);
  check(f32, {37}, 0.5, Layout::contiguous, 7, (uint64_t{1} << 32) - 2);
}

TEST_CASE("3.11 the expected value does not change") {
  constexpr int64_t kCount = 4000;
  Values x = Values::of(f32, {kCount}, Numbers(kCount, 1.0)), out(f32, {kCount});
  for (const double p : {0.1, 0.75}) {
    cpu::dropout(out.view(), x.view(), p, 3, 0);
    double sum = 0;
    for (const double v : out.numbers()) sum += v / kCount;
    expect("dropout of 4000 ones, p " + shown(p) + ": their mean is about 1, got " + shown(sum),
           std::abs(sum - 1) < 0.15, "kept elements are divided by 1 - p");
  }
}

TEST_CASE("3.11 p = 0 keeps everything, p = 1 nothing") {
  Values x = Values::random(f32, {4001}), out(f32, {4001});
  cpu::dropout(out.view(), x.view(), 0, 5, 0);
  expect_close("dropout with p 0", out, x.numbers(), {.roundings = 0});
  cpu::dropout(out.view(), x.view(), 1, 5, 0);
  expect_close("dropout with p 1", out, Numbers(4001, 0.0));
  Values infinite = Values::of(f32, {5}, Numbers(5, HUGE_VAL)), none(f32, {5});
  cpu::dropout(none.view(), infinite.view(), 1, 5, 0);
  expect_close("dropout of 5 infinities with p 1", none, Numbers(5, 0.0));
}

TEST_CASE("3.11 a dropped element is 0, even if it was infinite") {
  Values x = Values::of(f32, {64}, Numbers(64, HUGE_VAL)), out(f32, {64});
  cpu::dropout(out.view(), x.view(), 0.5, 7, 0);
  Numbers want;
  for (size_t i = 0; i < 64; ++i) want.push_back(philox(7, i / 4).v[i % 4] < 0x80000000u ? 0 : HUGE_VAL);
  expect_close("dropout of 64 infinities, p 0.5", out, want);
}

TEST_CASE("3.11 any layout and dtype, and in place") {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const Layout layout : kLayouts) check(dtype, {3, 7}, 0.4, layout);
  }
  Values x = Values::random(f32, {33}), out(f32, {33});
  cpu::dropout(out.view(), x.view(), 0.5, 7, 0);
  cpu::dropout(x.view(), x.view(), 0.5, 7, 0);
  expect_close("dropout of [33] in place", x, out.numbers(), {.roundings = 0});
}
