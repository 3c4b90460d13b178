// Elementwise loops over operands of all dtypes and layouts, with a function of three inputs; rows around the
// lengths at which loops change; constants along a row; non-temporal stores.
#include <support/array.hpp>

#include <tinytorch/backend/cpu/loops/row_walk.hpp>

using namespace test;
namespace cpu = tinytorch::backend::cpu;

namespace {

template <class T>
void multiply_and_add(T* out, const T* const* in, int64_t n, const double* parameters) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[0][i] * in[1][i] + static_cast<T>(parameters[0]) * in[2][i];
}

}  // namespace

TEST_CASE("three operands of every layout, broadcast from rows, columns and single values") {
  constexpr double kFactor[] = {0.5};
  for (const int64_t row : {1, 2, 255, 256, 257, 1025, 2600, 8200}) {
    constexpr int64_t kRows = 3;
    const Shape shape{kRows, row};
    const Shape smaller[] = {shape, {row}, {kRows, 1}, {1}};
    for (const DType dtype : {f32, f64, bf16, f16}) {
      for (const Layout layout : kLayouts) {
        for (int which = 0; which < 4; ++which) {
          Array a = Array::random(dtype, smaller[which], 1, -1, 1, layout),
                b = Array::random(dtype, smaller[(which + 1) % 4], 2, -1, 1, layout),
                c = Array::random(dtype, shape, 3, -1, 1, layout),
                out(dtype, shape, which % 2 == 0 ? layout : Layout::dense);
          backend::dispatch_compute(dtype, [&]<class T>(T*) {
            if constexpr (std::is_floating_point_v<T>)
              cpu::run_elementwise<T>(multiply_and_add<T>, out.view(), {a.view(), b.view(), c.view()},
                                      kFactor);
          });
          const std::vector<double> u = a.values(), v = b.values(), w = c.values(), got = out.values();
          const auto at = [&](const std::vector<double>& x, const Shape& s, int64_t i) {
            const int64_t r = s.size() == 2 && s[0] == kRows ? i / row : 0,
                          k = s[s.size() - 1] == row ? i % row : 0;
            return x[static_cast<size_t>(r * s[s.size() - 1] + k)];
          };
          const double epsilon = dtype == f64   ? 0x1p-50
                                 : dtype == f32 ? 0x1p-21
                                 : dtype == f16 ? 0x1p-10
                                                : 0x1p-7;
          size_t wrong = 0;
          for (int64_t i = 0; i < kRows * row; ++i) {
            const double want = at(u, smaller[which], i) * at(v, smaller[(which + 1) % 4], i) +
                                0.5 * w[static_cast<size_t>(i)];
            wrong += !(std::abs(got[static_cast<size_t>(i)] - want) <= 2 * epsilon);
          }
          CAPTURE(row);
          CAPTURE(which);
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("non-temporal stores give the same bits as ordinary ones") {
  constexpr double kFactor[] = {0.25};
  for (const int64_t row : {300, 1024, 20000}) {
    const Shape shape{4, row};
    Array a = Array::random(f32, shape, 1), column = Array::random(f32, {4, 1}, 2),
          c = Array::random(f32, {row}, 3), stays(f32, shape), leaves(f32, shape);
    const backend::View in[] = {a.view(), column.view(), c.view()};
    const backend::View to = stays.view(), past = leaves.view();
    cpu::RowLoop({multiply_and_add<float>, kFactor, to, in}, false).run();
    cpu::RowLoop({multiply_and_add<float>, kFactor, past, in}, true).run();
    CHECK(stays.values() == leaves.values());
  }
}

TEST_CASE("empty results call no kernel") {
  Array a(f32, {0, 3}), b(f32, {3});
  const auto never = +[](float*, const float* const*, int64_t, const double*) { FAIL("called"); };
  cpu::run_elementwise<float>(never, a.view(), {a.view(), b.view()}, nullptr);
}
