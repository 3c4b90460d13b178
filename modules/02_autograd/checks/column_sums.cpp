#include <support/counted.hpp>

using namespace course;
using backend::cuda::column_sums;

namespace {

Numbers summed(const Numbers& x, int64_t columns) {
  Numbers out(static_cast<size_t>(columns));
  for (size_t i = 0; i < x.size(); ++i) out[i % out.size()] += x[i];
  return out;
}

void check_sums(int64_t rows, int64_t columns, DType of_x = f32, DType of_out = f32,
                Layout layout = Layout::contiguous) {
  Values x = Values::random(of_x, {rows, columns}, layout).on_device();
  Values out =
      Values(of_out, {columns}, layout == Layout::transposed ? Layout::contiguous : layout).on_device();
  const Numbers want = summed(x.numbers(), columns);
  column_sums(out.view(), x.view());
  expect_close("column_sums of x [" + std::to_string(rows) + ", " + std::to_string(columns) + "], " +
                   name_of(of_x) + ", " + name_of_layout(layout),
               out, want, {.roundings = 8, .scale = static_cast<double>(rows) / 2});
}

}  // namespace

TEST_CASE("2.9 a small matrix") {
  Values x = Values::of(f32, {3, 2}, {1, 10, 2, 20, 3, 30}).on_device(), out = Values(f32, {2}).on_device();
  column_sums(out.view(), x.view());
  expect_close("column_sums of {{1, 10}, {2, 20}, {3, 30}}", out, {6, 60});
}

TEST_CASE("2.9 any number of rows") {
  for (const int64_t rows : {1, 2, 7, 8, 9, 63, 64, 65, 127, 200}) check_sums(rows, 5);
}

TEST_CASE("2.9 any number of columns") {
  for (const int64_t columns : {1, 3, 31, 32, 33, 64, 65, 257}) check_sums(10, columns);
  check_sums(70, 300);
}

TEST_CASE("2.9 any layout") {
  for (const Layout layout : kLayouts) check_sums(67, 35, f32, f32, layout);
  Values row = Values::random(f32, {5}).on_device(), out = Values(f32, {5}).on_device();
  View repeated = row.view();
  repeated.shape = {100, 5};
  repeated.strides = {0, 1};
  Numbers want = row.numbers();
  for (double& v : want) v *= 100;
  column_sums(out.view(), repeated);
  expect_close("column_sums of x [100, 5] with strides [0, 1]", out, want, {.scale = 50});
}

TEST_CASE("2.9 no rows, no columns") {
  check_sums(0, 5);
  check_sums(0, 1, f64, bf16);
  check_sums(5, 0);
}

TEST_CASE("2.9 any floating dtype, and no rounding of partial sums") {
  for (const DType of_x : {f64, bf16, f16}) check_sums(130, 33, of_x, of_x);
  check_sums(100, 3, f32, bf16);
  check_sums(100, 3, f64, f32);
  // 16777216 + 1 is 16777216 in f32, so a sum that is kept in f32 loses the ones.
  Numbers numbers(500, 1);
  numbers[0] = 16777216;
  Values x = Values::of(f32, {500, 1}, numbers).on_device(), out = Values(f32, {1}).on_device();
  column_sums(out.view(), x.view());
  expect_close("column_sums of one column: 16777216 and then 499 ones", out, {16777216 + 499});
  // The sum of 300 times 200.25 is beyond the integers that f16 can represent exactly.
  Values halves = Values::of(f16, {300, 1}, Numbers(300, 200.25)).on_device(),
         wide = Values(f32, {1}).on_device();
  column_sums(wide.view(), halves.view());
  expect_close("column_sums of 300 f16 numbers, all 200.25, into f32", wide, {300 * 200.25},
               {.roundings = 8});
}

TEST_CASE("2.9 the same bits, whatever the order of the blocks") {
  const int64_t rows = 400, columns = 20;
  Numbers numbers(static_cast<size_t>(rows * columns));
  for (double& n : numbers) n = uniform(-1, 1) * std::pow(10, uniform(-3, 3));
  Values x = Values::of(f64, {rows, columns}, numbers).on_device();
  const auto sums = [&](bool reversed) {
    Values out = Values(f64, {columns}).on_device();
    const auto run = [&] { column_sums(out.view(), x.view()); };
    reversed ? with_last_block_first(run) : run();
    return out.numbers();
  };
  const Numbers first = sums(false);
  const auto expect_same = [&](const std::string& run, const Numbers& again) {
    size_t differ = 0, column = 0;
    for (size_t c = 0; c < first.size(); ++c) {
      if (again[c] != first[c]) ++differ, column = c;
    }
    char text[120] = "";
    std::snprintf(text, sizeof text, "; in column %zu the first run gave %.17g, this run %.17g", column,
                  first[column], again[column]);
    expect("column_sums of x [400, 20], f64, twice the same x; " + run + " gives the bits of the first run",
           differ == 0,
           std::to_string(differ) + " of 20 sums differ" + text +
               "\n  the order in which terms are added must follow from the shape alone");
  };
  expect_same("a second run", sums(false));
  expect_same("a run with the last block first", sums(true));
  for (int run = 0; run < (kCounts ? 0 : 20); ++run) expect_same("one more run", sums(false));
}

TEST_CASE("2.9 many blocks share the rows, and warps read coalesced") {
  const int64_t rows = 1024, columns = 32;
  Values x = Values::random(f32, {rows, columns}).on_device(), out = Values(f32, {columns}).on_device();
  const Counted c = counted([&] { column_sums(out.view(), x.view()); });
  const std::string what = "column_sums of x [1024, 32], f32: ";
  if (!kCounts) return expect(what + "nothing is counted on a GPU", true);
  expect(
      what + "at least 8 blocks run in parallel", c.most_blocks >= 8,
      "one kernel had " + shown(c.most_blocks) + " blocks, the others fewer: most of a device would be idle");
  expect(what + "x is read once", c.bytes_read <= 1.25 * 4 * 32 * 1024 && c.bytes_read >= 4 * 32 * 1024,
         "x has " + shown(4.0 * 32 * 1024) + " bytes, read were " + shown(c.bytes_read));
  expect(what + "reads of a warp are coalesced", c.sectors <= 2.25 * c.ideal_sectors,
         "sectors of 32 bytes moved: " + shown(c.sectors) + ", needed are " + shown(c.ideal_sectors));
}
