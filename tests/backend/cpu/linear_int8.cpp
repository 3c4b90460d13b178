#include <tinytorch/backend/cpu/linear_int8.hpp>

#include <support/codes_products.hpp>
#include <support/errors.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

using backend::View;

struct Call {
  Array x, w, x_scale, w_scale, bias, out;
  Call(const CodesCase& c, const CodesOperands& o, DType codes, Layout layout)
      : x(Array::from(codes, {c.M, c.K}, o.x, layout)),
        w(Array::from(codes, {c.N, c.K}, o.w, layout)),
        x_scale(Array::from(f32, {static_cast<int64_t>(o.x_scale.size())}, o.x_scale)),
        w_scale(Array::from(f32, {static_cast<int64_t>(o.w_scale.size())}, o.w_scale)),
        bias(Array::from(c.bias, {static_cast<int64_t>(o.bias.size())}, o.bias)),
        out(c.out, {c.M, c.N}, layout) {}
  void run(const CodesCase& c, DType codes) {
    const View scale = c.scaled ? x_scale.view() : View{}, of_w = c.scaled ? w_scale.view() : View{},
               add = c.biased ? bias.view() : View{};
    (codes == i8 ? kernels::linear_int8 : kernels::linear_fp8)(out.view(), x.view(), w.view(), scale, of_w,
                                                               add, c.fn);
  }
};

void check(const CodesCase& c, DType codes, uint64_t seed, Layout layout, bool extreme = false) {
  INFO(c.M, " x ", c.N, " x ", c.K, ", result ", std::string(name_of(c.out)), ", layout ",
       static_cast<int>(layout), ", activation ", static_cast<int>(c.fn));
  const CodesOperands o = codes_operands(c, codes, seed, extreme);
  Call call(c, o, codes, layout);
  call.run(c, codes);
  std::vector<double> bound;
  const std::vector<double> want = codes_product(c, o, codes, bound);
  check_codes_result(c, codes, call.out.values(), want, bound);
}

constexpr Activation kAll[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu,
                               Activation::gelu_tanh};

}  // namespace

TEST_CASE("results follow the definition for every size, dtype, scale, bias, activation and layout") {
  uint64_t seed = 3;
  for (const auto& [M, N, K] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {1, 33, 100}, {17, 9, 64}, {40, 70, 129}}) {
    for (const DType codes : {i8, u8}) {
      for (const DType out : {f32, bf16, f16}) {
        for (const Activation fn : kAll) {
          const Layout layout = kLayouts[seed % 3];
          check({M, N, K, out, seed % 2 == 0, seed % 4 < 2, true, seed % 5 != 0, fn, seed % 3 ? f32 : bf16},
                codes, seed + 1, layout);
          ++seed;
        }
        if (out != f16)
          check({M, N, K, out, true, true, false, false}, codes, ++seed, Layout::dense);  // f16 overflows
      }
    }
    for (const Layout layout : kLayouts) check({M, N, K, i32, true, true, false, false}, i8, ++seed, layout);
  }
}

TEST_CASE("sums are exact: -128 times -128, no depth, and a long depth") {
  for (const int64_t K : {0, 1, 1000, 131'071})
    check({2, 3, K, i32, true, true, false, false}, i8, 9, Layout::dense, true);
  check({3, 4, 0, f32}, i8, 1, Layout::dense);
  check({3, 4, 0, f32}, u8, 1, Layout::dense);
  check({0, 4, 3, f32}, i8, 1, Layout::dense);
  check({4, 0, 3, f32}, i8, 1, Layout::dense);
}

TEST_CASE("a NaN scale, of a row that is not finite, gives a row of NaN") {
  const CodesCase c{2, 3, 4};
  CodesOperands o = codes_operands(c, i8, 1);
  o.x_scale[1] = NAN;
  Call call(c, o, i8, Layout::dense);
  call.run(c, i8);
  const auto out = call.out.values();
  for (size_t i = 0; i < 6; ++i) CHECK(std::isnan(out[i]) == (i >= 3));
}

TEST_CASE("operands that do not fit are refused") {
  Array x(i8, {2, 4}), w(i8, {3, 4}), out(f32, {2, 3}), sums(i32, {2, 3}), scale(f32, {3}), bias(f32, {3}),
      u(u8, {2, 4});
  const auto call = [&](const View& to, const View& of_x, const View& by) {
    return message_of([&] { kernels::linear_int8(to, of_x, w.view(), by, {}, {}, Activation::none); });
  };
  CHECK(call(out.view(), u.view(), {})
            .find("TT-DTYPE-02: linear_int8: x is u8, weight is i8\n  rule: both are i8") == 0);
  CHECK(call(sums.view(), x.view(), scale.view()).find("TT-DTYPE-02: linear_int8: the result is i32") == 0);
  CHECK(call(out.view(), x.view(), scale.view()).find("TT-SHAPE-02: linear_int8: x [2, 4], weight [3, 4]") ==
        0);
  CHECK(call(x.view(), x.view(), {}).find("TT-DTYPE-02: linear_int8: the result is i8") == 0);
}
