#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using Lines = std::vector<std::vector<size_t>>;

double log_sum_exp(const std::vector<double>& x, const std::vector<size_t>& line) {
  double largest = -kInfinity, sum = 0;
  for (const size_t i : line) largest = std::max(largest, x[i]);
  if (std::isinf(largest)) return largest;
  for (const size_t i : line) sum += std::exp(x[i] - largest);
  return largest + std::log(sum);
}

std::vector<double> softmax_of(const std::vector<double>& x, const Lines& lines, bool logarithm) {
  std::vector<double> y(x.size());
  for (const auto& line : lines) {
    const double lse = log_sum_exp(x, line);
    for (const size_t i : line) y[i] = logarithm ? x[i] - lse : std::exp(x[i] - lse);
  }
  return y;
}

// Gradients from the stored results y.
std::vector<double> gradient_of(const std::vector<double>& dy, const std::vector<double>& y,
                                const Lines& lines, bool logarithm) {
  std::vector<double> dx(y.size());
  for (const auto& line : lines) {
    double sum = 0;
    for (const size_t i : line) sum += logarithm ? dy[i] : dy[i] * y[i];
    for (const size_t i : line) dx[i] = logarithm ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
  }
  return dx;
}

void check_softmax(Fresh& fresh, const Shape& shape, int dim, DType t, Layout layout, Layout of_results) {
  INFO(text_of(t), " of ", shape.str(), " along ", dim, ", layout ", static_cast<int>(layout), " to ",
       static_cast<int>(of_results));
  const Lines lines = lines_of(shape, dim);
  DeviceArray x = fresh.array(t, shape, -8, 8, layout), dy = fresh.array(t, shape, -1, 1, layout);
  const double n = static_cast<double>(shape[dim]);
  for (const bool logarithm : {false, true}) {
    DeviceArray y(t, shape, of_results), dx(t, shape, of_results);
    (logarithm ? kernels::log_softmax : kernels::softmax)(y.view(), x.view(), dim);
    (logarithm ? kernels::log_softmax_grad : kernels::softmax_grad)(dx.view(), dy.view(), y.view(), dim);
    check_close(y.values(), softmax_of(x.values(), lines, logarithm), t, 32, logarithm ? 8 : 0);
    check_close(dx.values(), gradient_of(dy.values(), y.values(), lines, logarithm), t,
                32 + (logarithm ? n / 4 : 0), 1);
    if (of_results == Layout::offset) CHECK((y.untouched_around() && dx.untouched_around()));
  }
}
void check_softmax(Fresh& fresh, const Shape& shape, int dim, DType t, Layout layout) {
  check_softmax(fresh, shape, dim, t, layout, layout);
}

}  // namespace

TEST_CASE("softmax, log_softmax and their gradients equal the definition along every dimension" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const int64_t n : {1, 3, 31, 33, 257, 1000}) {
      for (const Layout layout : kLayouts) check_softmax(fresh, {3, n}, 1, t, layout);
      check_softmax(fresh, {n, 5}, 0, t, Layout::dense);
    }
    for (const int dim : {0, 1, 2}) check_softmax(fresh, {7, 4, 31}, dim, t, Layout::gaps);
    check_softmax(fresh, {2, 40, 33}, 1, t, Layout::dense);
  }
}

TEST_CASE("softmax equals the definition for rows in registers, in shared memory and in segments" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const int64_t n : {520, 1028, 2052, 4100, 8200, 16388})
    check_softmax(fresh, {1, n}, 1, f32, Layout::dense);
  for (const int64_t n : {1032, 4104}) check_softmax(fresh, {1, n}, 1, bf16, Layout::dense);
  check_softmax(fresh, {1, 2050}, 1, f64, Layout::dense);
  // Rows that are not aligned to 16 bytes.
  for (const int64_t n : {255, 1023, 4095, 9001, 30001}) check_softmax(fresh, {2, n}, 1, f32, Layout::dense);
  for (const int64_t n : {257, 5001}) check_softmax(fresh, {3, n}, 1, bf16, Layout::dense);
  // Rows longer than shared memory, aligned and unaligned.
  for (const int64_t n : {120008, 120009}) check_softmax(fresh, {2, n}, 1, f16, Layout::dense);
}

TEST_CASE("softmax equals the definition for unaligned rows and operands of different alignments" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const auto& [rows, C] : {std::pair<int64_t, int64_t>{130, 1},
                                  {150, 2},
                                  {133, 3},
                                  {141, 4},
                                  {37, 3},
                                  {9, 7},
                                  {3, 65},
                                  {2, 130},
                                  {7, 255},
                                  {7, 257},
                                  {1, 1025},
                                  {3, 3001}}) {
      if (test::left_out(15)) continue;
      check_softmax(fresh, {rows, C}, 1, t, Layout::dense);
      check_softmax(fresh, {rows, C}, 1, t, Layout::offset);
      check_softmax(fresh, {rows, C}, 1, t, Layout::offset, Layout::dense);
    }
  }
  if (kEmulated) return;
  for (const DType t : {f32, bf16, f16}) {
    check_softmax(fresh, {12345, 7}, 1, t, Layout::dense);
    check_softmax(fresh, {1234, 3001}, 1, t, Layout::offset);
    check_softmax(fresh, {7, 100003}, 1, t, Layout::dense);
    check_softmax(fresh, {7, 100003}, 1, t, Layout::offset);
    check_softmax(fresh, {7, 100003}, 1, t, Layout::dense, Layout::offset);
    check_softmax(fresh, {2, 1000003}, 1, t, Layout::dense);
    check_softmax(fresh, {13, 500001}, 1, t, Layout::dense);
    check_softmax(fresh, {1, 1000000}, 1, t, Layout::dense);
  }
}

TEST_CASE("softmax equals the definition for many long rows, which share a cluster" * needs_devices()) {
  if (kEmulated) return;  // the emulator has no clusters
  Fresh fresh;
  INFO(fresh.text());
  for (const int64_t n : {16388, 32772, 50304}) {
    check_softmax(fresh, {3'000'000 / n, n}, 1, f32, Layout::dense);
  }
  for (const int64_t n : {50304, 131072}) check_softmax(fresh, {6'000'000 / n, n}, 1, bf16, Layout::dense);
}
TEST_CASE("softmax and its gradients work in place" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const Shape& shape : {Shape{3, 257}, Shape{3, 256}, Shape{1, 9001}}) {
    const Lines lines = lines_of(shape, 1);
    DeviceArray x = fresh.array(f32, shape), dy = fresh.array(f32, shape);
    const std::vector<double> before = x.values(), slope = dy.values();
    kernels::softmax(x.view(), x.view(), 1);
    check_close(x.values(), softmax_of(before, lines, false), f32, 32, 0);
    kernels::softmax_grad(dy.view(), dy.view(), x.view(), 1);
    check_close(dy.values(), gradient_of(slope, x.values(), lines, false), f32, 32);
  }
}

TEST_CASE("logsumexp equals the definition over every set of dimensions" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : kFloating) {
    for (const Shape& shape : {Shape{1}, Shape{1000}, Shape{5, 33}, Shape{3, 31, 4}}) {
      // Slow on the emulator: a block per result.
      if (few_cases() && t != f32 && shape.size() == 3) continue;
      for (int set = shape.size() == 1; set < 1 << shape.size(); ++set) {
        std::vector<bool> reduced;
        bool flags[kMaxRank] = {};
        Shape kept;
        for (int d = 0; d < shape.size(); ++d) {
          flags[d] = (set >> d & 1) != 0;
          reduced.push_back(flags[d]);
          if (!flags[d]) kept.push_back(shape[d]);
        }
        const Layout layout = kLayouts[set % 3];
        INFO(text_of(t), " of ", shape.str(), " set ", set);
        DeviceArray x = fresh.array(t, shape, -8, 8, layout), out(t, kept);
        kernels::logsumexp(out.view(), x.view(), flags);
        std::vector<double> want;
        const std::vector<double> values = x.values();
        for (const auto& group : groups_of(shape, reduced)) want.push_back(log_sum_exp(values, group));
        check_close(out.values(), want, t, 32, 8);
      }
    }
  }
}

TEST_CASE(
    "softmax ignores a row's offset, gives NaN for rows of -inf, and propagates NaN only within its row" *
    needs_devices()) {
  for (const DType t : {f32, f64, bf16}) {
    for (const int64_t n : {4, 33, 65, 256, 3001, 100003}) {
      if (n > 1000 && few_cases()) continue;
      const auto width = static_cast<size_t>(n);
      std::vector<double> values(4 * width, 0);  // rows: offset 10000, all -inf, with a NaN, with one -inf
      for (size_t i = 0; i < width; ++i) values[i] = 10000, values[width + i] = -kInfinity;
      values[2 * width + width / 2] = kNan;
      values[3 * width] = -kInfinity;
      DeviceArray x = DeviceArray::from(t, {4, n}, values), y(t, {4, n}), lse(t, {4});
      kernels::softmax(y.view(), x.view(), 1);
      const bool along[] = {false, true};
      kernels::logsumexp(lse.view(), x.view(), along);
      const std::vector<double> got = y.values(), sums = lse.values();
      for (size_t i = 0; i < width; ++i) {
        CHECK(got[i] == doctest::Approx(1.0 / static_cast<double>(n)).epsilon(0.01));
        CHECK(std::isnan(got[width + i]));
        CHECK(std::isnan(got[2 * width + i]));
        CHECK(got[3 * width + i] ==
              doctest::Approx(i == 0 ? 0 : 1 / static_cast<double>(n - 1)).epsilon(0.01));
      }
      CHECK(sums[1] == -kInfinity);
      CHECK(std::isnan(sums[2]));
      CHECK(std::isfinite(sums[3]));
    }
  }
}

TEST_CASE("softmax accepts empty tensors, and logsumexp of no elements is -inf" * needs_devices()) {
  DeviceArray x(f32, {3, 0}), y(f32, {3, 0}), none(f32, {0, 3}), lse(f32, {3}), empty(f32, {0});
  kernels::softmax(y.view(), x.view(), 1);
  kernels::log_softmax(none.view(), none.view(), 1);
  kernels::softmax_grad(y.view(), x.view(), y.view(), 1);
  const bool along[] = {false, true};
  kernels::logsumexp(lse.view(), x.view(), along);
  kernels::logsumexp(empty.view(), none.view(), along);
  CHECK(lse.values() == std::vector<double>(3, -kInfinity));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
