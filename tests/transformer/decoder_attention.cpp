#include <tinytorch/transformer/decoder_attention.hpp>

#include <cmath>
#include <support/errors.hpp>
#include <support/values.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("capped attention against a loop in double") {
  tt::Generator g(4);
  const int64_t B = 2, H = 4, G = 2, D = 3;
  for (const auto& [T, S, window] : {std::tuple<int64_t, int64_t, int64_t>{5, 5, 0}, {1, 7, 3}, {4, 6, 2}}) {
    const tt::Tensor q = tt::randn({B, H, T, D}, tt::f32, tt::default_device(), g) * 2;
    const tt::Tensor k = tt::randn({B, G, S, D}, tt::f32, tt::default_device(), g);
    const tt::Tensor v = tt::randn({B, G, S, D}, tt::f32, tt::default_device(), g);
    const auto Q = q.to_vector<double>(), K = k.to_vector<double>(), V = v.to_vector<double>();
    std::vector<double> expected;
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h)
        for (int64_t t = 0; t < T; ++t) {
          const int64_t at = S - T + t, first = window > 0 ? std::max<int64_t>(0, at - window + 1) : 0;
          const auto row = [&](int64_t s, int64_t d) {
            return static_cast<size_t>(((b * G + h / 2) * S + s) * D + d);
          };
          double total = 0;
          std::vector<double> sum(3, 0.0);
          for (int64_t s = first; s <= at; ++s) {
            double score = 0;
            for (int64_t d = 0; d < D; ++d)
              score += Q[static_cast<size_t>(((b * H + h) * T + t) * D + d)] * K[row(s, d)];
            const double p = std::exp(1.5 * std::tanh(0.4 * score / 1.5));
            total += p;
            for (int64_t d = 0; d < D; ++d) sum[static_cast<size_t>(d)] += p * V[row(s, d)];
          }
          for (const double x : sum) expected.push_back(x / total);
        }
    const tt::Tensor y = tt::capped_attention(q, k, v, {.causal = true, .window = window, .scale = 0.4}, 1.5);
    check_values(y.to_vector<double>(), expected, 1e-5);
  }
}

TEST_CASE("OffsetRmsNorm multiplies by offset + weight, in f32 for 16-bit values") {
  tt::Generator g(5);
  const tt::NoGrad no_grad;
  tt::OffsetRmsNorm norm(6, 1e-6, 1);
  CHECK(tt::max(tt::abs(norm.weight)).item() == 0);  // a new norm changes nothing but the length
  norm.weight.copy_(tt::randn({6}, tt::f32, tt::default_device(), g) * 0.01);
  const tt::Tensor x = tt::randn({3, 6}, tt::f32, tt::default_device(), g);
  const tt::Tensor expected = tt::rms_norm(x, norm.weight + 1, 1e-6);
  CHECK(norm(x).to_vector() == expected.to_vector());
  const tt::Tensor branch = tt::randn({3, 6}, tt::f32, tt::default_device(), g);
  const tt::NormalizedSum both = tt::normalize(norm, {x, branch}, 0);
  check_values(both.sum.to_vector<double>(), (x + branch).to_vector<double>(), 1e-6);
  check_values(both.normalized.to_vector<double>(), norm(x + branch).to_vector<double>(), 1e-5);
  norm.to(tt::bf16);
  const tt::Tensor half = x.to(tt::bf16),
                   exact = tt::rms_norm(half.to(tt::f32), norm.weight.to(tt::f32) + 1, 1e-6);
  CHECK(norm(half).dtype() == tt::bf16);
  CHECK(norm(half).to_vector() == exact.to(tt::bf16).to_vector());
}

TEST_CASE("groups must divide heads") {
  const std::string message =
      message_of([] { tt::DecoderAttention a({.features = 8, .heads = 4, .groups = 3, .head_size = 2}); });
  CHECK(message.starts_with("TT-NN-22"));
}
