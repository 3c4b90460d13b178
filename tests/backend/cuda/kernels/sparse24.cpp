// 2:4 sparse weights on CUDA: compression against the definition, strips, and products against sums in
// double.
#include <algorithm>
#include <cmath>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/sparse24.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using backend::Strips24;

// The places that are kept of four numbers: the two of the largest magnitude, the first of equal ones.
std::vector<size_t> places_of(const double* group) {
  std::vector<size_t> order{0, 1, 2, 3};
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const double x = std::isnan(group[a]) ? INFINITY : std::abs(group[a]),
                 y = std::isnan(group[b]) ? INFINITY : std::abs(group[b]);
    if (std::isnan(group[a]) != std::isnan(group[b]) && x == y) return std::isnan(group[a]);
    return x > y;
  });
  order.resize(2);
  std::sort(order.begin(), order.end());
  return order;
}

// A sparse weight on the device, and its dense form.
struct Weight24 {
  int64_t N, K;
  std::vector<double> dense;
  DeviceArray values, places, strips;

  Weight24(DeviceArray from, DType t)
      : N(from.shape()[0]),
        K(from.shape()[1]),
        dense(from.values()),
        values(t, {N, K / 2}),
        places(u8, {N, (K + 15) / 16 * 2}),
        strips(u8, t == f32 ? Shape{1, 1} : Strips24::shape(N, K)) {
    kernels::compress24(values.view(), places.view(), from.view());
    if (t != f32) kernels::strips24(strips.view(), values.view(), places.view());
    for (size_t g = 0; g < dense.size(); g += 4) {
      const std::vector<size_t> kept = places_of(&dense[g]);
      for (size_t i = 0; i < 4; ++i)
        if (i != kept[0] && i != kept[1]) dense[g + i] = 0;
    }
  }
};

void check_compressed(const Weight24& w, const std::vector<double>& values,
                      const std::vector<double>& places) {
  std::vector<double> back(w.dense.size());
  const int64_t bytes = (w.K + 15) / 16 * 2;
  int64_t beyond = 0, unordered = 0;
  for (int64_t n = 0; n < w.N; ++n) {
    for (int64_t g = 0; g < bytes * 2; ++g) {
      const auto byte = static_cast<unsigned>(places[static_cast<size_t>(n * bytes + g / 2)]);
      const unsigned two = byte >> (g % 2 * 4) & 15u, low = two & 3, high = two >> 2;
      if (low >= high) ++unordered;
      if (g * 4 >= w.K) {
        beyond += two != 4;
        continue;
      }
      const auto at = static_cast<size_t>(n * w.K + g * 4), from = at / 2;
      back[at + low] = values[from], back[at + high] = values[from + 1];
    }
  }
  CHECK(beyond == 0);
  CHECK(unordered == 0);
  CHECK(std::equal(back.begin(), back.end(), w.dense.begin(),
                   [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
}

std::vector<double> product_of(const std::vector<double>& x, const Weight24& w,
                               const std::vector<double>& bias, int64_t M) {
  std::vector<double> out;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < w.N; ++n) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(n)];
      for (int64_t k = 0; k < w.K; ++k)
        sum += x[static_cast<size_t>(m * w.K + k)] * w.dense[static_cast<size_t>(n * w.K + k)];
      out.push_back(sum);
    }
  }
  return out;
}

void check_product(Fresh& fresh, DType t, int64_t M, int64_t N, int64_t K, Layout layout = Layout::dense,
                   Layout of_out = Layout::dense, bool biased = true) {
  INFO(text_of(t), " ", M, " x ", N, " x ", K, " layout ", static_cast<int>(layout), " result ",
       static_cast<int>(of_out));
  Weight24 w(fresh.array(t, {N, K}), t);
  DeviceArray x = fresh.array(t, {M, K}, -1, 1, layout), bias = fresh.array(f32, {N}), out(t, {M, N}, of_out);
  kernels::linear_sparse24(out.view(), x.view(), w.strips.view(), biased ? bias.view() : View{});
  const std::vector<double> want =
      product_of(x.values(), w, biased ? bias.values() : std::vector<double>{}, M);
  const std::vector<double> got = out.values();
  const double unit = t == bf16 ? 1.0 / 256 : 1.0 / 2048;  // of the result's rounding
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off =
        std::abs(got[i] - want[i]) / (unit * std::abs(want[i]) + 1e-6 * static_cast<double>(K));
    if (!(off <= worst)) worst = off;
  }
  CHECK(worst <= 1.0);
  if (of_out != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace

TEST_CASE("the two largest of four are kept, with ties, zeros, NaN and infinity" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {f32, bf16, f16}) {
    for (const auto& [N, K] : {std::pair<int64_t, int64_t>{1, 4}, {3, 12}, {5, 16}, {2, 100}, {33, 64}}) {
      Weight24 w(fresh.array(t, {N, K}), t);
      check_compressed(w, w.values.values(), w.places.values());
      Weight24 ties(fresh.integers(t, {N, K}, -2, 3), t);
      check_compressed(ties, ties.values.values(), ties.places.values());
      Weight24 apart(fresh.array(t, {N, K}, -1, 1, Layout::gaps), t);
      check_compressed(apart, apart.values.values(), apart.places.values());
    }
    const std::vector<double> odd{NAN, 1,         2, 3,   0, 0, 0,  0, INFINITY, NAN, 5,   6,
                                  -7,  -INFINITY, 8, NAN, 0, 0, -1, 0, NAN,      NAN, NAN, 1};
    Weight24 w(DeviceArray::from(t, {2, 12}, odd), t);
    check_compressed(w, w.values.values(), w.places.values());
  }
  DeviceArray none(f32, {0, 8}), values(f32, {0, 4}), places(u8, {0, 2});
  kernels::compress24(values.view(), places.view(), none.view());
}

TEST_CASE("strips have 9/16 of the bytes, and zeros at places 0 and 1 beyond the matrix" * needs_devices()) {
  CHECK(Strips24::shape(4096, 4096).numel() * 16 == int64_t{4096} * 4096 * 2 * 9);
  CHECK(Strips24::shape(17, 65) == Shape{2, 2 * 1152});
  Fresh fresh;
  Weight24 w(fresh.array(bf16, {1, 4}, 1, 2), bf16);
  const std::vector<double> bytes = w.strips.values();
  size_t filled = 0;
  for (size_t i = 0; i < 1024; ++i) filled += bytes[i] != 0;
  CHECK(filled <= 4);
  CHECK(filled >= 2);
  for (size_t i = 1025; i < 1152; ++i) CHECK(bytes[i] == 0x44);
}

TEST_CASE("few rows of x: any sizes, layouts and dtypes" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16}) {
    check_product(fresh, t, 1, 1, 4);
    check_product(fresh, t, 1, 16, 64);
    check_product(fresh, t, 1, 33, 640, Layout::dense, Layout::dense, false);
    check_product(fresh, t, 3, 20, 1100, Layout::gaps);
    check_product(fresh, t, 4, 17, 36, Layout::offset, Layout::offset);
    check_product(fresh, t, 8, 50, 64 * 37);
    check_product(fresh, t, 9, 31, 200, Layout::gaps, Layout::gaps);
    check_product(fresh, t, 16, 15, 128);
    check_product(fresh, t, 25, 40, 72);
    check_product(fresh, t, 32, 16, 520);
  }
}

TEST_CASE("many rows of x: partial tiles, depths and layouts" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16}) {
    check_product(fresh, t, 33, 128, 64);
    check_product(fresh, t, 64, 130, 192, Layout::gaps, Layout::gaps);
    check_product(fresh, t, 70, 100, 260);
    check_product(fresh, t, 128, 17, 64 * 13, Layout::dense, Layout::offset, false);
    check_product(fresh, t, 129, 129, 4);
    check_product(fresh, t, 130, 70, 128);
    check_product(fresh, t, 257, 140, 64 * 4 + 8, Layout::offset);
    check_product(fresh, t, 300, 65, 64 * 9, Layout::gaps, Layout::gaps);
#if !TINYTORCH_CUDA_SIM  // clusters of two blocks, each with several tiles, the last without rows of the
                         // weight
    check_product(fresh, t, 1100, 4700, 72);
    check_product(fresh, t, 600, 9000, 64 * 5);
#endif
  }
}

namespace {

using backend::Int4Strips24;

// The kept numbers rounded to 4 bits: the largest of 64 becomes -8.
std::vector<double> rounded_to_int4(const Weight24& w) {
  std::vector<double> out(w.dense.size());
  for (int64_t n = 0; n < w.N; ++n) {
    for (int64_t first = 0; first < w.K; first += 128) {
      const auto begin = static_cast<size_t>(n * w.K + first),
                 end = static_cast<size_t>(n * w.K + std::min(w.K, first + 128));
      double most = 0;
      for (size_t i = begin; i < end; ++i)
        if (std::abs(w.dense[i]) > std::abs(most)) most = w.dense[i];
      const auto scale =
          static_cast<double>(static_cast<float>(tinytorch::Half(static_cast<float>(most / -8))));
      for (size_t i = begin; i < end && scale != 0; ++i)
        out[i] = std::clamp(std::floor(w.dense[i] / scale + 8.5), 0.0, 15.0) * scale - 8 * scale;
    }
  }
  return out;
}

void check_int4(Fresh& fresh, DType t, int64_t M, int64_t N, int64_t K, Layout layout = Layout::dense) {
  INFO(text_of(t), " ", M, " x ", N, " x ", K);
  Weight24 w(fresh.array(t, {N, K}), t);
  DeviceArray codes(u8, Int4Strips24::shape(N, K)), scales(f16, Int4Strips24::scales_shape(N, K));
  kernels::strips24_int4(codes.view(), scales.view(), w.values.view(), w.places.view());
  Array cpu_codes(u8, codes.shape()), cpu_scales(f16, scales.shape());
  Array values = Array::from(t, w.values.shape(), w.values.values()),
        places = Array::from(u8, w.places.shape(), w.places.values());
  backend::cpu::strips24_int4(cpu_codes.view(), cpu_scales.view(), values.view(), places.view());
  CHECK(codes.values() == cpu_codes.values());
  CHECK(scales.values() == cpu_scales.values());

  const DType x_type = t == f32 ? bf16 : t;
  DeviceArray x = fresh.array(x_type, {M, K}, -1, 1, layout), bias = fresh.array(f32, {N}),
              out(x_type, {M, N});
  kernels::linear_sparse24_int4(out.view(), x.view(), codes.view(), scales.view(), bias.view());
  w.dense = rounded_to_int4(w);
  const std::vector<double> want = product_of(x.values(), w, bias.values(), M), got = out.values();
  const double unit = x_type == bf16 ? 1.0 / 256 : 1.0 / 2048;
  // Numbers in the middle of two codes may be rounded to either: a few steps of about 1/8, each of which is
  // seen in every row of x.
  double worst = 0, total = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double off = std::abs(got[i] - want[i]) - unit * std::abs(want[i]);
    if (!(off <= worst)) worst = off;
    total += std::max(off, 0.0);
  }
  CHECK(worst <= 0.3);
  CHECK(total <= 1e-3 * static_cast<double>(want.size()) + 0.3 * static_cast<double>(M));
}

}  // namespace

TEST_CASE("kept numbers of 4 bits: codes as on the CPU, products of any sizes" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {bf16, f16, f32}) {
    check_int4(fresh, t, 1, 1, 4);
    check_int4(fresh, t, 1, 40, 640);
    check_int4(fresh, t, 5, 16, 128, Layout::gaps);
    check_int4(fresh, t, 8, 17, 64 * 35);
    check_int4(fresh, t, 12, 33, 260);
    check_int4(fresh, t, 40, 20, 192);
  }
}

TEST_CASE("NaN and infinity reach their results, and empty operands write only a bias" * needs_devices()) {
  Fresh fresh;
  for (const int64_t M : {2, 40, 200}) {
    const int64_t N = 20, K = 64;
    Weight24 w(fresh.array(bf16, {N, K}, 1, 2), bf16);
    std::vector<double> v(static_cast<size_t>(M * K), 1.0);
    v[static_cast<size_t>(K)] = NAN;
    DeviceArray x = DeviceArray::from(bf16, {M, K}, v), out(bf16, {M, N});
    kernels::linear_sparse24(out.view(), x.view(), w.strips.view(), {});
    const std::vector<double> got = out.values();
    for (size_t i = 0; i < got.size(); ++i) {
      const bool first = w.dense[i % static_cast<size_t>(N) * static_cast<size_t>(K)] != 0;
      if (i / static_cast<size_t>(N) == 1 && first) CHECK(std::isnan(got[i]));
      if (i / static_cast<size_t>(N) != 1) CHECK(std::isfinite(got[i]));
    }
  }
  DeviceArray x(bf16, {3, 0}), strips(u8, {1, 0}), bias = fresh.array(f32, {5}), out(f32, {3, 5});
  kernels::linear_sparse24(out.view(), x.view(), strips.view(), bias.view());
  const std::vector<double> got = out.values(), b = bias.values();
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == b[i % 5]);
  DeviceArray none(bf16, {0, 64}), nothing(bf16, {0, 5});
  kernels::linear_sparse24(nothing.view(), none.view(), strips.view(), {});
}

#else
TEST_CASE("2:4 sparse products on CUDA: the build has no CUDA" * doctest::skip()) {}
#endif
