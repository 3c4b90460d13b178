#include <algorithm>
#include <support/fresh.hpp>
#include <tinytorch/backend/cpu/code_linear.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

// Random codes that are no NaN or infinity, with scales and zero points, on both devices.
struct CodedWeights {
  const BlockFormat& format;
  int64_t N, K;
  std::vector<double> codes, scales, zeros;
  DeviceArray on_device, scale, zero;

  CodedWeights(Fresh& fresh, const BlockFormat& f, int64_t n, int64_t k)
      : format(f),
        N(n),
        K(k),
        codes(random_codes(fresh, f, n * k)),
        scales(
            random_numbers(fresh, f.scales == Scales::of_tensor ? 1 : n, 0.01 / largest(f), 1 / largest(f))),
        zeros(random_integers(fresh, f, std::ssize(scales))),
        on_device(DeviceArray::from(u8, {n, k}, codes)),
        scale(DeviceArray::from(f32, {std::ssize(scales)}, scales)),
        zero(DeviceArray::from(i32, {std::ssize(zeros)}, zeros)) {
    scales = scale.values();  // as f32
  }
  static double largest(const BlockFormat& f) {
    return f.codes == CodeType::int8 ? 127 : f.codes == CodeType::fp8_e4m3 ? 448 : 57344;
  }
  static float plain(const BlockFormat& f, uint8_t code) {
    float x;
    f.unpack(&code, 1, &x);
    return x;
  }
  static std::vector<double> random_codes(Fresh& fresh, const BlockFormat& f, int64_t count) {
    Generator g(fresh.next());
    std::vector<double> out;
    while (std::ssize(out) < count) {
      const auto code = static_cast<uint8_t>(g.uniform(0, 256));
      if (std::isfinite(plain(f, code))) out.push_back(code);
    }
    return out;
  }
  static std::vector<double> random_numbers(Fresh& fresh, int64_t count, double low, double high) {
    Generator g(fresh.next());
    std::vector<double> out(static_cast<size_t>(count));
    for (double& v : out) v = g.uniform(low, high);
    return out;
  }
  static std::vector<double> random_integers(Fresh& fresh, const BlockFormat& f, int64_t count) {
    std::vector<double> out = random_numbers(fresh, count, -128, 127);
    for (double& v : out) v = f.zero_points ? std::trunc(v) : 0;
    return out;
  }
  double value(int64_t n, int64_t k) const {
    const size_t at = scales.size() == 1 ? 0 : static_cast<size_t>(n);
    const auto code = static_cast<uint8_t>(codes[static_cast<size_t>(n * K + k)]);
    return scales[at] * (static_cast<double>(plain(format, code)) - zeros[at]);
  }
  View zero_view() { return format.zero_points ? zero.view() : View{}; }
};

void check_product(Fresh& fresh, const BlockFormat& f, DType t, int64_t M, int64_t N, int64_t K,
                   Layout layout, Activations activations) {
  INFO(std::string(f.name), " ", text_of(t), " ", M, " x ", N, " x ", K, " layout ", static_cast<int>(layout),
       " int8 ", activations == Activations::int8);
  CodedWeights w(fresh, f, N, K);
  DeviceArray x = fresh.array(t, {M, K}, -1, 1, layout), bias = fresh.array(f32, {N}), out(t, {M, N}, layout);
  kernels::code_linear(out.view(), x.view(), w.on_device.view(), w.scale.view(), w.zero_view(), bias.view(),
                       f, activations);
  const std::vector<double> values = x.values(), b = bias.values(), got = out.values();
  const bool coded = activations == Activations::int8;
  // The relative error of a term: of decoded weights and results in their dtype, and of activations.
  const double unit = t == bf16 ? 1.0 / 128 : t == f16 ? 1.0 / 1024 : 1e-6;
  const double of_codes = !coded                                    ? 0
                          : f.codes == CodeType::int8               ? 1.0 / 254
                          : f.codes == CodeType::fp8_e4m3 && M > 16 ? 1.0 / 16
                                                                    : 0;
  double worst = 0;
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      double sum = b[static_cast<size_t>(n)], most = std::abs(sum), plain = 0;
      for (int64_t k = 0; k < K; ++k) {
        const double weight = w.value(n, k), v = values[static_cast<size_t>(m * K + k)];
        sum += v * weight, most += std::abs(v * weight), plain += std::abs(weight);
      }
      // An i8 of a row has an absolute error, since x is at most 1; an fp8 one relative to its number.
      const double allowed = unit * most + of_codes * (f.codes == CodeType::int8 ? plain : most);
      worst = std::max(worst, std::abs(sum - got[static_cast<size_t>(m * N + n)]) / allowed);
    }
  }
  CHECK(worst < 1.5);
  if (layout != Layout::gaps) CHECK(out.untouched_around());
}

}  // namespace

TEST_CASE("products of codes on the device equal those with the decoded weights") {
  Fresh fresh;
  INFO(fresh.text());
  for (const BlockFormat& f : code_formats()) {
    for (const Activations a : {Activations::int8, Activations::floats}) {
      check_product(fresh, f, f32, 1, 1, 1, Layout::dense, a);
      check_product(fresh, f, f32, 3, 21, 35, Layout::dense, a);
      check_product(fresh, f, bf16, 2, 10, 96, Layout::gaps, a);
      check_product(fresh, f, f16, 5, 7, 64, Layout::offset, a);
      check_product(fresh, f, bf16, 18, 9, 80, Layout::dense, a);
      check_product(fresh, f, f32, 17, 9, 33, Layout::gaps, a);
    }
  }
}

TEST_CASE("integers with activations of 8 bits have the bits of the CPU, before the bias is added") {
  Fresh fresh;
  INFO(fresh.text());
  for (const char* const name : {"I8", "I8_zero", "I8_tensor", "I8_tensor_zero"}) {
    for (const auto& [M, N, K] : {std::array<int64_t, 3>{1, 33, 64}, {3, 5, 77}, {21, 17, 48}}) {
      INFO(std::string(name), " ", M, " x ", N, " x ", K);
      const BlockFormat& f = *find_code_format(name);
      CodedWeights w(fresh, f, N, K);
      DeviceArray x = fresh.array(f32, {M, K}), out(f32, {M, N});
      kernels::code_linear(out.view(), x.view(), w.on_device.view(), w.scale.view(), w.zero_view(), {}, f,
                           Activations::int8);
      Array in = Array::from(f32, {M, K}, x.values()), codes = Array::from(u8, {N, K}, w.codes),
            want(f32, {M, N}), scales = Array::from(f32, {std::ssize(w.scales)}, w.scales),
            zeros = Array::from(i32, {std::ssize(w.zeros)}, w.zeros);
      backend::cpu::code_linear(want.view(), in.view(), codes.view(), scales.view(),
                                f.zero_points ? zeros.view() : View{}, {}, f, Activations::int8);
      CHECK(out.values() == want.values());
    }
  }
}

#endif
