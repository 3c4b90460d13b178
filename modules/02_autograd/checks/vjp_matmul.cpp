#include "reference.hpp"

#include <tinytorch/tensor/vjp/matmul.hpp>

using namespace course;

namespace {

// [M, K] times [K, N]; a flag says that the operand is stored as its transpose.
Numbers product(const double* a, bool a_turned, const double* b, bool b_turned, int64_t M, int64_t K,
                int64_t N) {
  Numbers out(static_cast<size_t>(M * N));
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k = 0; k < K; ++k) {
        out[static_cast<size_t>(m * N + n)] +=
            a[a_turned ? k * M + m : m * K + k] * b[b_turned ? n * K + k : k * N + n];
      }
    }
  }
  return out;
}

// The first position of the matrix of batch i in an operand whose batch dimensions are broadcast to `batch`.
size_t matrix_at(int64_t i, const Shape& batch, const Shape& operand) {
  const Shape at = index_of(batch, i);
  const int lead = operand.size() - 2;
  int64_t linear = 0;
  for (int d = 0; d < lead; ++d) {
    linear = linear * operand[d] + (operand[d] == 1 ? 0 : at[batch.size() - lead + d]);
  }
  return static_cast<size_t>(linear * operand[lead] * operand[lead + 1]);
}
Shape with(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// Batch dimensions: `batch` of g, `of_a` and `of_b` of the operands.
void check_product(const Shape& batch, const Shape& of_a, const Shape& of_b, int64_t M, int64_t K, int64_t N,
                   DType dtype = f64, Layout layout = Layout::contiguous) {
  const Shape sg = with(batch, M, N), sa = with(of_a, M, K), sb = with(of_b, K, N);
  const Tensor g = random_tensor(sg, dtype, layout), a = random_tensor(sa, dtype, layout),
               b = random_tensor(sb, dtype, layout);
  const Numbers ng = numbers_of(g), na = numbers_of(a), nb = numbers_of(b);
  Numbers left, right;
  for (int64_t i = 0; i < batch.numel(); ++i) {
    const double* gi = ng.data() + i * M * N;
    const Numbers l = product(gi, false, nb.data() + matrix_at(i, batch, sb), true, M, N, K);
    const Numbers r = product(na.data() + matrix_at(i, batch, sa), true, gi, false, K, M, N);
    left.insert(left.end(), l.begin(), l.end());
    right.insert(right.end(), r.begin(), r.end());
  }
  const std::string of = std::string(", ") + name_of(dtype) + ", " + name_of_layout(layout);
  const std::string to_left = "matmul_left(g " + sg.str() + ", b " + sb.str() + ")" + of,
                    to_right = "matmul_right(g " + sg.str() + ", a " + sa.str() + ")" + of;
  expect_close(to_left, call(to_left, [&] { return vjp::matmul_left(g, b); }), with(batch, M, K), left,
               {.roundings = 8, .scale = static_cast<double>(N)});
  expect_close(to_right, call(to_right, [&] { return vjp::matmul_right(g, a); }), with(batch, K, N), right,
               {.roundings = 8, .scale = static_cast<double>(M)});
}

void check_linear(int64_t M, int64_t K, int64_t N, DType dtype, const std::vector<bool>& needs,
                  Layout layout = Layout::contiguous) {
  const Tensor g = random_tensor({M, N}, dtype, layout), x = random_tensor({M, K}, dtype, layout),
               w = random_tensor({N, K}, dtype, layout);
  const Numbers ng = numbers_of(g), nx = numbers_of(x), nw = numbers_of(w);
  Numbers bias(static_cast<size_t>(N));
  for (size_t i = 0; i < ng.size(); ++i) bias[i % bias.size()] += ng[i];
  const std::string what = "vjp::linear of g " + g.shape().str() + ", x " + x.shape().str() + " and weight " +
                           w.shape().str() + ", " + name_of(dtype) + ", " + name_of_layout(layout);
  const Tensors got = call(what, [&] { return vjp::linear(g, x, w, needs); });
  expect_equal(what + ": gradients that it returns", got.size(), size_t{3});
  const auto sums_of = [](int64_t terms) {
    return Tolerance{.roundings = 8, .scale = static_cast<double>(terms)};
  };
  if (needs[0]) {
    expect_close(what + ": dx", got[0], {M, K}, product(ng.data(), false, nw.data(), false, M, N, K),
                 sums_of(N));
  }
  if (needs[1]) {
    expect_close(what + ": dweight", got[1], {N, K}, product(ng.data(), true, nx.data(), false, N, M, K),
                 sums_of(M));
  }
  if (needs[2]) expect_close(what + ": dbias", got[2], {N}, bias, sums_of(M));
}

}  // namespace

TEST_CASE("2.3 the product of two matrices") {
  const Tensor g = tensor_of({1, 2}, {1, 10}), a = tensor_of({1, 3}, {1, 2, 3}),
               b = tensor_of({3, 2}, {1, 2, 3, 4, 5, 6});
  expect_close("matmul_left of g {{1, 10}} and b {{1, 2}, {3, 4}, {5, 6}}", vjp::matmul_left(g, b), {1, 3},
               {21, 43, 65});
  expect_close("matmul_right of g {{1, 10}} and a {{1, 2, 3}}", vjp::matmul_right(g, a), {3, 2},
               {1, 10, 2, 20, 3, 30});
  check_product({}, {}, {}, 3, 5, 7);
  check_product({}, {}, {}, 4, 4, 4);
}

TEST_CASE("2.3 batches of matrices, and one matrix broadcast over a batch") {
  check_product({2}, {2}, {2}, 3, 4, 5);
  check_product({2, 3}, {2, 3}, {}, 3, 4, 5);
  check_product({2, 3}, {3}, {2, 1}, 1, 4, 5);
  check_product({3}, {3}, {3}, 3, 3, 3);
}

TEST_CASE("2.3 a linear layer: x, weight and bias") {
  check_linear(4, 3, 2, f64, {true, true, true});
  check_linear(5, 5, 5, f64, {true, true, true});
  check_linear(1, 7, 3, f64, {true, true, true});
}

TEST_CASE("2.3 a linear layer: only the gradients that are needed") {
  for (int wanted = 0; wanted < 8; ++wanted) {
    check_linear(4, 3, 2, f64, {(wanted & 1) != 0, (wanted & 2) != 0, (wanted & 4) != 0});
  }
}

TEST_CASE("2.3 any layout, f32 and f64, and empty matrices") {
  for (const Layout layout : kLayouts) {
    check_product({2}, {2}, {2}, 3, 5, 2, f32, layout);
    check_linear(4, 3, 2, f32, {true, true, true}, layout);
  }
  check_product({}, {}, {}, 0, 3, 2);
  check_product({}, {}, {}, 2, 0, 3);
}

TEST_CASE("2.3 through the graph: shared matrices and vectors") {
  // One matrix b is broadcast over three of a, so its gradient sums over the batch.
  Tensor a = random_tensor({3, 2, 4}), b = random_tensor({4, 5}), v = random_tensor({4}),
         w = random_tensor({4});
  for (Tensor* t : {&a, &b, &v, &w}) t->requires_grad_();
  const Tensor g = random_tensor({3, 2, 5});
  matmul(a, b).backward(g);
  const Numbers na = numbers_of(a), ng = numbers_of(g);
  expect_close("matmul(a [3, 2, 4], b [4, 5]): b.grad()", b.grad(), {4, 5},
               product(na.data(), true, ng.data(), false, 4, 6, 5), {.roundings = 8, .scale = 6});
  // The gradient of each vector of a dot product is the other vector.
  matmul(v, w).backward();
  expect_close("matmul(v [4], w [4]): v.grad()", v.grad(), {4}, numbers_of(w));
}
