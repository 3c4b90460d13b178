#include <tinytorch/quantization/smooth.hpp>

#include "planted_layer.hpp"

using namespace course;

namespace {

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }
Tensor of_numbers(const Numbers& x, const Shape& shape) { return Tensor(from_data(x, shape)).to(f32); }
Tensor random(const Shape& shape, double size = 1) {
  return of_numbers(Values::random(f32, shape, Layout::contiguous, -size, size).numbers(), shape);
}
void fill(const Tensor& t, double size, double middle = 0) {
  const NoGrad no_grad;
  t.detach().copy_(random(t.shape(), size) + middle);
}
Numbers channel_max_of(const Numbers& x, size_t K) {
  Numbers most(K);
  for (size_t i = 0; i < x.size(); ++i) most[i % K] = std::max(most[i % K], std::abs(x[i]));
  return most;
}
Numbers scaled(const Numbers& x, const Numbers& s, double exponent) {
  Numbers y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * std::pow(s[i % s.size()], exponent);
  return y;
}

// Checks that smooth_ does not change what the readers compute from the output of `maker`, and checks that
// output.
template <class Maker>
void check_same_function(const std::string& what, Maker& maker, int64_t inputs, double alpha,
                         bool rectified) {
  const NoGrad no_grad;
  Linear query(12, 5), key(12, 3, false);
  fill(query.weight, 1), fill(query.bias, 1), fill(key.weight, 30);  // the key's weights are the larger ones
  const Tensor x = random({40, inputs}, 2);
  const auto channels = [&] { return rectified ? relu(maker(x)) : maker(x); };
  const Tensor before = channels();
  const Numbers q = numbers(query(before)), k = numbers(key(before)), made = numbers(before);
  const Numbers x_max = channel_max_of(made, 12), wq = channel_max_of(numbers(query.weight), 12),
                wk = channel_max_of(numbers(key.weight), 12);
  const Numbers s = numbers(smooth_(maker, {&query, &key}, of_numbers(x_max, {12}), alpha));
  Numbers want(12);
  for (size_t j = 0; j < 12; ++j)
    want[j] = std::pow(x_max[j], alpha) / std::pow(std::max(wq[j], wk[j]), 1 - alpha);
  expect_close("s of " + what + ": max|W_j| over all readers", s, want, {12}, {.roundings = 30});
  const Numbers divided = numbers(channels());
  expect_close("what " + what + " makes after smooth_: that of before, divided by s", divided,
               scaled(made, s, -1), {40, 12}, {.roundings = 50, .scale = 4});
  expect_close("what the queries read from " + what + ": the same as before", numbers(query(channels())), q,
               {40, 5}, {.roundings = 200, .scale = 10});
  expect_close("what the keys read from " + what + ": the same as before", numbers(key(channels())), k,
               {40, 3}, {.roundings = 200, .scale = 300});
}

}  // namespace

TEST_CASE("7.9 the largest magnitude of each channel") {
  const Tensor x = of_numbers({1, -5, 0, -2, 4, 0}, {2, 3});
  expect_close("channel_max of {1, -5, 0}, {-2, 4, 0}", numbers(channel_max(x)), {2, 5, 0}, {3});
  const Tensor large = random({4, 5, 7}).to(bf16);
  expect_close("channel_max of bf16 [4, 5, 7]: over all dimensions but the last", numbers(channel_max(large)),
               channel_max_of(numbers(large), 7), {7});
  expect_close("channel_max of no rows [0, 3]", numbers(channel_max(of_numbers({}, {0, 3}))), {0, 0, 0}, {3});
}

TEST_CASE("7.9 s = max|X|^alpha / max|W|^(1 - alpha)") {
  const Tensor x = of_numbers({4, 100, 0.5}, {3}), w = of_numbers({1, 0.25, 2}, {3});
  for (const double alpha : {0.5, 0.75, 0.2, 0.0, 1.0}) {
    const Numbers X{4, 100, 0.5}, W{1, 0.25, 2};
    Numbers want(3);
    for (size_t j = 0; j < 3; ++j) want[j] = std::pow(X[j], alpha) / std::pow(W[j], 1 - alpha);
    expect_close("smoothing_scales of max|X| = {4, 100, 0.5}, max|W| = {1, 0.25, 2}, alpha = " + shown(alpha),
                 numbers(smoothing_scales(x, w, alpha)), want, {3});
  }
}

TEST_CASE("7.9 a channel without inputs, or without weights, stays as it is") {
  expect_close("scales of max|X| = {0, 3, 0, 4}, max|W| = {2, 0, 0, 1}",
               numbers(smoothing_scales(of_numbers({0, 3, 0, 4}, {4}), of_numbers({2, 0, 0, 1}, {4}))),
               {1, 1, 1, 2}, {4});
}

TEST_CASE("7.9 what makes the channels is divided, what reads them is multiplied") {
  const Tensor weight = of_numbers({1, 2, 3, 4, 5, 6}, {3, 2}), bias = of_numbers({10, 20, 30}, {3}),
               reader = of_numbers({1, 1, 1, 2, 2, 2}, {2, 3}), s = of_numbers({2, 10, 0.5}, {3});
  fold_scales_({weight, bias, Tensor()}, {reader, Tensor()}, s);
  expect_close("the maker's weight {1, 2}, {3, 4}, {5, 6} for s = {2, 10, 0.5}: each row makes a channel",
               numbers(weight), {0.5, 1, 0.3, 0.4, 10, 12}, {3, 2});
  expect_close("its bias {10, 20, 30}", numbers(bias), {5, 2, 60}, {3});
  expect_close("the reader's weight {1, 1, 1}, {2, 2, 2}: each column reads one", numbers(reader),
               {2, 10, 0.5, 4, 20, 1}, {2, 3});
  const Tensor half = of_numbers({1, 2, 3}, {3}).to(bf16), wide = of_numbers({1, 2, 3}, {1, 3}).to(f64);
  fold_scales_({half}, {wide}, s);
  expect_close("a maker of bf16 {1, 2, 3}", numbers(half), numbers(of_numbers({0.5, 0.2, 6}, {3}).to(bf16)),
               {3});
  expect_close("a reader of f64 {1, 2, 3}", numbers(wide), {2, 20, 1.5}, {1, 3});
}

TEST_CASE("7.9 norms and linear layers: the model computes the same before and after") {
  LayerNorm norm(12);
  fill(norm.weight, 1, 3), fill(norm.bias, 2);
  check_same_function("a LayerNorm", norm, 12, 0.5, false);
  RMSNorm rms(12);
  fill(rms.weight, 1, 3);
  check_same_function("an RMSNorm", rms, 12, 0.8, false);
  Linear before(6, 12);
  fill(before.weight, 1), fill(before.bias, 1);
  check_same_function("a Linear", before, 6, 0.3, false);
  Linear rectified(6, 12, false);
  fill(rectified.weight, 1);
  check_same_function("a Linear with a ReLU behind it", rectified, 6, 0.5, true);
}

TEST_CASE("7.9 what does not fit is refused before anything changes") {
  LayerNorm norm(4);
  Linear fits(4, 2), other(5, 2);
  const Tensor most = of_numbers({3, 3, 3, 3}, {4});
  const Numbers before = numbers(norm.weight), reader = numbers(fits.weight);
  for (const double alpha : {-0.1, 1.5, static_cast<double>(NAN)})
    expect_throws("TT-CALIB-03", "alpha = " + shown(alpha),
                  [&] { (void)smoothing_scales(most, most, alpha); });
  expect_throws("TT-SHAPE-02", "maxima of 4 and of 3 channels", [&] {
    (void)smoothing_scales(most, of_numbers({1, 1, 1}, {3}));
  });
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)})
    expect_throws("TT-CALIB-01", "a maximum of " + shown(bad), [&] {
      (void)smoothing_scales(of_numbers({1, bad}, {2}), of_numbers({1, 1}, {2}));
    });
  expect_throws("TT-SHAPE-02", "a reader of 5 channels beside one of 4", [&] {
    fold_scales_({norm.weight}, {fits.weight, other.weight}, most);
  });
  expect_throws("TT-SHAPE-02", "a maker of 2 channels",
                [&] { fold_scales_({fits.weight}, {fits.weight}, most); });
  expect("nothing was scaled", numbers(norm.weight) == before && numbers(fits.weight) == reader);
}

TEST_CASE("7.9 planted outliers: at least 35 dB, with one scale for all inputs") {
  const PlantedLayer layer(true), plain(false);
  const auto eight_bits = [](const PlantedLayer& l, const Numbers& x, const Numbers& w) {
    return l.with(rounded(x, x.size(), 127), rounded(w, l.K, 127));
  };
  const auto smoothed = [&](const PlantedLayer& l) {
    const Tensor x = of_numbers(l.x, {static_cast<int64_t>(l.M), static_cast<int64_t>(l.K)}),
                 w = of_numbers(l.w, {static_cast<int64_t>(l.N), static_cast<int64_t>(l.K)});
    const Numbers s = numbers(smoothing_scales(channel_max(x), channel_max(w)));
    return eight_bits(l, scaled(l.x, s, -1), scaled(l.w, s, 1));
  };
  const double before = eight_bits(layer, layer.x, layer.w), after = smoothed(layer);
  expect("four channels are 30 times as large as the others: 8-bit outputs have at least 35 dB (" +
             shown(before) + " without smoothing); got " + shown(after),
         after >= 35);
  const double same = eight_bits(plain, plain.x, plain.w), without = smoothed(plain);
  expect("without outliers at least 33 dB (" + shown(same) + " without smoothing); got " + shown(without),
         without >= 33);
}
