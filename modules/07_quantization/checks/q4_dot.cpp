#include <support/check.hpp>
#include <tinytorch/backend/cpu/block_linear.hpp>
#include <tinytorch/core/allocator.hpp>

#include <atomic>
#include <new>

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

std::atomic<size_t> bytes_allocated{0};

}  // namespace

// Counts what a program allocates, so that an unpacked matrix cannot hide.
void* operator new(size_t size) {
  bytes_allocated += size;
  if (void* const p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace {

// A weight [N, K] in Q4_0, made byte by byte, and activations [M, K] whose codes are known: the largest
// magnitude of each group of 32 is 127 times a power of two, so that rounding to 8 bits changes nothing.
struct Product {
  int64_t M, N, K;
  std::vector<uint8_t> blocks;
  Numbers d, w, x;  // scales [N, K / 32], weights [N, K], activations [M, K]
  Values out;

  Product(int64_t m, int64_t n, int64_t k) : M(m), N(n), K(k), out(f32, {m, n}) {
    blocks.resize(static_cast<size_t>(N * K / 32 * 18));
    w.resize(static_cast<size_t>(N * K));
    for (int64_t b = 0; b < N * K / 32; ++b) set_scale(b, static_cast<float>(uniform(-2, 2)));
    for (int64_t i = 0; i < N * K; ++i) set_code(i, static_cast<int>(uniform(0, 16)));
    for (int64_t g = 0; g < M * K / 32; ++g) {
      const double scale = std::exp2(std::floor(uniform(-3, 4)));
      for (int i = 0; i < 32; ++i) x.push_back(scale * std::floor(uniform(-127, 128)));
      x[static_cast<size_t>(32 * g) + static_cast<size_t>(uniform(0, 32))] = 127 * scale;
    }
  }
  void set_scale(int64_t block, float value) {
    const Half half(value);
    std::memcpy(blocks.data() + 18 * block, &half, 2);
    d.resize(static_cast<size_t>(N * K / 32));
    d[static_cast<size_t>(block)] = static_cast<double>(static_cast<float>(half));
  }
  void set_code(int64_t i, int code) {
    uint8_t& byte = blocks[static_cast<size_t>(i / 32 * 18 + 2 + i % 16)];
    byte = static_cast<uint8_t>(i % 32 < 16 ? (byte & 0xf0) | code : (byte & 0x0f) | code << 4);
    w[static_cast<size_t>(i)] = d[static_cast<size_t>(i / 32)] * (code - 8);
  }
  void run(const backend::View& bias = {}) {
    Values activations = Values::of(f32, {M, K}, x);
    cpu::block_linear(out.view(), activations.view(), packed(), bias, *find_block_format("Q4_0"),
                      Activations::int8);
  }
  backend::View packed() {
    const int64_t row = K / 32 * 18;
    return {blocks.data(), u8, {N, row}, {row, 1}};
  }
  // The sum, and that of the magnitudes of its terms.
  std::pair<double, double> expected(int64_t m, int64_t n) const {
    double sum = 0, size = 0;
    for (int64_t k = 0; k < K; ++k) {
      const double p = x[static_cast<size_t>(m * K + k)] * w[static_cast<size_t>(n * K + k)];
      sum += p, size += std::abs(p);
    }
    return {sum, size};
  }
  void check(const std::string& about = "") {
    run();
    const Numbers got = out.numbers();
    for (int64_t m = 0; m < M; ++m) {
      for (int64_t n = 0; n < N; ++n) {
        const auto [want, size] = expected(m, n);
        const double y = got[static_cast<size_t>(m * N + n)];
        expect("row " + shown(n) + " of [" + shown(N) + ", " + shown(K) + "] times row " + shown(m) +
                   " of the activations" + about + ": expected " + shown(want) + ", got " + shown(y) +
                   "; the terms have magnitudes of " + shown(size) + " in all",
               std::abs(y - want) <= (K > 1024 ? 4e-6 : 1e-6) * size + 1e-30);
      }
    }
  }
};

}  // namespace

TEST_CASE("7.7 one block: 16 bytes, with codes i and i + 16 in byte i, and 8 is subtracted") {
  Product p(1, 1, 32);
  p.set_scale(0, 0.5f);
  for (int i = 0; i < 32; ++i) p.set_code(i, 8), p.x[static_cast<size_t>(i)] = i == 31 ? 127 : i;
  p.check(", all codes 8, which are zeros");
  for (const int i : {0, 1, 15, 16, 17, 31}) {
    p.set_code(i, 15);
    p.check(", code " + shown(i) + " is 15, all others are 8, and activation i is i");
    p.set_code(i, 0);
    p.check(", code " + shown(i) + " is 0, all others are 8, and activation i is i");
    p.set_code(i, 8);
  }
}

TEST_CASE("7.7 every code with every sign") {
  Product p(1, 16, 32);
  for (int64_t n = 0; n < 16; ++n)
    for (int64_t i = 0; i < 32; ++i) p.set_code(32 * n + i, static_cast<int>((n + i) % 16));
  p.check();
  for (double& v : p.x) v = v > 0 ? 127 : -127;
  p.check(", activations of 127 and -127");
  for (int64_t i = 0; i < 32 * 16; ++i) p.set_code(i, 0);
  p.check(", codes 0 and activations of 127 and -127: the largest sums of a block");
}

TEST_CASE("7.7 each block has a scale of its own, and so has each group of activations") {
  for (const int64_t K : {64, 96, 512}) Product(1, 4, K).check();
  Product p(1, 3, 128);
  for (int64_t b = 0; b < 12; ++b) p.set_scale(b, b % 4 == 2 ? 100.0f : 0.01f);
  for (int64_t i = 0; i < 3 * 128; ++i) p.set_code(i, static_cast<int>(uniform(0, 16)));
  p.check(", scales of 0.01 and 100");
}

TEST_CASE("7.7 several rows of activations, and a bias") {
  Product(3, 5, 64).check();
  Product p(2, 4, 32);
  Values bias = Values::random(f32, {4});
  p.run(bias.view());
  const Numbers b = bias.numbers(), got = p.out.numbers();
  for (int64_t i = 0; i < 8; ++i) {
    const auto [want, size] = p.expected(i / 4, i % 4);
    expect("with a bias: result " + shown(i), std::abs(got[static_cast<size_t>(i)] - want -
                                                       b[static_cast<size_t>(i % 4)]) <= 1e-6 * size + 1e-6);
  }
}

TEST_CASE("7.7 long rows: sums of 4096 terms in f32") {
  for (int i = 0; i < 3; ++i) Product(1, 2, 4096).check();
  Product p(1, 1, 4096);  // one large block, and 127 that are a thousandth of it
  for (int64_t b = 0; b < 128; ++b) p.set_scale(b, b == 0 ? 1.0f : 0.001f);
  for (int64_t i = 0; i < 4096; ++i) p.set_code(i, i < 32 ? 0 : 15);
  for (double& v : p.x) v = 127;
  p.check(", a large block and many small ones");
}

TEST_CASE("7.7 activations are rounded to 8 bits in groups of 32, and NaN stays NaN") {
  Product p(1, 2, 64);
  for (double& v : p.x) v = uniform(-1, 1);
  p.run();
  for (int64_t n = 0; n < 2; ++n) {
    const auto [want, size] = p.expected(0, n);
    const double got = p.out.numbers()[static_cast<size_t>(n)];
    expect("activations that are no codes: " + shown(want) + ", up to 1 % of the magnitudes' " + shown(size) +
               "; got " + shown(got),
           std::abs(got - want) <= 0.01 * size);
  }
  p.x[40] = NAN;
  p.run();
  expect("an activation that is NaN", std::isnan(p.out.numbers()[1]));
}

TEST_CASE("7.7 the weights are never unpacked to memory") {
  Product p(1, 16, 4096);
  Values x = Values::of(f32, {1, 4096}, p.x);
  const backend::View out = p.out.view(), activations = x.view(), packed = p.packed();
  const BlockFormat& format = *find_block_format("Q4_0");
  HostAllocator& host = HostAllocator::instance();
  host.reset_peak();
  const size_t held = host.stats().current, before = bytes_allocated;
  cpu::block_linear(out, activations, packed, {}, format, Activations::int8);
  const size_t used = host.stats().peak - held + (bytes_allocated - before);
  // Activations as floats, as codes with scales, and the results.
  const size_t formula = 4 * 4096 + 4096 + 4 * 128 + 4 * 16;
  expect(
      "memory for a product of [1, 4096] and [16, 4096]: " + shown(static_cast<int64_t>(formula)) +
          " bytes for the activations and results, and no room for a row of weights as floats (16384); got " +
          shown(static_cast<int64_t>(used)),
      used < formula + 4096);
}
