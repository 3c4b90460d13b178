// Results of non-temporal stores have the bits of ordinary stores, in every layout, and are used only where
// allowed.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <tinytorch/backend/cpu/loops/non_temporal.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

// Forces non-temporal stores for every result, or for none, until the end of the block.
class Streaming {
 public:
  explicit Streaming(bool all) { tt::streaming_bytes = all ? -1 : std::numeric_limits<int64_t>::max(); }
  ~Streaming() { tt::streaming_bytes = before_; }

 private:
  int64_t before_ = tt::streaming_bytes;
};

std::vector<float> values(int64_t n, uint64_t seed) {
  tt::Generator g(seed);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(g.uniform(-3, 3));
  if (n > 3) v[3] = NAN;
  return v;
}

// Calls call(out) on n bytes at an odd address, with and without non-temporal stores, and compares all bytes
// and those around.
template <class F>
void check_same(int64_t bytes, size_t shift, F&& call) {
  std::vector<char> results[2];
  for (const bool non_temporal : {false, true}) {
    std::vector<char>& out = results[non_temporal];
    out.assign(static_cast<size_t>(bytes) + 256, 'x');
    const Streaming all(non_temporal);
    const auto base = reinterpret_cast<uintptr_t>(out.data());
    call(out.data() + (64 - base % 64) + shift);
  }
  // The two vectors may have different offsets in a cache line: compare from the beginning of a line.
  const auto from = [&](int k) {
    return results[k].data() + (64 - reinterpret_cast<uintptr_t>(results[k].data()) % 64);
  };
  CHECK(std::memcmp(from(0), from(1), static_cast<size_t>(bytes) + 128) == 0);
}

}  // namespace

TEST_CASE("unary, binary, where, casts and copies: the same bits with non-temporal stores") {
  for (const int64_t n : {1, 3, 127, 128, 129, 255, 1024, 1025, 32769, 32896, 32897, 40'000, 100'001}) {
    CAPTURE(n);
    std::vector<float> a = values(n, 1), b = values(n, 2);
    const View x{a.data(), tt::f32, {n}, {1}}, y{b.data(), tt::f32, {n}, {1}};
    for (const size_t shift : {size_t{0}, size_t{4}, size_t{60}}) {
      check_same(4 * n, shift, [&](char* out) { cpu::unary(UnaryFn::exp, {out, tt::f32, {n}, {1}}, x); });
      check_same(4 * n, shift, [&](char* out) {
        cpu::binary(BinaryFn::mul, {out, tt::f32, {n}, {1}}, x, y);
      });
      check_same(4 * n, shift, [&](char* out) { cpu::copy({out, tt::f32, {n}, {1}}, x); });
      check_same(4 * n, shift, [&](char* out) { cpu::copy({out, tt::i32, {n}, {1}}, x); });
      check_same(4 * n, shift, [&](char* out) { cpu::fill(View{out, tt::f32, {n}, {1}}, 2.5); });
    }
    check_same(2 * n, 2, [&](char* out) { cpu::copy({out, tt::bf16, {n}, {1}}, x); });
    check_same(8 * n, 8, [&](char* out) { cpu::copy({out, tt::f64, {n}, {1}}, x); });
    check_same(n, 1, [&](char* out) { cpu::binary(BinaryFn::lt, {out, tt::boolean, {n}, {1}}, x, y); });
  }
}

TEST_CASE("strided and broadcast inputs, and a result that is not a multiple of a block") {
  for (const int64_t rows : {1, 5, 300}) {
    for (const int64_t cols : {7, 255, 257, 1500}) {
      CAPTURE(rows);
      CAPTURE(cols);
      std::vector<float> a = values(2 * rows * cols, 1), b = values(cols, 2);
      const View stepped{a.data(), tt::f32, {rows, cols}, {2 * cols, 2}},
          columns{a.data(), tt::f32, {rows, cols}, {1, rows}}, row{b.data(), tt::f32, {cols}, {1}};
      const auto dense = [&](char* out) { return View{out, tt::f32, {rows, cols}, {cols, 1}}; };
      check_same(4 * rows * cols, 0,
                 [&](char* out) { cpu::binary(BinaryFn::sub, dense(out), stepped, row); });
      check_same(4 * rows * cols, 4, [&](char* out) { cpu::copy(dense(out), stepped); });
      check_same(4 * rows * cols, 4, [&](char* out) { cpu::copy(dense(out), columns); });
      check_same(4 * rows * 2 * cols, 0, [&](char* out) {  // every other element; those between are unchanged
        cpu::unary(UnaryFn::neg, {out, tt::f32, {rows, cols}, {2 * cols, 2}}, stepped);
      });
    }
  }
}

TEST_CASE("non-temporal stores are for results that are large, contiguous, and not in place of an input") {
  std::vector<float> a(64), b(64);
  const View x{a.data(), tt::f32, {8, 8}, {8, 1}}, out{b.data(), tt::f32, {8, 8}, {8, 1}};
  View gaps = out, one = x;
  gaps.shape = {8, 4}, one.strides = {0, 0};
  CHECK(cpu::bytes_of(x) == 256);
  CHECK(cpu::bytes_of(one) == 4);
  CHECK(cpu::bytes_of({a.data(), tt::f32, {0, 8}, {0, 1}}) == 0);
  const int64_t before = tt::streaming_bytes;
  tt::streaming_bytes = 511;
  CHECK(cpu::uses_non_temporal_stores(out, {x}));
  CHECK(!cpu::uses_non_temporal_stores(out, {one}));
  CHECK(!cpu::uses_non_temporal_stores(x, {x}));
  tt::streaming_bytes = 0;
  CHECK(!cpu::uses_non_temporal_stores(gaps, {x}));
  CHECK(!cpu::uses_non_temporal_stores(x, {out, x}));
  tt::streaming_bytes = 512;
  CHECK(!cpu::uses_non_temporal_stores(out, {x}));
  tt::streaming_bytes = before;
}
