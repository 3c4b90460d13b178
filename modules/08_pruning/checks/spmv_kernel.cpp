#include <bit>
#include <support/counted.hpp>

using namespace course;

namespace {

struct SpmvCase {
  int64_t M = 1, N = 1, K = 64;
  double density = 0.5;
  DType dtype = f32, out = f32;
  Layout layout = Layout::contiguous;  // of x and the result
  std::vector<int64_t> empty{};        // rows without numbers

  std::string text() const {
    return "x [" + std::to_string(M) + ", " + std::to_string(K) + "], weight [" + std::to_string(N) + ", " +
           std::to_string(K) + "] of " + name_of(dtype) + " with a density of " + shown(density) +
           ", result " + name_of(out) + ", layout " + name_of_layout(layout);
  }
};

// A weight as a bitmap on the device: bits by bytes, the numbers of a row behind those of the row before.
struct Bitmap {
  int64_t N, K, nnz = 0;
  Numbers dense;
  Values values{f32, {0}}, bits{u8, {0}}, offsets{i64, {0}};
  explicit Bitmap(const SpmvCase& c) : N(c.N), K(c.K), dense(static_cast<size_t>(c.N * c.K)) {
    const int64_t bytes = (K + 63) / 64 * 8;
    Numbers stored, byte(static_cast<size_t>(N * bytes)), begins{0};
    std::vector<size_t> place;
    for (int64_t n = 0; n < N; ++n) {
      const bool empty = std::find(c.empty.begin(), c.empty.end(), n) != c.empty.end();
      for (int64_t k = 0; k < K; ++k) {
        if (empty || uniform(0, 1) >= c.density) continue;
        stored.push_back(uniform(-1, 1));
        place.push_back(static_cast<size_t>(n * K + k));
        byte[static_cast<size_t>(n * bytes + k / 8)] += 1 << (k % 8);
      }
      begins.push_back(static_cast<double>(stored.size()));
    }
    nnz = static_cast<int64_t>(stored.size());
    Values numbers = Values::of(c.dtype, {nnz}, stored);
    const Numbers rounded = numbers.numbers();
    for (size_t i = 0; i < place.size(); ++i) dense[place[i]] = rounded[i];
    values = std::move(numbers).on_device();
    bits = Values::of(u8, {N, bytes}, byte).on_device();
    offsets = Values::of(i64, {N + 1}, begins).on_device();
  }
  backend::BitmapView view() {
    return {values.view().data,
            static_cast<const uint64_t*>(bits.view().data),
            static_cast<const int64_t*>(offsets.view().data),
            values.dtype(),
            N,
            K,
            nnz};
  }
};

Counted check_spmv(const SpmvCase& c) {
  Bitmap w(c);
  Values x = Values::random(c.out, {c.M, c.K}, c.layout).on_device(),
         out = Values(c.out, {c.M, c.N}, c.layout).on_device();
  const View result = out.view(), from = x.view();
  const backend::BitmapView weight = w.view();
  const Counted n = counted([&] { backend::cuda::spmv_bitmap(result, from, weight); });
  const Numbers a = Values::of(c.dtype, {c.M, c.K}, x.numbers()).numbers();
  Numbers want(static_cast<size_t>(c.M * c.N));
  for (int64_t m = 0; m < c.M; ++m)
    for (int64_t r = 0; r < c.N; ++r)
      for (int64_t k = 0; k < c.K; ++k)
        want[static_cast<size_t>(m * c.N + r)] +=
            a[static_cast<size_t>(m * c.K + k)] * w.dense[static_cast<size_t>(r * c.K + k)];
  const double terms = 8 + std::sqrt(static_cast<double>(c.K));
  expect_close("spmv_bitmap: " + c.text(), out, want, {.dtype = c.out, .roundings = terms});
  return n;
}

}  // namespace

TEST_CASE("8.12 one row: single bits, whole steps of 256 columns, and parts of them") {
  for (const int64_t K : {1, 7, 8, 9, 63, 64, 65, 255, 256, 257, 300, 512, 1000}) check_spmv({.K = K});
}

TEST_CASE("8.12 any number of rows, and a last warp without work") {
  for (const int64_t N : {1, 2, 3, 4, 5, 7, 8, 9, 16, 33}) check_spmv({.N = N, .K = 100});
}

TEST_CASE("8.12 no numbers, all numbers, and empty rows between others") {
  for (const double density : {0.0, 0.02, 1.0}) check_spmv({.N = 6, .K = 600, .density = density});
  check_spmv({.N = 7, .K = 300, .empty = {0, 2, 3, 6}});
}

TEST_CASE("8.12 several rows of x") {
  for (const int64_t M : {2, 3, 5}) check_spmv({.M = M, .N = 5, .K = 270});
}

TEST_CASE("8.12 numbers of 16 bits, and x and the result of any layout") {
  for (const DType t : {bf16, f16}) {
    check_spmv({.N = 6, .K = 300, .dtype = t});
    check_spmv({.M = 2, .N = 6, .K = 77, .dtype = t, .out = t});
  }
  for (const Layout layout : kLayouts) check_spmv({.M = 2, .N = 6, .K = 100, .layout = layout});
}

TEST_CASE("8.12 each number and each byte of the bitmap is read once") {
  for (const double density : {0.2, 0.8}) {
    const SpmvCase c{.N = 64, .K = 1024, .density = density};
    const Counted n = check_spmv(c);
    if (!kCounts) continue;
    const double numbers = density * 64 * 1024 * 4, bits = 64 * 1024 / 8, x = 32 * 1024 * 4;
    expect("bytes read with a density of " + shown(density) +
               ", of those of numbers, bits and x: at most 1.3; got " +
               shown(n.bytes_read / (numbers + bits + x)),
           n.bytes_read <= 1.3 * (numbers + bits + x));
  }
}
