#include <algorithm>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

std::vector<uint8_t> packed(const BlockFormat& f, std::vector<float>& w) {
  const int64_t blocks = std::ssize(w) / f.block;
  std::vector<uint8_t> bytes(static_cast<size_t>(blocks * f.bytes));
  f.pack(w.data(), blocks, bytes.data());
  f.unpack(bytes.data(), blocks, w.data());
  return bytes;
}

// Packed weights [N, K] on the device, and what they decode to.
struct Weights {
  std::vector<float> decoded;
  std::vector<uint8_t> bytes;
  DeviceArray blocks;

  Weights(Fresh& fresh, const BlockFormat& f, int64_t N, int64_t K)
      : decoded(random_floats(fresh, N * K)),
        bytes(packed(f, decoded)),
        blocks(DeviceArray::from(u8, {N, f.row_bytes(K)}, {bytes.begin(), bytes.end()})) {}
  static std::vector<float> random_floats(Fresh& fresh, int64_t count) {
    Generator g(fresh.next());
    std::vector<float> w(static_cast<size_t>(count));
    for (float& v : w) v = static_cast<float>(g.uniform(-1, 1));
    return w;
  }
};

// x in 8 bits by groups of 32.
std::vector<double> rounded(const std::vector<double>& x) {
  std::vector<double> out(x.size());
  for (size_t g = 0; g < x.size(); g += 32) {
    double largest = 0;
    for (size_t i = g; i < g + 32; ++i) largest = std::max(largest, std::abs(x[i]));
    for (size_t i = g; i < g + 32; ++i)
      out[i] = largest == 0 ? 0 : std::round(x[i] * 127 / largest) * largest / 127;
  }
  return out;
}

void check_product(Fresh& fresh, const BlockFormat& f, DType t, int64_t M, int64_t N, int64_t K,
                   Layout layout, Activations activations) {
  INFO(f.name, " ", text_of(t), " ", M, " x ", N, " x ", K, " layout ", static_cast<int>(layout), " int8 ",
       activations == Activations::int8);
  Weights w(fresh, f, N, K);
  DeviceArray x = fresh.array(t, {M, K}, -1, 1, layout), bias = fresh.array(f32, {N}), out(t, {M, N}, layout);
  kernels::block_linear(out.view(), x.view(), w.blocks.view(), bias.view(), f, activations);
  // More rows are multiplied as they are.
  const bool coded = activations == Activations::int8 && M <= (t == f32 ? 16 : 1);
  const std::vector<double> values = coded ? rounded(x.values()) : x.values(), b = bias.values();
  const std::vector<double> got = out.values();
  const int64_t every = std::max<int64_t>(1, N / 400);  // of many columns, about 400 are checked
  double most = 0, worst = 0;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = every - 1; n < N; n += every) {
      double sum = b[static_cast<size_t>(n)];
      for (int64_t k = 0; k < K; ++k)
        sum += values[static_cast<size_t>(m * K + k)] *
               static_cast<double>(w.decoded[static_cast<size_t>(n * K + k)]);
      most = std::max(most, std::abs(sum));
      const double off = std::abs(got[static_cast<size_t>(m * N + n)] - sum);
      if (!(off <= worst)) worst = off;
    }
  }
  // Decoded weights and results are rounded to the dtype.
  const double unit = t == bf16 ? 1.0 / 128 : t == f16 ? 1.0 / 1024 : 1e-6;
  CHECK(worst < unit * (most + (M > 16 ? std::sqrt(static_cast<double>(K)) : 1)));
  if (layout != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace

TEST_CASE("products with packed weights on the device equal those with the decoded weights") {
  Fresh fresh;
  INFO(fresh.text());
  for (const char* const name : {"Q8_0", "Q4_0", "Q4_1"}) {
    const BlockFormat& f = *find_block_format(name);
    for (const Activations a : {Activations::int8, Activations::floats}) {
      check_product(fresh, f, f32, 1, 1, 32, Layout::dense, a);
      check_product(fresh, f, f32, 3, 21, 32 * 35, Layout::dense, a);
      check_product(fresh, f, bf16, 2, 10, 96, Layout::gaps, a);
      check_product(fresh, f, f16, 4, 7, 64, Layout::offset, a);
      check_product(fresh, f, bf16, 18, 9, 64, Layout::dense, a);
      check_product(fresh, f, f32, 17, 9, 64, Layout::gaps, a);
    }
  }
}

TEST_CASE("several rows of 16 bits: tiles of any size, weights at any address, several stages") {
  Fresh fresh;
  INFO(fresh.text());
  for (const char* const name : {"Q8_0", "Q4_0", "Q4_1"}) {
    const BlockFormat& f = *find_block_format(name);
    for (const DType t : {bf16, f16}) {
      check_product(fresh, f, t, 5, 33, 32, Layout::dense, Activations::floats);
      check_product(fresh, f, t, 8, 31, 32 * 9, Layout::offset, Activations::floats);
      check_product(fresh, f, t, 13, 70, 512, Layout::dense, Activations::int8);
      check_product(fresh, f, t, 17, 65, 32 * 17, Layout::gaps, Activations::floats);
      check_product(fresh, f, t, 70, 130, 256, Layout::dense, Activations::floats);
    }
    check_product(fresh, f, bf16, 32, 40, 768, Layout::dense, Activations::int8);
    check_product(fresh, f, bf16, 6, 20, 32 * 40, Layout::dense, Activations::int8);
  }
}

TEST_CASE("wide weights: tiles with many of their rows, and warpgroups for more than 32 rows of x") {
  Fresh fresh;
  INFO(fresh.text());
  const int64_t N = 96 * tinytorch::backend::cuda::properties(0).multiprocessors + 30;
  for (const char* const name : {"Q8_0", "Q4_0", "Q4_1"}) {
    const BlockFormat& f = *find_block_format(name);
    check_product(fresh, f, bf16, 7, N, 32 * 19, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 12, N, 256, Layout::gaps, Activations::floats);
    check_product(fresh, f, bf16, 30, N, 288, Layout::offset, Activations::floats);
    check_product(fresh, f, f16, 33, N, 32 * 24, Layout::dense, Activations::floats);
    check_product(fresh, f, bf16, 64, N, 256, Layout::dense, Activations::int8);
    check_product(fresh, f, bf16, 70, N, 512, Layout::gaps, Activations::floats);
    check_product(fresh, f, f16, 131, N, 256, Layout::dense, Activations::floats);
  }
}

TEST_CASE("a format without a kernel on the device is refused by name") {
  BlockFormat own = *find_block_format("Q8_0");
  own.name = "OWN";
  Fresh fresh;
  Weights w(fresh, own, 4, 32);
  DeviceArray x = fresh.array(f32, {1, 32}), out(f32, {1, 4});
  CHECK_THROWS_AS(kernels::block_linear(out.view(), x.view(), w.blocks.view(), {}, own, Activations::int8),
                  Error);
}

#endif
