#include <algorithm>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;
constexpr DType kAll[] = {f32, f64, bf16, f16, i8, u8, i32, i64, boolean};

// Few distinct values, so that the first of equal values is tested. Some floats are NaN.
DeviceArray keys(Fresh& fresh, DType t, const Shape& shape, Layout layout, bool with_nan) {
  Values values = fresh.whole(shape.numel(), t == u8 || t == boolean ? 0 : -9, t == boolean ? 2 : 9);
  for (size_t i = 3; with_nan && i < values.size(); i += 17) values[i] = kNan;
  return DeviceArray::from(t, shape, values, layout);
}

size_t position_of_extreme(const Values& x, const std::vector<size_t>& line, bool largest) {
  size_t best = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const double v = x[line[i]], held = x[line[best]];
    if (std::isnan(v)) return i;
    if (largest ? v > held : v < held) best = i;
  }
  return best;
}

void check_extremes(Fresh& fresh, DType t, const Shape& shape, int dim, Layout layout) {
  for (const bool with_nan : {false, true}) {
    if (with_nan && !is_floating(t)) continue;
    INFO(text_of(t), " of ", shape.str(), " along ", dim, " layout ", static_cast<int>(layout), " NaN ",
         with_nan);
    DeviceArray x = keys(fresh, t, shape, layout, with_nan);
    Shape kept = shape, dropped;
    kept[dim] = 1;
    for (int k = 0; k < shape.size(); ++k) {
      if (k != dim) dropped.push_back(shape[k]);
    }
    const Values values = x.values();
    for (const bool largest : {false, true}) {
      DeviceArray narrow(i64, dropped), wide(i64, kept, Layout::gaps);
      kernels::arg_extreme(narrow.view(), x.view(), dim, largest);
      kernels::arg_extreme(wide.view(), x.view(), dim, largest);
      Values want;
      for (const auto& line : lines_of(shape, dim)) {
        want.push_back(static_cast<double>(position_of_extreme(values, line, largest)));
      }
      CHECK(narrow.values() == want);
      CHECK(wide.values() == want);
    }
  }
}

void check_running_sum(Fresh& fresh, DType t, const Shape& shape, int dim, Layout layout) {
  INFO(text_of(t), " of ", shape.str(), " along ", dim, " layout ", static_cast<int>(layout));
  const double size = t == u8 || t == i8 ? 100 : 100000;
  DeviceArray x = is_floating(t) ? fresh.array(t, shape, -1, 2, layout)
                                 : fresh.integers(t, shape, t == u8 ? 0 : -size, size, layout);
  const DType sum = is_floating(t) ? t : i64;  // i64, so that sums of integers do not wrap
  DeviceArray out(sum, shape, layout), again(sum, shape);
  kernels::cumsum(out.view(), x.view(), dim);
  kernels::cumsum(again.view(), x.view(), dim);
  const Values values = x.values();
  Values want(values.size());
  for (const auto& line : lines_of(shape, dim)) {
    double sum = 0;
    for (const size_t i : line) want[i] = sum += values[i];
  }
  // Sums are kept in double, so only f64 results depend on the order of the additions. Each addition, here
  // and in the reference, changes them by at most half a rounding of the sum of magnitudes (below 2 each).
  const auto terms = static_cast<double>(shape[dim]);
  if (t == f64) check_close(out.values(), want, t, terms, 2 * terms);
  if (is_floating(t) && t != f64) check_close(out.values(), want, t, 4, 1e-3);
  if (!is_floating(t)) CHECK(out.values() == want);
  CHECK(again.values() == out.values());  // bit-identical for every layout
}

}  // namespace

TEST_CASE("arg_extreme gives the first largest, first smallest or first NaN along every dimension" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kAll) {
    for (const int64_t n : {1, 3, 31, 33, 257, 1000}) {
      check_extremes(fresh, t, {n}, 0, kLayouts[fresh.next() % 3]);
      check_extremes(fresh, t, {n, 3}, 0, kLayouts[fresh.next() % 3]);
    }
    for (const int dim : {0, 1, 2}) {
      for (const Layout layout : kLayouts) check_extremes(fresh, t, {5, 4, 33}, dim, layout);
    }
  }
  check_extremes(fresh, f32, {3, 4099}, 0, Layout::dense);  // a thread per line
}

TEST_CASE("cumsum equals the definition along every dimension, in one chunk and in several" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {f32, f64, bf16, f16, i8, u8, i32, i64}) {
    for (const int64_t n : {1, 3, 31, 33, 63, 64, 257, 1000, 1025, 3000}) {
      check_running_sum(fresh, t, {n}, 0, kLayouts[fresh.next() % 3]);
      check_running_sum(fresh, t, {2, n}, 1, kLayouts[fresh.next() % 3]);
    }
    for (const int dim : {0, 1, 2}) {
      for (const Layout layout : kLayouts) check_running_sum(fresh, t, {5, 70, 6}, dim, layout);
    }
  }
  check_running_sum(fresh, f32, {9001}, 0, Layout::dense);
  check_running_sum(fresh, f32, {66, 4099}, 0, Layout::dense);  // a thread per line
}

TEST_CASE(
    "cumsum propagates NaN and infinity only to later elements of their line, and scans accept empty "
    "tensors" *
    needs_devices()) {
  for (const int64_t n : {40, 1500}) {
    Values values(static_cast<size_t>(2 * n), 1);
    values[10] = kInfinity;
    values[20] = kNan;
    DeviceArray x = DeviceArray::from(f32, {2, n}, values), out(f32, {2, n});
    kernels::cumsum(out.view(), x.view(), 1);
    Values want(values.size());
    for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<double>(i % static_cast<size_t>(n) + 1);
    for (size_t i = 10; i < static_cast<size_t>(n); ++i) want[i] = i < 20 ? kInfinity : kNan;
    check_close(out.values(), want, f32, 0);
  }
  DeviceArray none(f32, {0, 3}), at(i64, {0});
  kernels::cumsum(none.view(), none.view(), 0);
  kernels::arg_extreme(at.view(), none.view(), 1, true);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
