#include <support/counted.hpp>

using namespace course;
using backend::cuda::triad;

namespace {

struct Operands {
  Values a, b, out;
  explicit Operands(int64_t n)
      : a(Values::random(f32, {n}, Layout::contiguous, -2, 2).on_device()),
        b(Values::random(f32, {n}, Layout::contiguous, -2, 2).on_device()),
        out(Values(f32, {n}).on_device()) {}
  void run(float s) { triad(out.view(), a.view(), b.view(), s); }
};

void check_triad(int64_t n, float s) {
  Operands x(n);
  Numbers want = x.a.numbers();
  const Numbers b = x.b.numbers();
  for (size_t i = 0; i < want.size(); ++i) want[i] += static_cast<double>(s) * b[i];
  x.run(s);
  expect_close("triad of " + shown(n) + " elements, s = " + shown(s), x.out, want,
               {.roundings = 2, .scale = 2 + 2 * std::abs(s)});
}

// 16 blocks with whole accesses of 16 bytes.
constexpr int64_t kCounted = 16384;
Counted counted_triad() {
  Operands x(kCounted);
  return counted([&] { x.run(2); });
}
const std::string kWhat = "triad of 16384 elements: ";

}  // namespace

TEST_CASE("5.12 out = a + s b") {
  for (const float s : {2.0f, -0.75f, 0.0f, 1.0f}) check_triad(1024, s);
}

TEST_CASE("5.12 whole blocks, and partial blocks") {
  for (const int64_t n : {256, 1020, 1028, 4096, 5000}) check_triad(n, 3);
}

TEST_CASE("5.12 the remainder after the last whole access") {
  for (const int64_t n : {1, 2, 3, 5, 7, 1021, 1023, 1025, 1026, 1027, 5003}) check_triad(n, -2.5f);
}

TEST_CASE("5.12 no kernel is launched for 0 elements") {
  Operands x(0);
  const Counted c = counted([&] { x.run(2); });
  expect_equal("kernels launched for 0 elements", c.launches, 0.0);
}

TEST_CASE("5.12 one launch moves 12 bytes an element") {
  const Counted c = counted_triad();
  if (!kCounts) return expect(kWhat + "nothing is counted on a GPU", true);
  expect_equal(kWhat + "kernels launched", c.launches, 1.0);
  expect_equal(kWhat + "bytes read, a and b once each", c.bytes_read, 8.0 * kCounted);
  expect_equal(kWhat + "bytes written, out once", c.bytes_written, 4.0 * kCounted);
}

TEST_CASE("5.12 accesses of 16 bytes, coalesced over a warp") {
  const Counted c = counted_triad();
  if (!kCounts) return expect(kWhat + "nothing is counted on a GPU", true);
  // The emulator counts an access of 16 bytes as two halves with a gap between them.
  expect(kWhat + "reads and writes of a warp are coalesced", c.sectors <= 2.05 * c.ideal_sectors,
         "sectors of 32 bytes moved: " + shown(c.sectors) + ", needed are " + shown(c.ideal_sectors));
  expect(kWhat + "accesses of 16 bytes", c.requests <= 6.5 * kCounted / 128,
         "warps made " + shown(c.requests) + " requests; with accesses of 4 bytes they are " +
             shown(12.0 * kCounted / 128) + ", with fewer bytes in flight");
}
