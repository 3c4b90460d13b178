#include <support/few.hpp>
#include <support/fresh.hpp>
#include <tinytorch/tinytorch.hpp>

#include <algorithm>
#include <numeric>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;
constexpr DType kAll[] = {f32, f64, bf16, f16, i8, u8, i32, i64, boolean};

// Positions of a row in sorted order: stable, NaN largest.
std::vector<size_t> order_of(const Values& row, bool descending) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto less = [&](size_t a, size_t b) {
    if (std::isnan(row[a]) || std::isnan(row[b])) return !std::isnan(row[a]) && std::isnan(row[b]);
    return row[a] < row[b];
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return descending ? less(b, a) : less(a, b); });
  return order;
}

// Few distinct values, so that many are equal; floats also have NaN and infinities.
Values keys(Fresh& fresh, DType t, int64_t count) {
  Values values = fresh.whole(count, t == u8 ? 0 : -20, t == boolean ? 2 : 20);
  for (size_t i = 0; i < values.size(); ++i) {
    if (t == boolean) values[i] = values[i] > 0;
    if (is_floating(t) && i % 13 == 5) values[i] = i % 2 ? kNan : (i % 4 ? kInfinity : -kInfinity);
  }
  return values;
}

void check_sorted(Fresh& fresh, DType t, int64_t rows, int64_t n, int64_t k, bool descending) {
  INFO(text_of(t), " [", rows, ", ", n, "] first ", k,
       std::string(descending ? " descending" : " ascending"));
  const Values all = keys(fresh, t, rows * n);
  DeviceArray x = DeviceArray::from(t, {rows, n}, all), values(t, {rows, k}), indices(i64, {rows, k});
  kernels::sort_rows(values.view(), indices.view(), x.view(), k, descending);
  Values want, at;
  for (int64_t r = 0; r < rows; ++r) {
    const Values row(all.begin() + r * n, all.begin() + (r + 1) * n);
    const std::vector<size_t> order = order_of(row, descending);
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
      want.push_back(row[order[i]]);
      at.push_back(static_cast<double>(order[i]));
    }
  }
  CHECK(indices.values() == at);
  check_close(values.values(), want, t, 0);
}

}  // namespace

TEST_CASE("sort_rows is stable and treats NaN as the largest value" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kAll) {
    for (const int64_t n : {1, 2, 3, 31, 33, 257, 1000, 1024, 1025, 2500}) {
      if (test::left_out(4)) continue;
      for (const bool descending : {false, true}) {
        check_sorted(fresh, t, 2, n, n, descending);
        check_sorted(fresh, t, 2, n, (n + 2) / 3, descending);
      }
    }
  }
  check_sorted(fresh, f32, 33, 31, 7, true);
  check_sorted(fresh, f32, 1, 4097, 4097, false);
}

TEST_CASE("sort_rows distinguishes all keys that differ" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {f32, f64}) {
    DeviceArray x = fresh.array(t, {3, 700}), values(t, {3, 700}), indices(i64, {3, 700});
    kernels::sort_rows(values.view(), indices.view(), x.view(), 700, false);
    const Values from = x.values(), got = values.values(), at = indices.values();
    for (size_t i = 0; i < got.size(); ++i) {
      if (i % 700 != 0) REQUIRE(got[i - 1] <= got[i]);
      REQUIRE(got[i] == from[i / 700 * 700 + static_cast<size_t>(at[i])]);
    }
  }
}

TEST_CASE("sort works along other dimensions, on transposed tensors and on empty tensors" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  namespace tt = tinytorch;
  const tt::Tensor x = tt::from_data(keys(fresh, f64, 12 * 35), {12, 35});
  const tt::Tensor on_gpu = x.to(tt::cuda).transpose(0, 1);
  for (const int dim : {0, 1}) {
    const auto got = tt::sort(on_gpu, dim), expected = tt::sort(x.transpose(0, 1), dim);
    CHECK(got.indices.to(tt::cpu).to_vector<int64_t>() == expected.indices.to_vector<int64_t>());
  }
  DeviceArray none(f32, {0, 5}), nothing(f32, {3, 0}), at(i64, {0, 5}), nowhere(i64, {3, 0});
  kernels::sort_rows(none.view(), at.view(), none.view(), 5, false);
  kernels::sort_rows(nothing.view(), nowhere.view(), nothing.view(), 0, false);
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
