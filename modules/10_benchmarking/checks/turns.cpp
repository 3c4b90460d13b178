#include <support/check.hpp>
#include <tinytorch/benchmarking/turns.hpp>

using namespace course;
using namespace benchmarking;
using statistics::Interval;

namespace {

// A turn of 12 calls whose p90 latency is `p90`. The turn takes `seconds`, including the time between the
// calls.
Turn turn(double p90, double seconds = 60) {
  Turn t{seconds, 12, {}};
  for (int i = 0; i < 12; ++i)
    t.latencies.push_back(p90 * (i == 0 ? 7 : i == 1 ? 1 : 0.05 * i));  // p90 is no. 11 of 12
  std::shuffle(t.latencies.begin(), t.latencies.end(), random_source());
  return t;
}
std::vector<Turn> turns(const Numbers& p90) {
  std::vector<Turn> out;
  for (const double x : p90) out.push_back(turn(x, 100 * x));
  return out;
}
bool close(double got, double want) { return std::abs(got - want) <= 1e-9 * std::abs(want); }
std::string text_of(const std::optional<Interval>& i) {
  return i ? shown(i->estimate) + " from " + shown(i->low) + " to " + shown(i->high) : "nothing";
}
bool same(const std::optional<Interval>& a, double estimate, double low, double high) {
  return a && close(a->estimate, estimate) && close(a->low, low) && close(a->high, high);
}
// A true claim, and the difference that is found after a change of it.
const Claim kTrue{0.25, Interval{2, 1.5, 2.5}};
std::string after(const std::function<void(Claim&)>& change) {
  Claim c = kTrue;
  change(c);
  return difference(c, kTrue);
}
bool names(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("10.11 the value of a turn") {
  const Turn t = turn(3, 80);
  expect("p90 of 12 latencies, the eleventh in sorted order: 3, got " +
             shown(value_of(Quantity::p90_latency, t)),
         value_of(Quantity::p90_latency, t) == 3);
  expect("p99 of the same latencies: the largest, got " + shown(value_of(Quantity::p99_latency, t)),
         value_of(Quantity::p99_latency, t) == *std::ranges::max_element(t.latencies));
  expect("throughput of 12 samples in 80 s: 0.15 per second, got " + shown(value_of(Quantity::throughput, t)),
         close(value_of(Quantity::throughput, t), 0.15),
         "divide by the seconds of the turn, which include the time between calls");
  Turn batches{10, 640, {2, 2, 2, 2, 2}};
  expect("throughput of 5 queries with 640 samples in 10 s: 64 per second, got " +
             shown(value_of(Quantity::throughput, batches)),
         close(value_of(Quantity::throughput, batches), 64));
  const Turn server{10, 500, {0.01, 0.01}, 50, {}, {}};
  expect_equal("rate of a server that met the bound at 50 queries per second",
               value_of(Quantity::rate, server), 50.0);
  const Turn spoken{10, 3, {6, 2, 3}, 0, {2, 1, 10}, {1, 1, 1}};
  expect("time per token of queries with 3 s, 2 s and 0.3 s per token: 2, got " +
             shown(value_of(Quantity::time_per_token, spoken)),
         close(value_of(Quantity::time_per_token, spoken), 2),
         "the median over the queries of latency divided by tokens");
}

TEST_CASE("10.11 the value of a contender is the median of its turns") {
  expect_equal("value of turns with p90 of 9, 2 and 4", value_of(Quantity::p90_latency, turns({9, 2, 4})),
               std::optional<double>(4));
  expect_equal("value of turns with p90 of 1 and 3", value_of(Quantity::p90_latency, turns({1, 3})),
               std::optional<double>(2));
  const auto rate = value_of(Quantity::throughput, turns({1, 2, 4}));
  expect("value of turns with throughputs of 0.12, 0.06 and 0.03: 0.06, got " + shown(rate),
         rate && close(*rate, 0.06));
  expect_equal("value of no turns", value_of(Quantity::p90_latency, Turns{}), std::optional<double>());
}

TEST_CASE("10.11 the value of a block is the geometric mean of two consecutive turns") {
  const Numbers got = block_values(Quantity::p90_latency, turns({1, 4, 2, 8, 9, 1, 5}));
  expect_close("blocks of turns with p90 of 1 4 | 2 8 | 9 1 | 5", got, {2, 4, 3}, {3},
               {.dtype = f64, .roundings = 100});
  const Numbers rates = block_values(Quantity::throughput, turns({1, 4}));
  expect_close("block of turns with throughputs of 0.12 and 0.03", rates, {0.06}, {1},
               {.dtype = f64, .roundings = 100});
  expect_equal("number of blocks of one turn", block_values(Quantity::p90_latency, turns({3})).size(),
               size_t{0});
}

TEST_CASE("10.11 times the baseline is above 1 for the better contender, whatever the quantity") {
  // 6 blocks: the interval of 95 % then reaches from the smallest ratio to the largest.
  const Numbers base{1, 4, 2, 8, 9, 1, 5, 5, 1, 1, 3, 12};
  Numbers ours;
  const Numbers ratios{2, 2.5, 2.1, 2.2, 2.4, 3};
  for (size_t i = 0; i < base.size(); ++i) ours.push_back(base[i] / ratios[i / 2]);
  for (const Quantity q : {Quantity::p90_latency, Quantity::throughput}) {
    const std::string what = q == Quantity::throughput ? "throughputs" : "latencies";
    const auto got = times_better(q, turns(ours), turns(base));
    expect(
        "blocks whose " + what + " are better by 2, 2.5, 2.1, 2.2, 2.4, 3: from 2 to 3; got " + text_of(got),
        got && close(got->low, 2) && close(got->high, 3) && got->estimate > 2.1 && got->estimate < 2.6,
        got && close(got->low, 1 / 3.0) ? "for latencies the baseline is the numerator" : "");
    const auto back = times_better(q, turns(base), turns(ours));
    expect("with exchanged contenders: from 1/3 to 1/2; got " + text_of(back),
           back && close(back->low, 1 / 3.0) && close(back->high, 0.5));
  }
  expect("a contender against itself: 1 from 1 to 1; got " +
             text_of(times_better(Quantity::p90_latency, turns(base), turns(base))),
         same(times_better(Quantity::p90_latency, turns(base), turns(base)), 1, 1, 1));
}

TEST_CASE("10.11 no ratio if blocks are missing or do not match") {
  const auto has = [](size_t ours, size_t base) {
    return times_better(Quantity::p90_latency, turns(Numbers(ours, 2)), turns(Numbers(base, 2))).has_value();
  };
  expect("12 turns each give a ratio", has(12, 12));
  expect("13 turns each give a ratio: the last turn is not in a block", has(13, 13));
  expect("10 turns each give no ratio: 5 blocks are too few for 95 %", !has(10, 10));
  expect("12 turns against 14 give no ratio: their blocks do not match", !has(12, 14));
  expect("no turns give no ratio", !has(0, 0));
  expect("one turn each gives no ratio", !has(1, 1));
}

TEST_CASE("10.11 a claim is recomputed from the samples") {
  const auto ours = turns({1, 2, 2, 2, 3, 1, 1, 1, 2, 1, 3, 2, 2, 2}),
             base = turns({3, 3, 3, 2, 3, 3, 4, 2, 2, 3, 3, 3, 3, 3});
  for (const Quantity q : {Quantity::p90_latency, Quantity::throughput}) {
    const Claim c = claim_of(q, ours, base);
    expect("the value of the claim is that of value_of()", c.value == value_of(q, ours));
    const auto ratio = times_better(q, ours, base);
    expect("the ratio of the claim is that of times_better(), " + text_of(ratio) + "; got " +
               text_of(c.times_the_baseline),
           ratio && same(c.times_the_baseline, ratio->estimate, ratio->low, ratio->high));
    expect("difference() of a claim and its samples is empty",
           difference(c, claim_of(q, ours, base)).empty());
  }
  const Claim nothing = claim_of(Quantity::p90_latency, Turns{}, base);
  expect("a claim of no turns has neither a value nor a ratio",
         !nothing.value && !nothing.times_the_baseline);
}

TEST_CASE("10.11 a claim that does not follow from its samples is found") {
  expect("difference() of a true claim is empty; got \"" + difference(kTrue, kTrue) + '"',
         difference(kTrue, kTrue).empty());
  expect("difference() of a claim written with 12 digits is empty",
         after([](Claim& c) { *c.value *= 1 + 1e-12, c.times_the_baseline->low *= 1 - 1e-12; }).empty(),
         "allow for the rounding of written numbers");
  const std::vector<std::pair<std::string, std::function<void(Claim&)>>> forged{
      {"the value", [](Claim& c) { *c.value *= 0.999999; }},
      {"the value", [](Claim& c) { *c.value *= 1.1; }},
      {"the ratio is", [](Claim& c) { c.times_the_baseline->estimate *= 1.001; }},
      {"the ratio's lower bound", [](Claim& c) { c.times_the_baseline->low *= 1.001; }},
      {"the ratio's upper bound", [](Claim& c) { c.times_the_baseline->high *= 0.999; }},
      {"the value", [](Claim& c) { c.value = NAN; }},
      {"the value", [](Claim& c) { c.value.reset(); }},
      {"the ratio is", [](Claim& c) { c.times_the_baseline.reset(); }},
      {"the ratio's lower bound", [](Claim& c) { c.times_the_baseline->low = NAN; }}};
  for (const auto& [what, change] : forged) {
    const std::string got = after(change);
    expect("a claim that differs in " + what + (what.ends_with(" is") ? " ..." : "") +
               ": the message names it; got \"" + got + '"',
           got.rfind(what, 0) == 0,
           got.empty()
               ? "each comparison with NaN is false: test that the numbers agree, not that they differ"
               : "");
  }
  expect("a missing value: " + difference({}, kTrue),
         names(difference({}, kTrue), "the value") && names(difference({}, kTrue), "nothing"));
  expect("a ratio that the samples do not give is found: " + difference(kTrue, {0.25, {}}),
         names(difference(kTrue, {0.25, {}}), "the ratio is claimed"));
  expect("two missing claims agree", difference({}, {}).empty());
  Claim two = kTrue;
  two.value = 1, two.times_the_baseline->high = 9;
  expect("of two differences the message names the first; got \"" + difference(two, kTrue) + '"',
         names(difference(two, kTrue), "the value") && !names(difference(two, kTrue), "upper"));
  expect("the message has both numbers: " + difference(two, kTrue),
         names(difference(two, kTrue), "1.0") && names(difference(two, kTrue), "0.25"));
}
