#include <algorithm>
#include <cstring>
#include <support/coded_activations.hpp>
#include <support/few.hpp>
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

void check_product(Fresh& fresh, const BlockFormat& f, DType t, int64_t M, int64_t N, int64_t K,
                   Layout layout, Activations activations) {
  INFO(f.name, " ", text_of(t), " ", M, " x ", N, " x ", K, " layout ", static_cast<int>(layout), " int8 ",
       activations == Activations::int8);
  Weights w(fresh, f, N, K);
  DeviceArray x = fresh.array(t, {M, K}, -1, 1, layout), bias = fresh.array(f32, {N}), out(t, {M, N}, layout);
  kernels::block_linear(out.view(), x.view(), w.blocks.view(), bias.view(), f, activations);
  // More rows are multiplied as they are: on tensor cores, if a block has one scale, or with decoded weights.
  const bool on_tensor_cores = t != f32 && f.block == 32 && std::strcmp(f.name, "MXFP4") != 0;
  const bool coded = activations == Activations::int8 && M <= (on_tensor_cores ? 1 : 16);
  const Coded exact = coded ? coded_by_groups(x.values()) : uncoded(x.values());
  const std::vector<double> b = bias.values();
  const std::vector<double> got = out.values();
  const int64_t every = std::max<int64_t>(1, N / 400);  // of many columns, about 400 are checked
  double most = 0, worst = 0;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = every - 1; n < N; n += every) {
      double sum = b[static_cast<size_t>(n)], either = 0;
      for (int64_t k = 0; k < K; ++k) {
        const auto at = static_cast<size_t>(m * K + k);
        const double weight = w.decoded[static_cast<size_t>(n * K + k)];
        sum += exact.values[at] * weight, either += exact.either[at] * std::abs(weight);
      }
      most = std::max(most, std::abs(sum));
      const double off = std::abs(got[static_cast<size_t>(m * N + n)] - sum) - either;
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
  for (const BlockFormat& f : block_formats()) {
    const int64_t K = std::max<int64_t>(f.block, 32);
    for (const Activations a : {Activations::int8, Activations::floats}) {
      check_product(fresh, f, f32, 1, 1, K, Layout::dense, a);
      check_product(fresh, f, f32, 3, 21, 35 * 32 / K * K + K, Layout::dense,
                    a);  // more than a warp's groups
      check_product(fresh, f, bf16, 2, 10, 3 * K, Layout::gaps, a);
      check_product(fresh, f, f16, 4, 7, 2 * K, Layout::offset, a);
      check_product(fresh, f, bf16, 7, 5, 3 * K, Layout::dense, a);
      check_product(fresh, f, f16, 16, 3, K, Layout::gaps, a);
      check_product(fresh, f, bf16, 18, 9, 2 * K, Layout::dense, a);
      check_product(fresh, f, f32, 17, 9, 2 * K, Layout::gaps, a);
    }
  }
}

TEST_CASE("several rows of 16 bits: tiles of any size, weights at any address, several stages") {
  Fresh fresh;
  INFO(fresh.text());
  for (const char* const name : {"Q8_0", "Q8_1", "Q4_0", "Q4_1"}) {
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
  for (const char* const name : {"Q8_0", "Q8_1", "Q4_0", "Q4_1"}) {
    if (left_out(4)) continue;
    const BlockFormat& f = *find_block_format(name);
    check_product(fresh, f, bf16, 7, N, 32 * 19, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 12, N, 256, Layout::gaps, Activations::floats);
    check_product(fresh, f, bf16, 30, N, 288, Layout::offset, Activations::floats);
    check_product(fresh, f, bf16, 9, N, 256 * 5, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 24, N / 2, 256 * 3, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 33, N, 32 * 24, Layout::dense, Activations::floats);
    check_product(fresh, f, bf16, 64, N, 256, Layout::dense, Activations::int8);
    check_product(fresh, f, bf16, 70, N, 512, Layout::gaps, Activations::floats);
    check_product(fresh, f, f16, 131, N, 256, Layout::dense, Activations::floats);
  }
}

// A tile takes chunks of 256 numbers, of which a ring of 3 to 16 stages holds some; few tiles share the
// depth.
TEST_CASE("deep weights: rings that go round, and tiles whose depth is shared by the blocks of a cluster") {
  Fresh fresh;
  INFO(fresh.text());
  for (const char* const name : {"Q8_0", "Q8_1", "Q4_0", "Q4_1"}) {
    if (left_out(4)) continue;
    const BlockFormat& f = *find_block_format(name);
    check_product(fresh, f, bf16, 3, 100, 256 * 33, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 16, 33, 256 * 21, Layout::gaps, Activations::floats);
    check_product(fresh, f, bf16, 32, 65, 256 * 8, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 25, 31, 256 * 17, Layout::offset, Activations::floats);
    check_product(fresh, f, bf16, 64, 130, 256 * 9, Layout::dense, Activations::floats);
    check_product(fresh, f, f16, 90, 200, 256 * 11, Layout::dense, Activations::floats);
    check_product(fresh, f, bf16, 128, 40, 256 * 8, Layout::gaps, Activations::floats);
  }
}

namespace {

double largest_of(const std::vector<float>& values) {
  double most = 0;
  for (const float v : values)
    if (std::isfinite(v)) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

// A scale or an offset that is NaN makes the row NaN, and no other row.
void check_nan(Fresh& fresh, const BlockFormat& f, int64_t K, int64_t half) {
  Weights w(fresh, f, 3, K);
  std::vector<double> bytes(w.bytes.begin(), w.bytes.end());
  const auto at = static_cast<size_t>(f.row_bytes(K) + f.bytes + half);
  bytes[at] = 1, bytes[at + 1] = 0x7e;
  DeviceArray blocks = DeviceArray::from(u8, {3, f.row_bytes(K)}, bytes);
  for (const int64_t M : {1, 18}) {
    for (const Activations a : {Activations::floats, Activations::int8}) {
      DeviceArray x = fresh.array(f32, {M, K}), out(f32, {M, 3});
      kernels::block_linear(out.view(), x.view(), blocks.view(), {}, f, a);
      const std::vector<double> got = out.values();
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i % 3 == 1));
    }
  }
}

// Random bytes as weights [N, K], with `edit(block)` applied to each block, where rows begin `shift` bytes
// after an aligned address: sums of any numbers that bytes can stand for, with x = 1 at one place of a row.
template <class Edit>
void check_bytes(Fresh& fresh, const BlockFormat& f, int64_t N, int64_t K, int64_t shift, Edit&& edit) {
  INFO(f.name, " ", N, " x ", K, " shift ", shift);
  const int64_t row = f.row_bytes(K), gap = row + 2 * (f.bytes % 2 == 0);
  std::vector<double> bytes = fresh.whole(shift + N * gap, 0, 256);
  std::vector<float> decoded(static_cast<size_t>(N * K));
  for (int64_t n = 0; n < N; ++n) {
    std::vector<uint8_t> packed(static_cast<size_t>(row));
    const auto from = bytes.begin() + shift + n * gap;
    std::copy(from, from + row, packed.begin());
    for (int64_t b = 0; b < row; b += f.bytes) edit(packed.data() + b);
    std::copy(packed.begin(), packed.end(), from);
    f.unpack(packed.data(), K / f.block, decoded.data() + n * K);
  }
  DeviceArray memory = DeviceArray::from(u8, {shift + N * gap}, bytes);
  const View weights{memory.view().as<uint8_t>() + shift, u8, {N, row}, {gap, 1}};
  const std::vector<double> places = fresh.whole(20, 0, static_cast<double>(K));
  for (const int64_t M : {1, 20}) {  // by warps, and with weights that are decoded first
    for (const Activations a : {Activations::floats, Activations::int8}) {
      std::vector<double> one(static_cast<size_t>(M * K));
      for (int64_t m = 0; m < M; ++m)
        one[static_cast<size_t>(m * K) + static_cast<size_t>(places[static_cast<size_t>(m)])] = 1;
      DeviceArray x = DeviceArray::from(f32, {M, K}, one);
      DeviceArray out(f32, {M, N});
      kernels::block_linear(out.view(), x.view(), weights, {}, f, a);
      const std::vector<double> got = out.values();
      for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < N; ++n) {
          const double want = static_cast<double>(
              decoded[static_cast<size_t>(n * K) + static_cast<size_t>(places[static_cast<size_t>(m)])]);
          const double value = got[static_cast<size_t>(m * N + n)];
          if (std::isnan(want)) {
            CHECK(std::isnan(value));
          } else {
            // Products of integers are exact, and so are sums of them; an offset is added to a larger
            // product.
            CHECK(std::abs(value - want) <= 1e-5 * std::abs(want) + 1e-5 * largest_of(decoded));
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("any bytes decode as on the CPU: rows at any address, scales at the ends of their range") {
  Fresh fresh;
  INFO(fresh.text());
  for (const BlockFormat& f : block_formats()) {
    const std::string name = f.name;
    const int64_t K = 3 * std::max<int64_t>(f.block, 32);
    // The bytes at which a block has f16 numbers. Their exponents are made small, so that the numbers are
    // finite.
    std::vector<int64_t> halves{0};
    if (name == "Q4_1" || name == "Q4_K" || name == "Q8_1") halves.push_back(2);
    if (name == "Q6_K") halves = {208};
    if (name == "MXFP4" || name == "NVFP4") halves.clear();
    const auto finite = [&](uint8_t* block) {
      for (const int64_t h : halves) block[h + 1] = static_cast<uint8_t>((block[h + 1] & 0x83) | 0x34);
      if (name == "MXFP4") block[0] = static_cast<uint8_t>(120 + block[0] % 8);
    };
    for (const int64_t shift : {0, 2, 16, 18}) check_bytes(fresh, f, 5, K, shift, finite);
    if (name == "MXFP4") {
      for (const int64_t shift : {1, 3}) check_bytes(fresh, f, 5, K, shift, finite);
      for (const int e : {0, 1, 2, 250})
        check_bytes(fresh, f, 3, K, 0, [e](uint8_t* block) { block[0] = static_cast<uint8_t>(e); });
    }
    if (name == "NVFP4") {  // bits of NaN, a sign, and scales without a leading 1
      for (const int s : {0x7f, 0xff, 0xb8, 0x03, 0x7e})
        check_bytes(fresh, f, 3, K, 0,
                    [s](uint8_t* block) { block[1] = block[2] = static_cast<uint8_t>(s); });
    }
    for (const int64_t h : halves) {
      if (h == f.unused_half) continue;
      check_nan(fresh, f, K, h);
    }
  }
}

TEST_CASE("a format without a kernel on the device is refused by name; the message has all others") {
  BlockFormat own = *find_block_format("Q8_0");
  own.name = "OWN";
  Fresh fresh;
  Weights w(fresh, own, 4, 32);
  DeviceArray x = fresh.array(f32, {1, 32}), out(f32, {1, 4});
  std::string text;
  try {
    kernels::block_linear(out.view(), x.view(), w.blocks.view(), {}, own, Activations::int8);
  } catch (const Error& e) {
    text = e.what();
  }
  CHECK(text.find("TT-QUANT-05") != std::string::npos);
  CHECK(text.find("OWN") != std::string::npos);
  for (const BlockFormat& f : block_formats()) CHECK(text.find(f.name) != std::string::npos);
}

#endif
