#include <sys/mman.h>
#include <06_acceleration/checks/matrices.hpp>
#include <tinytorch/backend/cpu/ladder/register_tile.hpp>

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

// Numbers that end where a page ends that nobody may read.
template <class T>
class GuardedPanel {
 public:
  explicit GuardedPanel(int64_t n) : pages_((n * static_cast<int64_t>(sizeof(T)) + 4095) / 4096 * 4096) {
    memory_ = static_cast<char*>(mmap(nullptr, static_cast<size_t>(pages_ + 4096), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + pages_, 4096, PROT_NONE);
    data = reinterpret_cast<T*>(memory_ + pages_) - n;
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<T>(uniform(-1, 1));
  }
  ~GuardedPanel() { munmap(memory_, static_cast<size_t>(pages_ + 4096)); }
  GuardedPanel(const GuardedPanel&) = delete;
  GuardedPanel& operator=(const GuardedPanel&) = delete;
  T* data = nullptr;

 private:
  int64_t pages_;
  char* memory_;
};

template <class T>
void check_tile(int64_t rows, int64_t cols, int64_t depth, bool accumulate = false) {
  constexpr int64_t kWidth = cpu::kNR<T>;
  GuardedPanel<T> a(depth * cpu::kMR), b(depth * kWidth);
  const T outside = 12345;
  const int64_t pitch = kWidth + 5, all = (cpu::kMR + 2) * pitch;
  std::vector<T> c(static_cast<size_t>(all + 1), outside), before(c);
  T* const tile = c.data() + 1 + pitch;  // c is not aligned
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < cols; ++n)
      tile[m * pitch + n] = accumulate ? static_cast<T>(uniform(-1, 1)) : std::numeric_limits<T>::quiet_NaN();
  before = c;
  cpu::ladder::tile_product<T>(tile, pitch, a.data, b.data, depth, rows, cols, accumulate);
  const std::string what = "tile_product of " + std::to_string(rows) + " rows, " + std::to_string(cols) +
                           " columns, depth " + std::to_string(depth) + (accumulate ? ", added" : "");
  Numbers got, want;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t n = 0; n < cols; ++n) {
      double sum =
          accumulate ? static_cast<double>(before[static_cast<size_t>(1 + pitch + m * pitch + n)]) : 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += static_cast<double>(a.data[k * cpu::kMR + m]) * static_cast<double>(b.data[k * kWidth + n]);
      want.push_back(sum);
      got.push_back(static_cast<double>(tile[m * pitch + n]));
      tile[m * pitch + n] = outside;
    }
  }
  expect_close(what, got, want, Shape{rows, cols},
               {.dtype = std::is_same_v<T, double> ? f64 : f32,
                .roundings = 8,
                .scale = 1 + static_cast<double>(depth) / 4});
  for (const T x : c) {
    if (x != outside) expect(what + ": nothing of c outside of the tile is written", false);
  }
}

constexpr int64_t kColumns = cpu::kNR<float>;

}  // namespace

TEST_CASE("6.4 a whole tile, of any depth") {
  for (const int64_t depth : {1, 2, 3, 16, 100}) check_tile<float>(cpu::kMR, kColumns, depth);
  for (const int64_t depth : {1, 7, 64}) check_tile<double>(cpu::kMR, cpu::kNR<double>, depth);
}

TEST_CASE("6.4 partial tiles write nothing outside") {
  for (int64_t rows = 1; rows <= cpu::kMR; ++rows)
    for (const int64_t cols : {int64_t{1}, kColumns / 2, kColumns / 2 + 1, kColumns - 1, kColumns})
      check_tile<float>(rows, cols, 5);
  check_tile<double>(2, 3, 9);
}

TEST_CASE("6.4 the product replaces c, or is added to it") {
  for (const int64_t depth : {1, 30}) {
    check_tile<float>(cpu::kMR, kColumns, depth, true);
    check_tile<float>(4, kColumns - 3, depth, true);
    check_tile<double>(5, cpu::kNR<double> - 1, depth, true);
  }
}

TEST_CASE("6.4 no steps: zeros, or c as it was") {
  check_tile<float>(cpu::kMR, kColumns, 0);
  check_tile<float>(3, 5, 0, true);
}

TEST_CASE("6.4 a long sum in f64 keeps its digits") { check_tile<double>(cpu::kMR, cpu::kNR<double>, 5000); }

TEST_CASE("6.4 a whole sum is added to c, not its terms") {
  // 1 + 2^-24 + 2^-24 is 1 in f32 if each term is added to c, but 1 + 2^-23 if their sum is.
  std::vector<float> a(static_cast<size_t>(2 * cpu::kMR), 1),
      b(static_cast<size_t>(2 * kColumns), std::ldexp(1.0f, -24)),
      c(static_cast<size_t>(cpu::kMR * kColumns), 1);
  cpu::ladder::tile_product<float>(c.data(), kColumns, a.data(), b.data(), 2, cpu::kMR, kColumns, true);
  for (const float x : c) expect_equal("1 + (2^-24 + 2^-24)", x, 1 + std::ldexp(1.0f, -23));
}
