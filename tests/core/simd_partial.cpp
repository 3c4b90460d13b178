// Masked loads and stores of the first n lanes: an inaccessible page behind them detects any access beyond.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <tinytorch/core/simd_partial.hpp>

namespace tt = tinytorch;

namespace {

// Memory that is followed by an inaccessible page.
class GuardedPage {
 public:
  GuardedPage() : size_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* const pages = mmap(nullptr, 2 * size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(pages != MAP_FAILED);
    begin_ = static_cast<char*>(pages);
    REQUIRE(mprotect(begin_ + size_, size_, PROT_NONE) == 0);
  }
  ~GuardedPage() { munmap(begin_, 2 * size_); }
  // A pointer to the last n elements before the inaccessible page.
  template <class T>
  T* last(int64_t n) {
    return reinterpret_cast<T*>(begin_ + size_) - n;
  }

 private:
  size_t size_;
  char* begin_ = nullptr;
};

}  // namespace

TEST_CASE_TEMPLATE("the first n lanes are loaded and stored, and nothing beyond", T, float, double, int32_t,
                   int64_t, int16_t, int8_t) {
  GuardedPage page;
  for (int64_t n = 0; n <= tt::kLanes<T>; ++n) {
    CAPTURE(n);
    T* const data = page.last<T>(n);
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<T>(i + 1);
    const tt::FirstLanes<T> lanes(n);
    const tt::Simd<T> v = lanes.load(data);
    for (int64_t i = 0; i < tt::kLanes<T>; ++i) CHECK(v[i] == static_cast<T>(i < n ? i + 1 : 0));
    lanes.store(data, v + v);
    for (int64_t i = 0; i < n; ++i) CHECK(data[i] == static_cast<T>(2 * (i + 1)));

    T more[2 * tt::kLanes<T>];  // the memory beyond the n elements must stay unchanged
    for (T& x : more) x = static_cast<T>(7);
    lanes.store(more, v);
    for (int64_t i = 0; i < 2 * tt::kLanes<T>; ++i) CHECK(more[i] == static_cast<T>(i < n ? i + 1 : 7));
  }
}
