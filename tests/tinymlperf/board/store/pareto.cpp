// The Pareto front of a table: dominated entries, the kind of memory, and the hypervolume against values
// computed by hand.
#include <doctest/doctest.h>

#include <tinymlperf/board/pages/pareto.hpp>
#include <tinymlperf/board/web/json.hpp>

#include <tinymlperf/board/html_checker.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

namespace {

struct Made {
  double quality, ratio;  // times the baseline
  int64_t model, peak;
  int64_t rank = 1;
};

// Submission 1 is the baseline. The floor of quality is 0.5.
Table front_of(const std::vector<Made>& entries, int64_t baseline = 1) {
  Table t{{"dig", "open", "cpu-mt"}, "", "accuracy", 0.5, {}, {}};
  t.scenarios = {{"offline", "throughput (samples/s)"}, {"single_stream", "p90 latency (s)"}};
  for (const Made& e : entries) {
    board::Row r;
    r.submission = static_cast<int64_t>(t.rows.size()) + 1, r.rank = e.rank;
    r.name = "entry " + std::to_string(r.submission);
    r.quality = Interval{e.quality, e.quality - 0.01, e.quality + 0.01};
    r.cells = {{"offline", 1e6, Interval{9, 8, 10}},  // is not asked
               {"single_stream", 1e-3 / e.ratio, Interval{e.ratio, 0.9 * e.ratio, 1.1 * e.ratio}}};
    r.model_bytes = e.model, r.peak_bytes = e.peak;
    t.rows.push_back(r);
  }
  mark_front(t, baseline);
  return t;
}
std::vector<int64_t> on_front(const Table& t) {
  std::vector<int64_t> out;
  for (const board::Row& r : t.rows)
    if (r.on_front) out.push_back(r.submission);
  return out;
}
using Ids = std::vector<int64_t>;

}  // namespace

TEST_CASE("memory is the peak where it is known of all that are ranked, else bytes of the model") {
  // The second is worse in quality and time. Its model is larger, its peak smaller.
  const Table peak = front_of({{0.9, 1, 100, 2000}, {0.8, 0.5, 200, 1000}});
  CHECK(peak.front.memory == Memory::peak);
  CHECK(peak.front.scenario == "single_stream");
  CHECK(on_front(peak) == Ids{1, 2});
  const Table model = front_of({{0.9, 1, 100, 0}, {0.8, 0.5, 200, 1000}});
  CHECK(model.front.memory == Memory::model);
  CHECK(on_front(model) == Ids{1});
  // A submission that is not ranked decides nothing, and is on no front.
  const Table unranked = front_of({{0.9, 1, 100, 2000}, {0.8, 0.5, 200, 1000}, {0.99, 9, 1, 0, 0}});
  CHECK(unranked.front.memory == Memory::peak);
  CHECK(on_front(unranked) == Ids{1, 2});
  const Table none = front_of({{0.9, 1, 0, 2000}, {0.8, 0.5, 200, 0}});
  CHECK(none.front.memory == Memory::unknown);
  CHECK(on_front(none) == Ids{1});
}

TEST_CASE("equal ones are on the front together, and each way of being better is enough") {
  CHECK(on_front(front_of({{0.9, 1, 9, 9}, {0.9, 1, 9, 9}})) == Ids{1, 2});
  CHECK(on_front(front_of({{0.9, 1, 9, 9}, {0.91, 0.9, 9, 10}})) == Ids{1, 2});
  CHECK(on_front(front_of({{0.9, 1, 9, 9}, {0.89, 1.1, 9, 10}})) == Ids{1, 2});
  CHECK(on_front(front_of({{0.9, 1, 9, 9}, {0.89, 0.9, 9, 8}})) == Ids{1, 2});
  CHECK(on_front(front_of({{0.9, 1, 9, 9}, {0.91, 1.1, 9, 8}})) == Ids{2});
}

TEST_CASE("the hypervolume counts quality above the floor times halvings from four times the baseline") {
  // The baseline alone: 0.4 over the floor, two halvings of time, two of memory.
  const Table alone = front_of({{0.9, 1, 100, 1000}});
  CHECK(alone.front.hypervolume.value() == doctest::Approx(0.4 * 2 * 2));
  CHECK(alone.front.reference_time == 4);
  CHECK(alone.front.reference_bytes == 4000);
  // The second point is as good as the first, in half of the time and with twice the memory: 3 x 1 beside 2 x
  // 2, which share 2 x 1.
  CHECK(front_of({{0.9, 1, 100, 1000}, {0.9, 2, 100, 2000}}).front.hypervolume.value() ==
        doctest::Approx(0.4 * (4 + 3 - 2)));
  // Below the floor, or beyond the reference, nothing is added.
  CHECK(front_of({{0.9, 1, 100, 1000}, {0.4, 8, 100, 10}}).front.hypervolume.value() ==
        doctest::Approx(0.4 * 2 * 2));
  CHECK(front_of({{0.9, 1, 100, 1000}, {0.95, 0.25, 100, 10}}).front.hypervolume.value() ==
        doctest::Approx(0.4 * 2 * 2));
  // Without memory it is an area; without a ranked baseline there is none.
  CHECK(front_of({{0.9, 1, 0, 0}}).front.hypervolume.value() == doctest::Approx(0.4 * 2));
  CHECK_FALSE(front_of({{0.9, 1, 100, 1000, 0}, {0.9, 2, 100, 1000}}).front.hypervolume);
  CHECK_FALSE(front_of({{0.9, 1, 100, 1000}}, 7).front.hypervolume);
}

TEST_CASE("tables without rows, scenarios or models have no front") {
  CHECK_FALSE(front_of({}).front.hypervolume);
  Table kernels{{"krn", "kernel", "cpu-mt", "T2"}, "", "", 0, {}, {}, true};
  kernels.rows.resize(1);
  mark_front(kernels, 0);
  CHECK_FALSE(kernels.rows[0].on_front);
  CHECK(to_json(kernels).at("front").is_null());
}

TEST_CASE("page and JSON say which memory counts, and from where the hypervolume is") {
  const auto page = [](const Table& t) {
    const std::string html = pareto_page({}, t);
    CHECK(HtmlChecker(html).complaints.empty());
    return html;
  };
  const auto has = [](const std::string& html, const char* words) {
    return html.find(words) != std::string::npos;
  };
  const Table t = front_of({{0.9, 1, 100, 2048}, {0.9, 2, 200, 1024}});
  const std::string peak = page(t);
  CHECK(has(peak, "quality, time and memory (measured at the peak of its runs) together"));
  CHECK(has(peak, "time in single stream, times the baseline"));
  CHECK(
      has(peak, "<b>3.6</b>, in units of accuracy, halvings of time and halvings of memory"));  // 0.4 x 3 x 3
  CHECK(has(peak, "accuracy 0.5 (the table's floor), 4 times the baseline's time, 8.0 KiB"));
  CHECK(has(peak, "1.0 KiB"));
  const Json front = to_json(t).at("front");
  CHECK(front.at("memory") == "peak");
  CHECK(front.at("scenario") == "single_stream");
  CHECK(front.at("hypervolume").get<double>() == doctest::Approx(3.6));
  CHECK(front.at("reference") == Json{{"quality", 0.5}, {"time_of_the_baseline", 4.0}, {"bytes", 8192}});
  const std::string model = page(front_of({{0.9, 1, 100, 0}}));
  CHECK(has(model, "bytes of the model: the peak was not measured of all"));
  const std::string none = page(front_of({{0.9, 1, 0, 0}}, 7));
  CHECK(has(none, "nobody's memory counts"));
  CHECK(has(page(front_of({{0.9, 1, 0, 0}})), "<b>0.8</b>, in units of accuracy and halvings of time. It"));
  CHECK(has(none, "There is no hypervolume"));
}
