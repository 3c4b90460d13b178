#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Values = std::vector<double>;

struct Table {
  int64_t V, C;
  Shape index;
  DType dtype;
  Layout layout;
};

void check_table(Fresh& fresh, const Table& c) {
  INFO(text_of(c.dtype), " [", c.V, ", ", c.C, "] at ", c.index.str(), " layout ",
       static_cast<int>(c.layout));
  Shape shape = c.index;
  shape.push_back(c.C);
  DeviceArray weight = fresh.array(c.dtype, {c.V, c.C}, -2, 2, c.layout),
              index = fresh.integers(i64, c.index, 0, static_cast<double>(c.V), c.layout),
              dy = fresh.array(c.dtype, shape, -1, 1, c.layout), out(c.dtype, shape),
              dw(c.dtype, {c.V, c.C}, c.layout), again(c.dtype, {c.V, c.C});
  kernels::embedding(out.view(), weight.view(), index.view());
  kernels::embedding_grad(dw.view(), dy.view(), index.view());
  kernels::embedding_grad(again.view(), dy.view(), index.view());
  const Values table = weight.values(), rows = index.values(), slopes = dy.values();
  Values picked, sums(table.size());
  const auto C = static_cast<size_t>(c.C);
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < C; ++k) {
      picked.push_back(table[static_cast<size_t>(rows[i]) * C + k]);
      sums[static_cast<size_t>(rows[i]) * C + k] += slopes[i * C + k];
    }
  }
  CHECK(out.values() == picked);
  check_close(dw.values(), sums, c.dtype, 4 + static_cast<double>(rows.size()));
  CHECK(again.values() == dw.values());  // the order of additions is fixed
}

}  // namespace

TEST_CASE("embedding and its gradient equal the definition" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const int64_t C : {1, 3, 31, 33, 64, 257}) {
      for (const Layout layout : kLayouts) check_table(fresh, {11, C, {29}, t, layout});
    }
    for (const int64_t n : {1, 3, 31, 257, 1000}) check_table(fresh, {7, 8, {n}, t, Layout::dense});
    check_table(fresh, {1, 5, {33}, t, Layout::dense});     // all gradients are added to one row
    check_table(fresh, {1000, 4, {40}, t, Layout::dense});  // most rows have no index: zeros
    check_table(fresh, {9, 6, {3, 4, 5}, t, Layout::gaps});
    check_table(fresh, {9, 6, {}, t, Layout::dense});
  }
}

TEST_CASE("embedding_grad adds rows in the order of the indices and ignores indices out of range" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  struct Case {
    int64_t V, n;
  };
  for (const Case c :
       {Case{1, 600}, {3, 5000}, {255, 700}, {256, 700}, {257, 1025}, {50304, 300}, {65536, 900}}) {
    INFO("V ", c.V, " n ", c.n);
    Values rows = fresh.whole(c.n, 0, static_cast<double>(c.V));
    for (size_t i = 5; i < rows.size(); i += 17) rows[i] = rows[i - 2];
    for (size_t i = 3; i < rows.size(); i += 29) {
      const double outside[] = {-1, static_cast<double>(c.V), 0x1p40, -0x1p63};
      rows[i] = outside[i % 4];
    }
    // Values whose sum depends on the order of the additions.
    DeviceArray dy = fresh.array(f32, {c.n, 1}, -1, 1), index = DeviceArray::from(i64, {c.n}, rows),
                dw(f32, {c.V, 1});
    kernels::embedding_grad(dw.view(), dy.view(), index.view());
    const Values slopes = dy.values();
    std::vector<float> sums(static_cast<size_t>(c.V));
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < 0 || rows[i] >= static_cast<double>(c.V)) continue;
      sums[static_cast<size_t>(rows[i])] += static_cast<float>(slopes[i]);
    }
    CHECK(dw.values() == Values(sums.begin(), sums.end()));
  }
}

TEST_CASE("embedding propagates NaN, and an index out of range gives zeros" * needs_devices()) {
  DeviceArray weight = DeviceArray::from(f32, {3, 2}, {1, kNan, 3, 4, 5, 6});
  DeviceArray index = DeviceArray::from(i64, {4}, {2, 0, 3, -1}), out(f32, {4, 2}), dw(f32, {3, 2});
  kernels::embedding(out.view(), weight.view(), index.view());
  check_close(out.values(), {5, 6, 1, kNan, 0, 0, 0, 0}, f32, 0);
  DeviceArray inside = DeviceArray::from(i64, {3}, {2, 0, 2}),
              dy = DeviceArray::from(f32, {3, 2}, {1, 2, 3, kNan, 10, 20});
  kernels::embedding_grad(dw.view(), dy.view(), inside.view());
  check_close(dw.values(), {3, kNan, 0, 0, 11, 22}, f32, 0);
}

TEST_CASE("embedding without indices gives an empty result and a zero gradient" * needs_devices()) {
  DeviceArray weight = DeviceArray::from(f32, {2, 3}, Values(6, 1)), none(i64, {0}), out(f32, {0, 3}),
              dw = DeviceArray::from(f32, {2, 3}, Values(6, 7));
  kernels::embedding(out.view(), weight.view(), none.view());
  kernels::embedding_grad(dw.view(), out.view(), none.view());
  CHECK(dw.values() == Values(6, 0));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
