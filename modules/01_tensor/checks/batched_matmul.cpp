#include <01_tensor/checks/reference.hpp>
#include <tinytorch/backend/cpu/matmul.hpp>

using namespace course;
namespace cpu = backend::cpu;

namespace {

double largest_sum(const Numbers& a, const Numbers& b, int64_t M, int64_t N, int64_t K) {
  const auto positive = [](Numbers x) {
    for (double& v : x) v = std::abs(v);
    return x;
  };
  double most = 1;
  for (double v : product(positive(a), positive(b), M, N, K)) most = v > most ? v : most;
  return most;
}

void check_product(DType dtype, int64_t M, int64_t N, int64_t K, Layout of_a = Layout::contiguous,
                   Layout of_b = Layout::contiguous, Layout of_out = Layout::contiguous) {
  const double high = is_floating(dtype) ? 1 : 3, low = dtype == u8 ? 0 : -high;
  Values a = Values::random(dtype, {M, K}, of_a, low, high);
  Values b = Values::random(dtype, {K, N}, of_b, low, high);
  Values out(dtype, {M, N}, of_out);
  const Numbers want = product(a.numbers(), b.numbers(), M, N, K);
  cpu::matmul(out.view(), a.view(), b.view());
  expect_close("matmul of " + a.shape().str() + " (" + name_of_layout(of_a) + ") and " + b.shape().str() +
                   " (" + name_of_layout(of_b) + "), " + name_of(dtype) + ", into " + name_of_layout(of_out),
               out, want, {.roundings = 8, .scale = largest_sum(a.numbers(), b.numbers(), M, N, K)});
}

}  // namespace

TEST_CASE("1.7 rows times columns") {
  Values a = Values::of(f32, {2, 3}, {1, 2, 3, 4, 5, 6}), b = Values::of(f32, {3, 2}, {1, 0, 0, 1, 2, 3});
  Values out(f32, {2, 2});
  cpu::matmul(out.view(), a.view(), b.view());
  expect_close("matmul of [[1, 2, 3], [4, 5, 6]] and [[1, 0], [0, 1], [2, 3]]", out, {7, 11, 16, 23});
}

TEST_CASE("1.7 matrices of any size") {
  for (const int64_t M : {int64_t{1}, int64_t{5}, int64_t{17}}) {
    for (const int64_t N : {int64_t{1}, int64_t{4}, int64_t{19}}) {
      for (const int64_t K : {int64_t{1}, int64_t{7}, int64_t{33}}) check_product(f32, M, N, K);
    }
  }
}

TEST_CASE("1.7 matrices of any layout") {
  for (const Layout layout : kLayouts) {
    check_product(f32, 5, 7, 3, layout);
    check_product(f32, 5, 7, 3, Layout::contiguous, layout);
    check_product(f32, 5, 7, 3, Layout::gaps, Layout::transposed, layout);
  }
}

TEST_CASE("1.7 every dtype") {
  for (const DType dtype : {f64, bf16, f16, i8, u8, i32, i64}) check_product(dtype, 5, 7, 9);
  Values a = Values::random(bf16, {3, 40}), b = Values::random(bf16, {40, 5}), wide(f32, {3, 5});
  cpu::matmul(wide.view(), a.view(), b.view());
  expect_close("matmul of bf16 [3, 40] and [40, 5] into f32", wide,
               product(a.numbers(), b.numbers(), 3, 5, 40), {.roundings = 8, .scale = 20});
  Values p = Values::random(boolean, {3, 9}, Layout::contiguous, 0, 2);
  Values q = Values::random(boolean, {9, 4}, Layout::contiguous, 0, 2), count(i32, {3, 4});
  cpu::matmul(count.view(), p.view(), q.view());
  expect_close("matmul of bool [3, 9] and [9, 4] into i32", count,
               product(p.numbers(), q.numbers(), 3, 4, 9));
}

TEST_CASE("1.7 each batch multiplies its own matrices") {
  const int64_t M = 3, N = 4, K = 5;
  for (const Layout layout : kLayouts) {
    Values a = Values::random(f32, {2, 3, M, K}, layout), b = Values::random(f32, {2, 3, K, N});
    Values out(f32, {2, 3, M, N}, layout);
    const Numbers all_a = a.numbers(), all_b = b.numbers();
    Numbers want;
    for (int64_t i = 0; i < 6; ++i) {
      const Numbers one =
          product(Numbers(all_a.begin() + i * M * K, all_a.begin() + (i + 1) * M * K),
                  Numbers(all_b.begin() + i * K * N, all_b.begin() + (i + 1) * K * N), M, N, K);
      want.insert(want.end(), one.begin(), one.end());
    }
    cpu::matmul(out.view(), a.view(), b.view());
    expect_close(std::string("matmul of [2, 3, 3, 5] and [2, 3, 5, 4], ") + name_of_layout(layout), out, want,
                 {.roundings = 8, .scale = 5});
  }
}

TEST_CASE("1.7 one matrix may be broadcast over many batches") {
  const int64_t M = 3, N = 4, K = 5;
  Values a = Values::random(f32, {2, M, K}), b = Values::random(f32, {K, N}), out(f32, {2, M, N});
  View same = b.view();
  same.shape = {2, K, N};
  same.strides = {0, N, 1};
  cpu::matmul(out.view(), a.view(), same);
  expect_close("matmul of [2, 3, 5] and one [5, 4] for both batches", out,
               product(a.numbers(), b.numbers(), 2 * M, N, K), {.roundings = 8, .scale = 5});
}

TEST_CASE("1.7 accumulate adds to the old values of out") {
  for (const DType dtype : {f32, f64, i32}) {
    Values a = Values::random(dtype, {3, 6}, Layout::contiguous, -3, 3);
    Values b = Values::random(dtype, {6, 5}, Layout::contiguous, -3, 3);
    Values out = Values::random(dtype, {3, 5}, Layout::gaps, -3, 3);
    Numbers want = product(a.numbers(), b.numbers(), 3, 5, 6);
    const Numbers before = out.numbers();
    for (size_t i = 0; i < want.size(); ++i) want[i] += before[i];
    cpu::matmul(out.view(), a.view(), b.view(), true);
    expect_close(std::string("out += a b in ") + name_of(dtype), out, want, {.roundings = 8, .scale = 54});
  }
}

TEST_CASE("1.7 a product with K = 0 is 0") {
  Values a(f32, {2, 0}), b(f32, {0, 3}), out(f32, {2, 3}), none(f32, {0, 3}), wide(f32, {3, 4});
  cpu::matmul(out.view(), a.view(), b.view());
  expect_close("matmul of [2, 0] and [0, 3]", out, Numbers(6, 0.0));
  Values empty(f32, {0, 4});
  cpu::matmul(empty.view(), none.view(), wide.view());
}

TEST_CASE("1.7 x W^T + b") {
  const int64_t M = 5, N = 3, K = 7;
  for (const DType dtype : {f32, f64, bf16}) {
    for (const bool with_bias : {false, true}) {
      Values x = Values::random(dtype, {M, K}, Layout::gaps), weight = Values::random(dtype, {N, K});
      Values bias = Values::random(dtype, {N}), out(dtype, {M, N});
      const Numbers w = weight.numbers(), b = bias.numbers();
      Numbers turned(w.size());
      for (size_t n = 0; n < 3; ++n) {
        for (size_t k = 0; k < 7; ++k) turned[k * 3 + n] = w[n * 7 + k];
      }
      Numbers want = product(x.numbers(), turned, M, N, K);
      for (size_t i = 0; with_bias && i < want.size(); ++i) want[i] += b[i % 3];
      cpu::linear(out.view(), x.view(), weight.view(), with_bias ? bias.view() : View{});
      expect_close(std::string("linear of x [5, 7], weight [3, 7], ") + (with_bias ? "bias [3]" : "no bias") +
                       ", " + name_of(dtype),
                   out, want, {.roundings = 8, .scale = 8});
    }
  }
}

TEST_CASE("1.7 a matrix may be more than 2^31 elements away") {
  // No memory is needed: matrix_of only computes an address.
  const int64_t k2_20 = int64_t{1} << 20, k2_30 = int64_t{1} << 30;
  const View v{reinterpret_cast<void*>(k2_20), f32, {k2_20, 3, 2, 2}, {8 * k2_30, k2_30, 2, 1}};
  const auto check = [&](int64_t batch, int64_t elements) {
    const View got = cpu::matrix_of(v, {k2_20, 3}, batch);
    const std::string what = "matrix_of(f32 [2^20, 3, 2, 2] with strides [2^33, 2^30, 2, 1], [2^20, 3], " +
                             std::to_string(batch) + ")";
    expect_equal(what + ": bytes from the first matrix",
                 static_cast<int64_t>(reinterpret_cast<intptr_t>(got.data)) - k2_20, 4 * elements);
    expect_equal(what + ": shape", got.shape, Shape{2, 2});
    expect_equal(what + ": strides", got.strides, Strides{2, 1});
  };
  check(1, k2_30);      // 2^32 bytes
  check(2, 2 * k2_30);  // 2^31 elements
  check(3 * 5 + 1, 41 * k2_30);
  check(3 * k2_20 - 1, 8 * k2_30 * (k2_20 - 1) + 2 * k2_30);
}
