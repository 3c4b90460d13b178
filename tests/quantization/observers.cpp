#include <tinytorch/quantization/observers.hpp>

#include <algorithm>
#include <memory>
#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

// One of each kind whose result depends on the values alone.
std::vector<std::unique_ptr<tt::Observer>> observers() {
  std::vector<std::unique_ptr<tt::Observer>> all;
  all.push_back(std::make_unique<tt::MinMaxObserver>());
  all.push_back(std::make_unique<tt::PercentileObserver>(99.0));
  all.push_back(std::make_unique<tt::MseObserver>(4));
  all.push_back(std::make_unique<tt::MseObserver>(8));
  all.push_back(std::make_unique<tt::KlObserver>());
  return all;
}
bool same(const tt::Range& a, const tt::Range& b) { return a.min == b.min && a.max == b.max; }

tt::Tensor normal(int64_t count, uint64_t seed) {
  tt::Generator generator(seed);
  return tt::randn({count}, tt::f32, tt::cpu, generator);
}

// KL divergence as one would write it with whole distributions: p and q are built first.
double divergence(std::vector<double> counts, size_t end) {
  double total = 0;
  for (const double c : counts) total += c;
  std::vector<double> p(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(end)), q(end);
  double inside = 0;
  for (const double c : p) inside += c;
  for (size_t i = end; i < counts.size(); ++i) p[end - 1] += counts[i];
  for (size_t level = 0; level < 128; ++level) {
    std::vector<size_t> members;
    double sum = 0;
    for (size_t i = level * end / 128; i < (level + 1) * end / 128; ++i) {
      if (counts[i] > 0) members.push_back(i), sum += counts[i];
    }
    for (const size_t i : members) q[i] = sum / static_cast<double>(members.size()) / inside;
  }
  double kl = 0;
  for (size_t i = 0; i < end; ++i) {
    if (p[i] > 0) kl += p[i] / total * std::log(p[i] / total / (q[i] > 0 ? q[i] : 0.5 / inside));
  }
  return kl;
}

}  // namespace

TEST_CASE("batches in any order, or all values at once, give the same bits") {
  const tt::Tensor x = normal(5000, 1) * 3;
  const std::vector<int64_t> cuts{0, 1, 700, 701, 4000, 5000};
  const auto at_once = observers(), forward = observers(), backward = observers();
  for (size_t k = 0; k < at_once.size(); ++k) {
    at_once[k]->observe(x);
    for (size_t i = 1; i < cuts.size(); ++i) forward[k]->observe(x.slice(0, cuts[i - 1], cuts[i]));
    for (size_t i = cuts.size() - 1; i > 0; --i) backward[k]->observe(x.slice(0, cuts[i - 1], cuts[i]));
    CHECK(same(at_once[k]->range(), forward[k]->range()));
    CHECK(same(at_once[k]->range(), backward[k]->range()));
    CHECK(at_once[k]->count() == 5000);
    CHECK(at_once[k]->range().max > 0);
  }
}

TEST_CASE("a histogram keeps its counts while its bins grow") {
  for (const double size : {1e-30, 1.0, 1e30}) {
    tt::MagnitudeHistogram grown, direct;
    std::vector<float> values;
    for (int k = 0; k < 30; ++k) values.push_back(static_cast<float>(size * std::pow(1.7, k)));
    values.push_back(0);
    for (size_t i = values.size(); i > 0; --i) {
      const float negative = -values[values.size() - i];
      grown.add(std::span(&negative, 1));
    }
    direct.add(values);
    CHECK(grown.counts() == direct.counts());
    CHECK(grown.width() == direct.width());
    CHECK(direct.total() == 31);
    std::vector<int64_t> expected(tt::MagnitudeHistogram::kBins);
    for (const float x : values)
      ++expected[static_cast<size_t>(std::floor(static_cast<double>(x) / direct.width()))];
    CHECK(direct.counts() == expected);
    CHECK(static_cast<double>(direct.largest()) >= direct.width() * (tt::MagnitudeHistogram::kBins / 2));
  }
}

TEST_CASE("min-max and moving average of known batches") {
  tt::MinMaxObserver extremes;
  tt::MovingAverageObserver moving(0.75);
  for (const std::vector<float>& batch : {std::vector<float>{-1, 4}, {2, 8}, {-5, 0}}) {
    extremes.observe(tt::from_data(batch));
    moving.observe(tt::from_data(batch));
  }
  CHECK(same(extremes.range(), {-5, 8}));
  const double low = (-1 * 0.75 + 2 * 0.25) * 0.75 - 5 * 0.25, high = (4 * 0.75 + 8 * 0.25) * 0.75;
  CHECK(static_cast<double>(moving.range().min) == doctest::Approx(low).epsilon(1e-6));
  CHECK(static_cast<double>(moving.range().max) == doctest::Approx(high).epsilon(1e-6));
}

TEST_CASE("the percentile is that of sorted magnitudes, not of signed values") {
  std::vector<float> values = normal(20'000, 3).to_vector();
  for (float& x : values) x = x > 0 ? 0.1f * x : x;  // the negative side is longer
  std::vector<double> sorted;
  for (const float x : values) sorted.push_back(std::abs(static_cast<double>(x)));
  std::ranges::sort(sorted);
  for (const double percent : {10.0, 50.0, 99.0, 99.9, 100.0}) {
    tt::PercentileObserver observer(percent);
    observer.observe(tt::from_data(values));
    const double exact = sorted[static_cast<size_t>(std::ceil(percent / 100 * 20'000)) - 1];
    const double got = static_cast<double>(observer.range().max);
    CHECK(got >= exact - 1e-6);
    CHECK(got <= exact + sorted.back() / 32768 + 1e-6);
    CHECK(observer.range().min == -observer.range().max);
  }
}

TEST_CASE("the clip with the least squared error: no other of a fine grid is better by more than 1 %") {
  for (const int bits : {3, 4, 8}) {
    std::vector<tt::CountedValue> values;
    for (const float x : student_t5(2000, 4)) values.push_back({x, 1});
    float largest = 0;
    for (const tt::CountedValue& v : values) largest = std::max(largest, std::abs(v.value));
    const auto error = [&](double clip) {  // in double, independently of the library's codes
      const double most = std::ldexp(1, bits - 1) - 1, scale = clip / most;
      double sum = 0;
      for (const tt::CountedValue& v : values) {
        const auto x = static_cast<double>(v.value);
        sum += std::pow(x - scale * std::clamp(std::nearbyint(x / scale), -most, most), 2);
      }
      return sum;
    };
    const tt::AffineScale widest = tt::choose_scale(-largest, largest, bits);
    const auto clip = [](const tt::AffineScale& s) { return static_cast<double>(s.scale) * s.high; };
    const double got = error(clip(tt::mse_scale(values, widest)));
    bool least = true;
    for (int k = 20; k <= 1000; ++k)
      least = least && got <= 1.01 * error(static_cast<double>(largest) * k / 1000);
    CHECK(least);
    CHECK(tt::squared_error(values, widest) == doctest::Approx(error(clip(widest))).epsilon(1e-4));
  }
}

TEST_CASE("by groups of 128 with 4 bits, the least squared error beats min-max by 0.8 dB") {
  const std::vector<float> values = student_t5(128 * 200, 5);
  std::vector<float> by_extremes, by_error;
  for (size_t g = 0; g < values.size(); g += 128) {
    const std::vector<float> group(values.begin() + static_cast<ptrdiff_t>(g),
                                   values.begin() + static_cast<ptrdiff_t>(g) + 128);
    tt::MinMaxObserver extremes;
    tt::MseObserver error(4);
    const auto add = [&](tt::Observer& observer, std::vector<float>& out) {
      observer.observe(tt::from_data(group));
      const tt::AffineScale s = tt::choose_scale(observer.range().min, observer.range().max, 4);
      for (const float x : group) out.push_back(tt::dequantize_value(tt::quantize_value(x, s), s));
    };
    add(extremes, by_extremes), add(error, by_error);
  }
  const tt::Tensor x = tt::from_data(values);
  CHECK(tt::sqnr_db(x, tt::from_data(by_error)) >= tt::sqnr_db(x, tt::from_data(by_extremes)) + 0.8);
}

TEST_CASE("the clip with the least divergence, by the definition") {
  const tt::Tensor x = normal(30'000, 6);
  tt::KlObserver observer;
  observer.observe(x);
  const double largest = static_cast<double>(tt::max(tt::abs(x)).item<float>());
  const double width = std::exp2(std::ceil(std::log2(largest))) / 2048;
  std::vector<double> bins(static_cast<size_t>(largest / width) + 1);
  for (const double v : x.to_vector<double>()) bins[static_cast<size_t>(std::abs(v) / width)] += 1;
  const double got = static_cast<double>(observer.range().max);
  const auto chosen = static_cast<size_t>(std::lround(std::ceil(got / width - 1e-9)));
  double least = HUGE_VAL;
  for (size_t end = 128; end <= bins.size(); ++end) least = std::min(least, divergence(bins, end));
  CHECK(divergence(bins, chosen) == doctest::Approx(least).epsilon(1e-9));
  CHECK(std::isfinite(least));
}

TEST_CASE("a planted outlier moves min-max, and the percentile and the divergence hardly") {
  const tt::Tensor x = normal(100'000, 7), outlier = tt::from_data({80.0f});
  tt::MinMaxObserver extremes;
  tt::PercentileObserver before(99.9), percentile(99.9);
  tt::KlObserver divergence;
  before.observe(x);
  for (tt::Observer* const o :
       {static_cast<tt::Observer*>(&extremes), static_cast<tt::Observer*>(&percentile),
        static_cast<tt::Observer*>(&divergence)})
    o->observe(x), o->observe(outlier);
  CHECK(extremes.range().max == 80);
  CHECK(percentile.range().max == doctest::Approx(before.range().max).epsilon(0.01));
  CHECK(divergence.range().max < 10);
}

TEST_CASE("zeros, constants, empty batches, every dtype and layout") {
  for (const auto& o : observers()) {
    test::expect_error("TT-CALIB-02", "seen no values", [&] { (void)o->range(); });
    o->observe(tt::empty({0, 4}));
    test::expect_error("TT-CALIB-02", "seen no values", [&] { (void)o->range(); });
    o->observe(tt::zeros({3, 4}));
    CHECK(o->range().max == 0);
    CHECK(tt::choose_scale(o->range().min, o->range().max).scale == 1);
  }
  for (const tt::DType dtype : {tt::f64, tt::bf16, tt::f16}) {
    const tt::Tensor x = normal(600, 8).reshape({20, 30}).to(dtype), view = x.t().slice(0, 1, 30, 3);
    const auto typed = observers(), plain = observers();
    for (size_t k = 0; k < typed.size(); ++k) {
      typed[k]->observe(view);
      plain[k]->observe(view.to(tt::f32).contiguous());
      CHECK(same(typed[k]->range(), plain[k]->range()));
    }
  }
  for (const auto& o : observers()) {
    o->observe(tt::full({2000}, -2.5));
    CHECK(o->range().min >= -2.5f);
    CHECK(o->range().min <= -2.4f);
  }
}

TEST_CASE("a NaN or an infinity is refused and not counted; settings are checked") {
  for (const auto& o : observers()) {
    o->observe(tt::ones({3}));
    const tt::Range before = o->range();
    for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF})
      test::expect_error("TT-CALIB-01", "a NaN or an infinity", [&] {
        o->observe(tt::from_data({9.0f, bad, 1.0f}));
      });
    CHECK(o->count() == 3);
    CHECK(same(o->range(), before));
    test::expect_error("TT-DTYPE-02", "observe", [&] { o->observe(tt::arange(0, 4)); });
  }
  test::expect_error("TT-CALIB-03", "at least 0 and below 1", [] { (void)tt::MovingAverageObserver(1.0); });
  for (const double percent : {0.0, 101.0, std::nan("")})
    test::expect_error("TT-CALIB-03", "above 0 and at most 100",
                       [=] { (void)tt::PercentileObserver(percent); });
  test::expect_error("TT-CALIB-03", "2 to 8 bits", [] { (void)tt::MseObserver(1); });
}
