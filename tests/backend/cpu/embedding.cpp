#include <support/array.hpp>

#include <tinytorch/backend/cpu/embedding.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("embedding and its gradient equal the definition") {
  const int64_t sizes[][3] = {
      {1, 1, 1}, {5, 7, 3}, {3, 130, 40}, {50, 17, 2000}, {4, 33, 0}};  // V, C, tokens
  for (const auto& [V, C, tokens] : sizes) {
    for (DType dtype : kFloating) {
      for (Layout layout : {Layout::dense, Layout::gaps}) {
        Generator generator(3);
        std::vector<double> rows;
        for (int64_t i = 0; i < tokens; ++i)
          rows.push_back(static_cast<double>(generator.below(static_cast<uint64_t>(V))));
        Array w = Array::random(dtype, {V, C}, 1, -1, 1, layout),
              index = Array::from(i64, {tokens}, rows, layout);
        Array y(dtype, {tokens, C}), dy = Array::random(dtype, {tokens, C}, 2, -1, 1, layout),
                                     dw(dtype, {V, C});
        kernels::embedding(y.view(), w.view(), index.view());
        kernels::embedding_grad(dw.view(), dy.view(), index.view());
        const std::vector<double> table = w.values(), grad = dy.values();
        std::vector<double> want, want_dw(table.size(), 0.0);
        for (size_t i = 0; i < rows.size(); ++i) {
          for (size_t c = 0; c < static_cast<size_t>(C); ++c) {
            const size_t at = static_cast<size_t>(rows[i]) * static_cast<size_t>(C) + c;
            want.push_back(table[at]);
            want_dw[at] += grad[i * static_cast<size_t>(C) + c];
          }
        }
        CHECK(y.values() == want);
        check_close(dw.values(), want_dw, dtype, 200);
      }
    }
  }
}

TEST_CASE("embedding of a transposed table, and of indices of rank 0") {
  Array w = Array::from(f32, {2, 3}, {1, 2, 3, 4, 5, 6}), y(f32, {2, 2}),
        index = Array::from(i64, {2}, {2, 0});
  backend::View transposed = w.view();
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  kernels::embedding(y.view(), transposed, index.view());
  CHECK(y.values() == std::vector<double>{3, 6, 1, 4});
  int64_t one = 1;
  Array row(f32, {3});
  kernels::embedding(row.view(), w.view(), {&one, i64, {}, {}});
  CHECK(row.values() == std::vector<double>{4, 5, 6});
}

TEST_CASE("first_outside finds the first index outside the table") {
  Array good = Array::from(i64, {2, 2}, {0, 4, 2, 1}, Layout::gaps),
        high = Array::from(i64, {2, 2}, {0, 4, 5, -1});
  Array low = Array::from(i64, {3}, {0, 1, -1}, Layout::gaps);
  CHECK(kernels::first_outside(good.view(), 5) == -1);
  CHECK(kernels::first_outside(high.view(), 5) == 2);
  CHECK(kernels::first_outside(low.view(), 5) == 2);
}
