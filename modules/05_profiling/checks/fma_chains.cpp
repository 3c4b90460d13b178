#include <support/counted.hpp>

using namespace course;
using backend::cuda::fma_chains;

namespace {

// x / 2 is exact, so each round has one rounding, and every correct program gives the same bits.
Numbers after(Numbers x, int64_t rounds) {
  for (double& v : x) {
    auto f = static_cast<float>(v);
    for (int64_t r = 0; r < rounds; ++r) f = f / 2 + 0.5f;
    v = static_cast<double>(f);
  }
  return x;
}

void check_chains(int64_t n, int64_t rounds) {
  Values x = Values::random(f32, {n}, Layout::contiguous, -3, 3).on_device();
  const Numbers want = after(x.numbers(), rounds);
  fma_chains(x.view(), rounds);
  const std::string what = "fma_chains of " + shown(n) + " elements, " + shown(rounds) + " rounds";
  expect_close(what, x, want, {.roundings = 1});
  const Numbers got = x.numbers();
  size_t other = 0;
  while (other < got.size() && got[other] == want[other]) ++other;
  expect(what + ": to the last bit", other == got.size(),
         "every round must be one multiply-add in f32, rounded once; a closed formula, or f64, is different "
         "work");
}

constexpr int64_t kCounted = 16384;
Counted counted_chains(int64_t rounds) {
  Values x = Values::random(f32, {kCounted}).on_device();
  return counted([&] { fma_chains(x.view(), rounds); });
}
const std::string kWhat = "fma_chains of 16384 elements: ";

}  // namespace

TEST_CASE("5.13 one round moves x half of the way to 1") { check_chains(4096, 1); }

TEST_CASE("5.13 the requested number of rounds") {
  for (const int64_t rounds : {0, 2, 3, 4, 5, 7, 8, 21}) check_chains(2048, rounds);
}

TEST_CASE("5.13 any number of elements") {
  for (const int64_t n : {1, 7, 8, 255, 257, 2047, 2049, 5003}) check_chains(n, 5);
}

TEST_CASE("5.13 no kernel is launched for 0 elements") {
  Values x = Values(f32, {0}).on_device();
  const Counted c = counted([&] { fma_chains(x.view(), 3); });
  expect_equal("kernels launched for 0 elements", c.launches, 0.0);
}

TEST_CASE("5.13 values stay in registers from the first round to the last") {
  for (const int64_t rounds : {1, 20}) {
    const Counted c = counted_chains(rounds);
    if (!kCounts) return expect(kWhat + "nothing is counted on a GPU", true);
    const std::string what = kWhat + shown(rounds) + " rounds: ";
    expect_equal(what + "kernels launched", c.launches, 1.0);
    expect_equal(what + "bytes read, for each element once", c.bytes_read, 4.0 * kCounted);
    expect_equal(what + "bytes written, for each element once", c.bytes_written, 4.0 * kCounted);
  }
}

TEST_CASE("5.13 eight chains per thread, one block width apart") {
  const Counted c = counted_chains(4);
  if (!kCounts) return expect(kWhat + "nothing is counted on a GPU", true);
  expect_equal(kWhat + "threads, each with eight elements", c.threads, kCounted / 8.0);
  expect_equal(kWhat + "pieces of 32 bytes moved, as the threads of a warp read and write neighbours",
               c.sectors, c.ideal_sectors);
}
