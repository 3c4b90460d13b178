// Simultaneous readers and uploaders on a board in a file get no errors. bench_board measures the speed.
#include <doctest/doctest.h>

#include <support/sanitized.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/load.hpp>

using namespace tinymlperf::board::testing;

TEST_CASE("24 readers and 4 uploaders for two seconds meet no error, and every upload is there once" *
          doctest::skip(test::kSanitized)) {
  const Load load{
      .readers = 24, .uploaders = 4, .seconds = 2, .read_pace = 0, .upload_pause = 0.1, .entries = 9};
  const LoadResult r = play(load);
  CHECK(r.reading.errors == 0);
  CHECK(r.uploading.errors == 0);
  CHECK(r.uploading.told_to_wait == 0);
  CHECK(r.reading.latencies.size() > 24);
  CHECK(r.submissions >= 4);
  CHECK(passes(load, r, 10));
}

TEST_CASE("a load passes without an error, with each upload once and a p99 of reading below the bound") {
  const Load load;
  LoadResult good;
  for (int i = 1; i <= 1000; ++i) good.reading.latencies.push_back(1e-5 * i);
  good.uploading.latencies = {1, 2}, good.submissions = 2;
  CHECK(passes(load, good, 0.01));
  CHECK_FALSE(passes(load, good, 0.0098));  // the p99 is 0.0099
  const auto with = [&](auto&& change) {
    LoadResult r = good;
    change(r);
    return passes(load, r, 0.01);
  };
  CHECK_FALSE(with([](LoadResult& r) { r.reading.errors = 1; }));
  CHECK_FALSE(with([](LoadResult& r) { r.uploading.errors = 1; }));
  CHECK_FALSE(with([](LoadResult& r) { r.submissions = 1; }));
  CHECK_FALSE(with([](LoadResult& r) { r.submissions = 3; }));
  CHECK_FALSE(with([](LoadResult& r) { r.uploading.latencies.clear(), r.submissions = 0; }));
  CHECK_FALSE(with([](LoadResult& r) { r.reading.latencies.clear(); }));
  CHECK(with([](LoadResult& r) { r.uploading.told_to_wait = 1; }));
  const auto j = to_json(good.reading);
  CHECK(j.at("requests") == 1000);
  CHECK(j.at("p50_seconds").get<double>() == doctest::Approx(0.005).epsilon(0.01));
  CHECK(j.at("max_seconds") == 0.01);
  CHECK(to_json(Seen{}).at("p99_seconds").is_null());
}
