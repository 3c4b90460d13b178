#include <sys/mman.h>
#include <06_acceleration/checks/matrices.hpp>
#include <tinytorch/backend/cpu/ladder/panels.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;
namespace ladder = cpu::ladder;

namespace {

// The element of the block that belongs to each place of the panels, or 0 for padding. `of_rows`: panels of
// rows of the block, else of columns.
template <class T>
void check_panels(int64_t rows, int64_t cols, Layout layout, bool of_rows) {
  Grid<T> block(rows, cols, layout);
  block.fill(1, 100);
  const int64_t width = of_rows ? cpu::kMR : cpu::kNR<T>, count = of_rows ? rows : cols,
                depth = of_rows ? cols : rows, all = ladder::panel_elements(count, width, depth);
  std::vector<T> panels(static_cast<size_t>(all + 9), Grid<T>::other());
  const cpu::Matrix<T> m{block.data(), block.row, block.col};
  if (of_rows)
    ladder::pack_a<T>(panels.data(), m, rows, cols);
  else
    ladder::pack_b<T>(panels.data(), m, rows, cols);
  const std::string what = std::string(of_rows ? "pack_a" : "pack_b") + " of [" + std::to_string(rows) +
                           ", " + std::to_string(cols) + "], " + name_of_layout(layout);
  for (int64_t i = 0; i < all; ++i) {
    const int64_t panel = i / (width * depth), k = i % (width * depth) / width,
                  at = panel * width + i % width;
    const T want = at >= count ? T(0) : of_rows ? block.at(at, k) : block.at(k, at);
    expect_equal(what + ": number " + std::to_string(i) + ", in panel " + std::to_string(panel) + ", step " +
                     std::to_string(k) + ", place " + std::to_string(i % width),
                 panels[static_cast<size_t>(i)], want);
  }
  for (size_t i = static_cast<size_t>(all); i < panels.size(); ++i) {
    const T x = panels[i];
    expect(what + ": nothing is written behind the panels", x != x || x == T(77));
  }
}

void check_widths(Layout layout, bool of_rows) {
  const int64_t width = of_rows ? cpu::kMR : cpu::kNR<float>;
  for (const int64_t n : {int64_t{1}, width - 1, width, width + 1, 2 * width, 2 * width + 3})
    of_rows ? check_panels<float>(n, 5, layout, true) : check_panels<float>(5, n, layout, false);
}

}  // namespace

TEST_CASE("6.3 pack_a: panels of kMR rows, one column after the other") {
  check_widths(Layout::contiguous, true);
  check_panels<double>(13, 7, Layout::contiguous, true);
  check_panels<int32_t>(7, 13, Layout::contiguous, true);
}

TEST_CASE("6.3 pack_b: panels of kNR columns, one row after the other") {
  check_widths(Layout::contiguous, false);
  check_panels<double>(7, 40, Layout::contiguous, false);
  check_panels<int32_t>(40, 7, Layout::contiguous, false);
}

TEST_CASE("6.3 transposed and strided blocks, and negative strides") {
  for (const Layout layout : kLayouts)
    for (const bool of_rows : {true, false}) check_widths(layout, of_rows);
}

TEST_CASE("6.3 partial panels are filled up with zeros, whatever their memory was") {
  check_panels<float>(cpu::kMR + 1, 3, Layout::contiguous, true);
  check_panels<float>(3, cpu::kNR<float> + 1, Layout::gaps, false);
  check_panels<double>(3, cpu::kNR<double> - 1, Layout::gaps, false);
}

TEST_CASE("6.3 one number, and empty blocks") {
  for (const bool of_rows : {true, false}) {
    check_panels<float>(1, 1, Layout::contiguous, of_rows);
    check_panels<float>(0, 4, Layout::contiguous, of_rows);
    check_panels<float>(4, 0, Layout::contiguous, of_rows);
  }
}

TEST_CASE("6.3 strides beyond 32 bits") {
  // Memory that is only reserved: the pages of three bytes are used.
  const int64_t stride = (int64_t{1} << 31) + 7;
  void* const memory = mmap(nullptr, static_cast<size_t>(2 * stride + 8), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return expect("there are no addresses for 4 GiB here", true);
  auto* const data = static_cast<int8_t*>(memory);
  for (int8_t i = 0; i < 3; ++i) data[i * stride] = static_cast<int8_t>(i + 1);
  std::vector<int8_t> to(static_cast<size_t>(3 * cpu::kMR));
  ladder::pack_a<int8_t>(to.data(), {data, stride, 1}, 3, 1);
  for (int8_t i = 0; i < 3; ++i)
    expect_equal("pack_a: row " + shown(i), int{to[static_cast<size_t>(i)]}, i + 1);
  ladder::pack_a<int8_t>(to.data(), {data, 1, stride}, 1, 3);
  for (int8_t i = 0; i < 3; ++i)
    expect_equal("pack_a: column " + shown(i), int{to[static_cast<size_t>(i * cpu::kMR)]}, i + 1);
  to.resize(static_cast<size_t>(3 * cpu::kNR<int8_t>));
  ladder::pack_b<int8_t>(to.data(), {data, stride, 1}, 3, 1);
  for (int8_t i = 0; i < 3; ++i)
    expect_equal("pack_b: row " + shown(i), int{to[static_cast<size_t>(i * cpu::kNR<int8_t>)]}, i + 1);
  munmap(memory, static_cast<size_t>(2 * stride + 8));
}
