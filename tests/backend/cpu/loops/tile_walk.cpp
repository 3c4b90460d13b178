// Operands that are transposed relative to the result, in every order of the dimensions, of every dtype,
// around the sizes of tiles.
#include <support/array.hpp>

#include <algorithm>
#include <numeric>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/row_walk.hpp>

using namespace test;
namespace cpu = tinytorch::backend::cpu;
using backend::View;

namespace {

template <class T>
void weigh(T* out, const T* const* in, int64_t n, const double* parameters) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[0][i] - static_cast<T>(parameters[0]) * in[1][i];
}

// v permuted: dimension d becomes dimension order[d].
View permuted(const View& v, const std::vector<int>& order) {
  View p = v;
  for (size_t d = 0; d < order.size(); ++d) {
    p.shape[static_cast<int>(d)] = v.shape[order[d]];
    p.strides[static_cast<int>(d)] = v.strides[order[d]];
  }
  return p;
}

// The elements of a view of contiguous memory `values`, in row-major order of the view.
std::vector<double> in_order(const std::vector<double>& values, const View& v) {
  std::vector<double> found;
  int64_t index[kMaxRank];
  for (int64_t i = 0; i < v.numel(); ++i)
    found.push_back(values[static_cast<size_t>(backend::locate(v.shape, v.strides, i, index))]);
  return found;
}

void check_orders(DType dtype, const Shape& shape, bool non_temporal) {
  constexpr double kFactor[] = {0.5};
  std::vector<int> order(static_cast<size_t>(shape.size()));
  std::iota(order.begin(), order.end(), 0);
  Array b = Array::random(dtype, shape, 3, -1, 1);
  do {
    Shape inverse = shape;  // shape of memory whose permuted view has `shape`
    for (size_t d = 0; d < order.size(); ++d) inverse[order[d]] = shape[static_cast<int>(d)];
    Array a = Array::random(dtype, inverse, 2, -1, 1), out(dtype, shape);
    const View crossing = permuted(a.view(), order);
    backend::dispatch_compute(dtype, [&]<class T>(T*) {
      if constexpr (std::is_floating_point_v<T>) {
        const View in[] = {crossing, b.view()};
        const View to = out.view();
        const cpu::TileLoop walk({weigh<T>, kFactor, to, in}, non_temporal);
        if (walk.applies()) {
          walk.run();
        } else {
          cpu::run_elementwise<T>(weigh<T>, to, in, kFactor);
        }
      }
    });
    const std::vector<double> x = in_order(a.values(), crossing), y = b.values(), got = out.values();
    const double epsilon = dtype == f64 ? 0x1p-50 : dtype == f32 ? 0x1p-21 : dtype == f16 ? 0x1p-10 : 0x1p-7;
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) wrong += !(std::abs(got[i] - (x[i] - 0.5 * y[i])) <= 2 * epsilon);
    CAPTURE(shape.str());
    CHECK(wrong == 0);
    Array copied(dtype, shape);
    cpu::copy(copied.view(), crossing);
    CHECK(copied.values() == x);
  } while (std::next_permutation(order.begin(), order.end()));
}

}  // namespace

TEST_CASE("operands in every order of the dimensions") {
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const Shape& shape : {Shape{65, 130}, {64, 64}, {7, 1001}, {1001, 9}, {9, 17, 65}, {3, 8, 9, 33}}) {
      check_orders(dtype, shape, false);
    }
  }
  for (const int64_t cols :
       {33, 47, 48, 49, 64, 80, 81, 127, 128}) {  // around the widths of the last tile of a row
    for (const DType dtype : {f32, f64}) {
      check_orders(dtype, {130, cols}, true);
      check_orders(dtype, {130, cols}, false);
    }
  }
  check_orders(f32, {9, 70, 33}, true);
  check_orders(bf16, {300, 49}, false);
}

TEST_CASE("in place of an operand of the result's layout, and results of another dtype") {
  Array a = Array::random(f32, {100, 70}, 5, -2, 2), b = Array::random(f32, {70, 100}, 6, -2, 2);
  const std::vector<double> x = a.values(), y = in_order(b.values(), permuted(b.view(), {1, 0}));
  cpu::binary(backend::BinaryFn::add, a.view(), a.view(), permuted(b.view(), {1, 0}));
  const std::vector<double> sum = a.values();
  for (size_t i = 0; i < sum.size(); ++i)
    REQUIRE(sum[i] == static_cast<double>(static_cast<float>(x[i]) + static_cast<float>(y[i])));
  Array less(boolean, {100, 70});
  cpu::binary(backend::BinaryFn::lt, less.view(), a.view(), permuted(b.view(), {1, 0}));
  const std::vector<double> found = less.values();
  for (size_t i = 0; i < found.size(); ++i) REQUIRE((found[i] != 0) == (sum[i] < y[i]));
  Array rounded(i64, {100, 70});
  cpu::copy(rounded.view(), permuted(b.view(), {1, 0}));
  const std::vector<double> whole = rounded.values();
  for (size_t i = 0; i < whole.size(); ++i) REQUIRE(whole[i] == std::trunc(y[i]));
}
