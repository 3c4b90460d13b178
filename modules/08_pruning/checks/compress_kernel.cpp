#include "compressed.hpp"

using namespace course;

namespace {

std::string text_of(DType t, int64_t N, int64_t K, Layout layout = Layout::contiguous) {
  return "[" + std::to_string(N) + ", " + std::to_string(K) + "] of " + name_of(t) + ", layout " +
         name_of_layout(layout);
}

// compress24 of the numbers against the definition. Returns what was counted.
Counted check_compress(DType t, int64_t N, int64_t K, const Numbers& numbers,
                       Layout layout = Layout::contiguous) {
  Values dense = Values::of(t, {N, K}, numbers, layout).on_device(),
         values = Values(t, {N, K / 2}).on_device(), places = Values(u8, {N, (K + 15) / 16 * 2}).on_device();
  const View from = dense.view(), kept = values.view(), where = places.view();
  const Counted n = counted([&] { backend::cuda::compress24(kept, where, from); });
  const Compressed want(dense.numbers(), t, N, K);
  expect_equal("places, bytes of " + text_of(t, N, K, layout), places.numbers(), want.place_bytes());
  const Numbers got = values.numbers();
  size_t other = 0;
  for (size_t i = 0; i < got.size(); ++i)
    other += got[i] != want.values[i] && !(std::isnan(got[i]) && std::isnan(want.values[i]));
  expect_equal("values of " + text_of(t, N, K, layout) + " that differ", other, size_t{0});
  return n;
}

Numbers random_numbers(int64_t count) {
  Numbers out;
  for (int64_t i = 0; i < count; ++i) out.push_back(uniform(-1, 1));
  return out;
}

Counted check_strips(DType t, int64_t N, int64_t K) {
  const Compressed w(Values::of(t, {N, K}, random_numbers(N * K)).numbers(), t, N, K);
  Values values = w.values_on_device(), places = w.places_on_device(),
         strips = Values(u8, backend::Strips24::shape(N, K)).on_device();
  const View kept = values.view(), where = places.view(), to = strips.view();
  const Counted n = counted([&] { backend::cuda::strips24(to, kept, where); });
  const Numbers got = strips.numbers(), want = w.strips();
  const size_t first =
      static_cast<size_t>(std::mismatch(want.begin(), want.end(), got.begin()).first - want.begin());
  const std::string what = "the strips of " + text_of(t, N, K);
  if (first < want.size()) {
    const size_t part = first / backend::Strips24::kPartBytes, at = first % backend::Strips24::kPartBytes;
    expect_equal("byte " + std::to_string(at) + " of part " + std::to_string(part) + " of " + what,
                 got[first], want[first]);
  }
  expect_equal("bytes of " + what, got.size(), want.size());
  return n;
}

}  // namespace

TEST_CASE("8.13 the two largest of each four stay, the lower place first") {
  // Places 0 and 1; 1 and 3; 0 and 2; 2 and 3: two bits each, from the lowest bit of the first byte up.
  const Numbers row{9, 8, 1, 0, 1, 7, 2, -8, 5, 1, -6, 2, 0, 0.5, 3, -4};
  Values dense = Values::of(f32, {1, 16}, row).on_device(), values = Values(f32, {1, 8}).on_device(),
         places = Values(u8, {1, 2}).on_device();
  backend::cuda::compress24(values.view(), places.view(), dense.view());
  expect_equal("values", values.numbers(), Numbers{9, 8, 7, -8, 5, -6, 3, -4});
  expect_equal("places: 0 1, 1 3, 0 2, 2 3", places.numbers(), Numbers{0xd4, 0xe8});
}

TEST_CASE("8.13 any number of rows and groups; groups behind the last have the places 0 and 1") {
  for (const int64_t K : {4, 8, 12, 16, 20, 64, 100, 260})
    for (const int64_t N : {1, 3, 70}) check_compress(f32, N, K, random_numbers(N * K));
}

TEST_CASE("8.13 each dtype and layout") {
  for (const DType t : {f32, bf16, f16})
    for (const Layout layout : kLayouts) check_compress(t, 5, 36, random_numbers(5 * 36), layout);
}

TEST_CASE("8.13 of equal magnitudes the first stay, and a NaN before all others") {
  Numbers ties;
  for (int64_t i = 0; i < 64 * 32; ++i) ties.push_back(std::floor(uniform(-2, 3)));
  for (const DType t : {f32, bf16, f16}) {
    check_compress(t, 32, 64, ties);
    check_compress(t, 2, 12, {NAN,  1, INFINITY, 3,   0, 0, 0,  0, INFINITY, NAN,  5,   -INFINITY,
                              -7.0, 2, 8,        NAN, 0, 0, -1, 0, NAN,      -NAN, NAN, 1});
  }
}

TEST_CASE("8.13 strips: each number and each place is where a tensor core reads it") {
  for (const DType t : {bf16, f16}) {
    check_strips(t, 16, 64);
    check_strips(t, 16, 192);
    check_strips(t, 48, 128);
  }
}

TEST_CASE("8.13 strips of any number of rows and columns: zeros at places 0 and 1 outside") {
  for (const int64_t N : {1, 7, 8, 9, 17, 40})
    for (const int64_t K : {4, 16, 20, 60, 68, 132}) check_strips(bf16, N, K);
}

TEST_CASE("8.13 a matrix without rows or columns") {
  check_compress(f32, 0, 8, {});
  check_strips(bf16, 0, 64);
}

TEST_CASE("8.13 each number is read once and written once") {
  const Counted n = check_compress(f32, 64, 256, random_numbers(64 * 256)), s = check_strips(bf16, 64, 256);
  if (!kCounts) return;
  expect_equal("bytes that compress24 reads for 64 x 256 of f32", n.bytes_read, 4.0 * 64 * 256);
  expect_equal("bytes that it writes: half of the numbers and 2 bits for each", n.bytes_written,
               2.0 * 64 * 256 + 64.0 * 256 / 8);
  expect_equal("bytes that strips24 reads for 64 x 256 of bf16", s.bytes_read, 9.0 / 8 * 64 * 256);
  expect_equal("bytes that it writes", s.bytes_written, 9.0 / 8 * 64 * 256);
}
