#include <support/check.hpp>
#include <tinytorch/quantization/observers.hpp>

#include "heavy_tails.hpp"

using namespace course;

namespace {

struct Named {
  const char* name;
  std::unique_ptr<Observer> observer;
};
// One of each kind whose result depends on the values alone, not on how they are divided into batches.
std::vector<Named> observers() {
  std::vector<Named> all;
  all.push_back({"min-max", std::make_unique<MinMaxObserver>()});
  all.push_back({"percentile 99", std::make_unique<PercentileObserver>(99.0)});
  all.push_back({"squared error, 4 bits", std::make_unique<MseObserver>(4)});
  all.push_back({"divergence", std::make_unique<KlObserver>()});
  return all;
}

std::vector<float> normal(size_t count, double size = 1) {
  std::normal_distribution<float> distribution(0, static_cast<float>(size));
  std::vector<float> x(count);
  for (float& v : x) v = distribution(random_source());
  return x;
}
Tensor of_numbers(const std::vector<float>& x) { return from_data(x, {std::ssize(x)}); }
Tensor part(const std::vector<float>& x, size_t begin, size_t end) {
  return of_numbers(
      std::vector<float>(x.begin() + static_cast<ptrdiff_t>(begin), x.begin() + static_cast<ptrdiff_t>(end)));
}
std::string shown_range(const Range& r) { return "[" + shown(r.min) + ", " + shown(r.max) + "]"; }
void expect_range(const std::string& what, const Range& got, const Range& want) {
  expect(what + ": expected " + shown_range(want) + ", got " + shown_range(got),
         got.min == want.min && got.max == want.max);
}

std::vector<CountedValue> each_once(std::span<const float> x) {
  std::vector<CountedValue> values;
  for (const float v : x) values.push_back({v, 1});
  return values;
}

// The squared error of codes from `low` to `high`, in double.
double error_of(std::span<const CountedValue> values, double scale, double low, double high) {
  double sum = 0;
  for (const CountedValue& v : values) {
    const auto x = static_cast<double>(v.value);
    const double off = x - scale * std::clamp(std::nearbyint(x / scale), low, high);
    sum += v.count * off * off;
  }
  return sum;
}

double db_of(std::span<const float> x, double error) {
  double signal = 0;
  for (const float v : x) signal += static_cast<double>(v) * static_cast<double>(v);
  return 10 * std::log10(signal / error);
}

// KL divergence as its definition says, with whole distributions: p and q are built first.
double divergence(const std::vector<double>& counts, size_t end) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> p(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(end)), q(end);
  const double inside = std::accumulate(p.begin(), p.end(), 0.0);
  for (size_t i = end; i < counts.size(); ++i) p[end - 1] += counts[i];
  for (size_t level = 0; level < 128; ++level) {
    std::vector<size_t> members;
    double sum = 0;
    for (size_t i = level * end / 128; i < (level + 1) * end / 128; ++i)
      if (counts[i] > 0) members.push_back(i), sum += counts[i];
    for (const size_t i : members) q[i] = sum / static_cast<double>(members.size()) / inside;
  }
  double kl = 0;
  for (size_t i = 0; i < end; ++i)
    if (p[i] > 0) kl += p[i] / total * std::log(p[i] / total / (q[i] > 0 ? q[i] : 0.5 / inside));
  return kl;
}

}  // namespace

TEST_CASE("7.3 min-max: the extremes of all batches, not of the last one") {
  MinMaxObserver o;
  o.observe(of_numbers({3, 4, 2}));
  expect_range("after [3, 4, 2]; 0 was not among them", o.range(), {2, 4});
  o.observe(of_numbers({-7, 9}));
  o.observe(of_numbers({1, 5}));
  expect_range("after [3, 4, 2], [-7, 9] and [1, 5]", o.range(), {-7, 9});
  MinMaxObserver negative;
  negative.observe(of_numbers({-3, -2}));
  expect_range("after [-3, -2]", negative.range(), {-3, -2});
}

TEST_CASE("7.3 a histogram counts magnitudes in 65536 bins below a power of two") {
  MagnitudeHistogram h;
  const std::vector<float> first = {0.5f, -0.75f, 0, -0.75f}, second = {3, -1e-6f};
  const auto count = [&](double x) { return h.counts()[static_cast<size_t>(std::abs(x) / h.width())]; };
  h.add(first);
  expect_equal("the largest magnitude is 0.75, so bins end at 1: width", h.width(), 0x1p-16);
  expect_equal("values in the bin of 0.75, of which two are -0.75", count(0.75), int64_t{2});
  expect_equal("values in the bin of 0.5", count(0.5), int64_t{1});
  h.add(second);
  expect_equal("then 3 arrives, and bins end at 4: width", h.width(), 0x1p-14);
  for (const auto& [x, n] : {std::pair{0.5, 1}, {0.75, 2}, {3.0, 1}, {0.0, 2}})
    expect_equal("values in the bin of " + shown(x) + " (0 and 1e-6 share one)", count(x), int64_t{n});
  expect_equal("largest magnitude", h.largest(), 3.0f);
  expect_equal("values in all", h.total(), int64_t{6});
}

TEST_CASE("7.3 one batch, two halves or any order: the same bits") {
  const std::vector<float> x = normal(1500, 3);
  auto at_once = observers(), halves = observers(), backward = observers();
  for (size_t k = 0; k < at_once.size(); ++k) {
    const std::string name = at_once[k].name;
    at_once[k].observer->observe(of_numbers(x));
    halves[k].observer->observe(part(x, 0, 750)), halves[k].observer->observe(part(x, 750, 1500));
    for (const auto& [begin, end] : {std::pair<size_t, size_t>{850, 1500}, {1, 850}, {0, 1}})
      backward[k].observer->observe(part(x, begin, end));
    const Range want = at_once[k].observer->range();
    expect_range(name + ": two halves, as all at once", halves[k].observer->range(), want);
    expect_range(name + ": three parts, the last first", backward[k].observer->range(), want);
  }
}

TEST_CASE("7.3 a percentile is one of magnitudes, rounded up to the end of a bin") {
  std::vector<float> x = normal(4000);
  for (float& v : x) v = v > 0 ? 0.1f * v : v;  // the negative side is longer
  std::vector<double> sorted;
  for (const float v : x) sorted.push_back(std::abs(static_cast<double>(v)));
  std::sort(sorted.begin(), sorted.end());
  for (const double percent : {10.01, 50.01, 99.01, 99.87, 100.0}) {
    PercentileObserver o(percent);
    o.observe(of_numbers(x));
    const double want = sorted[static_cast<size_t>(std::ceil(percent / 100 * 4000 - 1e-9)) - 1];
    const auto got = static_cast<double>(o.range().max);
    expect("percentile " + shown(percent) + " of 4000 magnitudes: " + shown(want) + " or up to " +
               shown(sorted.back() / 32768) + " above; got " + shown(got),
           got >= want - 1e-6 && got <= want + sorted.back() / 32768 + 1e-6);
    expect_equal("the range is symmetric: min", o.range().min, -o.range().max);
  }
}

TEST_CASE("7.3 the squared error of a scale: rounding inside its range, clipping outside") {
  const AffineScale s{0.5f, 0, -7, 7};
  const auto check_error = [&](const char* what, const std::vector<CountedValue>& values, double want) {
    const double got = squared_error(values, s);
    expect(std::string(what) + ": expected " + shown(want) + ", got " + shown(got),
           std::abs(got - want) <= 1e-6 * want);
  };
  check_error("codes -7 to 7 with scale 0.5: 1.1 is off by 0.1", {{1.1f, 1}}, 0.01);
  check_error("5 is off by 1.5, because 3.5 is the largest number", {{5, 1}}, 2.25);
  check_error("a value that occurs 3 times counts 3 times", {{5, 3}, {1, 10}}, 6.75);
  const std::vector<float> x = normal(200, 2);
  check_error("200 normal numbers", each_once(x), error_of(each_once(x), 0.5, -7, 7));
}

TEST_CASE("7.3 the scale with the least squared error: no other is better by more than 1 %") {
  const std::vector<float> all = heavy_tails(1, 600);
  for (const int bits : {3, 4}) {
    const std::vector<CountedValue> values = each_once(all);
    float largest = 0;
    for (const float v : all) largest = std::max(largest, std::abs(v));
    const AffineScale widest = choose_scale(-largest, largest, bits);
    const AffineScale got = mse_scale(values, widest);
    expect_equal(shown(bits) + " bits: the codes are those of the widest scale", got.high, widest.high);
    const double error = error_of(values, static_cast<double>(got.scale), widest.low, widest.high);
    for (int k = 20; k <= 400; ++k) {
      const double scale = static_cast<double>(widest.scale) * k / 400;
      const double other = error_of(values, scale, widest.low, widest.high);
      expect(shown(bits) + " bits: scale " + shown(got.scale) + " has the squared error " + shown(error) +
                 "; scale " + shown(scale) + " has " + shown(other),
             error <= 1.01 * other);
    }
  }
}

TEST_CASE("7.3 4 bits by groups of 128: clipping is worth a decibel and more") {
  const std::vector<float> x = heavy_tails(2, 4096);
  double by_extremes = 0, clipped = 0, with_16_codes = 0;
  for (size_t g = 0; g < x.size(); g += 128) {
    const std::span<const float> group(x.data() + g, 128);
    const std::vector<CountedValue> values = each_once(group);
    float extreme = 0;
    for (const float v : group) extreme = std::abs(v) > std::abs(extreme) ? v : extreme;
    const AffineScale widest = choose_scale(-std::abs(extreme), std::abs(extreme), 4);
    by_extremes += error_of(values, static_cast<double>(widest.scale), -7, 7);
    clipped += error_of(values, static_cast<double>(mse_scale(values, widest).scale), -7, 7);
    const AffineScale all_codes{extreme / -8, 0, -8, 7};
    with_16_codes += error_of(values, static_cast<double>(mse_scale(values, all_codes).scale), -8, 7);
  }
  const double extremes = db_of(x, by_extremes), least = db_of(x, clipped), best = db_of(x, with_16_codes);
  expect("codes -7 to 7: 0.7 dB better than the extremes' " + shown(extremes) + " dB; got " + shown(least),
         least >= extremes + 0.7);
  expect(
      "codes -8 to 7, the extreme at -8: 1.0 dB better than that, and at least 16.6 dB; got " + shown(best),
      best >= extremes + 1.0 && best >= 16.6);
}

TEST_CASE("7.3 the observer of the squared error clips as its values do") {
  std::vector<float> x = heavy_tails(1, 2048);
  for (float& v : x) v = std::round(8 * v) / 8;  // so that many values share a bin
  for (const int bits : {4, 8}) {
    MseObserver o(bits);
    o.observe(of_numbers(x));
    float largest = 0;
    for (const float v : x) largest = std::max(largest, std::abs(v));
    const AffineScale widest = choose_scale(-largest, largest, bits);
    const std::vector<CountedValue> values = each_once(x);
    double least = HUGE_VAL;
    for (int k = 20; k <= 200; ++k)
      least = std::min(
          least, error_of(values, static_cast<double>(widest.scale) * k / 200, widest.low, widest.high));
    const double got =
        error_of(values, static_cast<double>(o.range().max) / widest.high, widest.low, widest.high);
    expect(shown(bits) + " bits: the range " + shown_range(o.range()) + " has the squared error " +
               shown(got) + ", the best one " + shown(least),
           got <= (bits == 4 ? 1.02 : 1.06) * least);
    expect_equal("the range is symmetric: min", o.range().min, -o.range().max);
  }
}

TEST_CASE("7.3 the divergence of 128 levels from a histogram, by its definition") {
  std::vector<double> counts(400);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double x = static_cast<double>(i) / 100;
    counts[i] = std::floor(1000 * std::exp(-x * x / 2) * uniform(0, 1.2));  // some are 0 far out
    if (i % 7 == 3) counts[i] = 0;
  }
  for (const size_t end : {size_t{128}, size_t{200}, size_t{301}, size_t{400}}) {
    double beyond = 0;
    for (size_t i = end; i < counts.size(); ++i) beyond += counts[i];
    const double want = divergence(counts, end), got = divergence_of_levels(counts, end, beyond);
    expect("the first " + shown(static_cast<int64_t>(end)) + " of 400 bins in 128 levels, " + shown(beyond) +
               " values beyond: expected " + shown(want) + ", got " + shown(got),
           std::abs(got - want) <= 1e-9 * std::abs(want));
  }
}

TEST_CASE("7.3 the clip with the least divergence") {
  const std::vector<float> x = normal(5000);
  KlObserver o;
  o.observe(of_numbers(x));
  double largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(static_cast<double>(v)));
  const double width = std::exp2(std::floor(std::log2(largest)) + 1) / 2048;
  std::vector<double> bins(static_cast<size_t>(largest / width) + 1);
  for (const float v : x) bins[static_cast<size_t>(std::abs(static_cast<double>(v)) / width)] += 1;
  const auto got = static_cast<double>(o.range().max);
  const auto chosen = static_cast<size_t>(std::lround(std::ceil(got / width - 1e-6)));
  double least = HUGE_VAL;
  size_t best = 0;
  for (size_t end = 128; end <= bins.size(); ++end) {
    const double d = end % 8 == 0 || end == bins.size() || end == chosen ? divergence(bins, end) : HUGE_VAL;
    if (d < least) least = d, best = end;
  }
  const double of_chosen = chosen >= 128 && chosen <= bins.size() ? divergence(bins, chosen) : HUGE_VAL;
  expect("the clip " + shown(got) + " has the divergence " + shown(of_chosen) + "; one of " +
             shown(static_cast<double>(best) * width) + " has " + shown(least),
         of_chosen <= least + 1e-9);
}

TEST_CASE("7.3 a planted outlier moves min-max, the percentile and the divergence hardly") {
  const std::vector<float> x = normal(6000);
  auto before = observers(), after = observers();
  for (const size_t k : {0, 1, 3}) {
    before[k].observer->observe(of_numbers(x));
    after[k].observer->observe(of_numbers(x)), after[k].observer->observe(of_numbers({80}));
    const float without = before[k].observer->range().max, with = after[k].observer->range().max;
    const std::string what = std::string(before[k].name) + ": the range ends at " + shown(without) +
                             " without, and at " + shown(with) +
                             " with a value of 80 beside 6000 normal ones";
    expect(what, k == 0 ? with == 80 : with < 3 * without);
  }
}

TEST_CASE("7.3 zeros, one value, empty batches; NaN and infinity are refused, and not counted") {
  for (Named& n : observers()) {
    expect_throws("TT-CALIB-02", std::string(n.name) + ": a range without values",
                  [&] { n.observer->range(); });
    n.observer->observe(of_numbers({}));
    for (const float bad : {NAN, INFINITY})
      expect_throws("TT-CALIB-01", std::string(n.name) + ": a batch with " + shown(bad), [&] {
        n.observer->observe(of_numbers({1, bad}));
      });
    n.observer->observe(of_numbers({0, 0}));
    expect_range(std::string(n.name) + " of zeros", n.observer->range(), {-0.0f, 0});
  }
  for (Named& n : observers()) {
    n.observer->observe(of_numbers({-2, 2, -2, 2}));
    const float end = n.observer->range().max;
    expect(std::string(n.name) + " of values of magnitude 2: the range ends at 2; got " + shown(end),
           std::abs(end - 2) < 0.07f);
  }
}
