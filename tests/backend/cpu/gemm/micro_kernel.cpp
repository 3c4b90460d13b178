// Packed panels for every count and stride order, and the micro-kernel's product of them.
#include <doctest/doctest.h>
#include <cmath>
#include <cstring>
#include <tinytorch/backend/cpu/gemm/micro_kernel.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
using namespace tinytorch::backend;

namespace {

template <class T>
std::vector<T> random_values(int64_t n, uint64_t seed) {
  tt::Generator g(seed);
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v)
    x = static_cast<T>(std::is_integral_v<T> ? std::floor(g.uniform(-50, 50)) : g.uniform(-1, 1));
  return v;
}

// Packs count x depth numbers, `step` and `depth_step` apart, and compares the panel with the source.
template <int64_t kWidth, class T>
void check_panel(int64_t count, int64_t depth, bool deep) {
  CAPTURE(count);
  CAPTURE(depth);
  CAPTURE(deep);
  const int64_t step = deep ? depth + 3 : 1, depth_step = deep ? 1 : count + 5;
  const std::vector<T> source = random_values<T>((count + 5) * (depth + 5), 1);
  std::vector<T> panel(static_cast<size_t>(kWidth * depth), T(77));
  cpu::pack_panel<kWidth>(panel.data(), count, depth, source.data(), step, depth_step);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < kWidth; ++i) {
      const T expected = i < count ? source[static_cast<size_t>(i * step + k * depth_step)] : T(0);
      REQUIRE(panel[static_cast<size_t>(k * kWidth + i)] == expected);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("panels of every count, contiguous across the depth and along it", T, float, double,
                   int32_t) {
  for (const bool deep : {false, true}) {
    for (const int64_t depth : {1, 3, 4, 15, 16, 17, 35}) {
      for (int64_t count = 1; count <= cpu::kMR; ++count) check_panel<cpu::kMR, T>(count, depth, deep);
      for (const int64_t count : {int64_t{1}, int64_t{3}, cpu::kNR<T> - 1, cpu::kNR<T>})
        check_panel<cpu::kNR<T>, T>(count, depth, deep);
    }
  }
}

TEST_CASE_TEMPLATE("packing converts 16-bit floats to float", S, tt::BFloat16, tt::Half) {
  constexpr int64_t kWidth = cpu::kNR<float>;
  for (const bool deep : {false, true}) {
    for (const int64_t depth : {1, 4, 17, 35}) {
      for (const int64_t count : {int64_t{2}, int64_t{5}, kWidth - 1, kWidth}) {
        const int64_t step = deep ? depth + 3 : 1, depth_step = deep ? 1 : count + 5;
        const std::vector<double> numbers = random_values<double>((count + 5) * (depth + 5), 5);
        std::vector<S> source;
        for (const double x : numbers) source.push_back(static_cast<S>(100 * x));
        std::vector<float> panel(static_cast<size_t>(kWidth * depth), 77.0f);
        cpu::pack_panel<kWidth>(panel.data(), count, depth, source.data(), step, depth_step);
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t i = 0; i < kWidth; ++i) {
            const S number = i < count ? source[static_cast<size_t>(i * step + k * depth_step)] : S(0.0f);
            REQUIRE(panel[static_cast<size_t>(k * kWidth + i)] == static_cast<float>(number));
          }
        }
      }
    }
  }
}

template <class T, int64_t kCount>
struct Word {
  using Part = T;
  static constexpr int64_t kPerWord = kCount;
};

TEST_CASE_TEMPLATE("words of narrow numbers, contiguous across the depth and along it", W, Word<uint8_t, 4>,
                   Word<tt::BFloat16, 2>, Word<uint8_t, 2>, Word<int8_t, 2>) {
  using Part = typename W::Part;
  constexpr int64_t kPerWord = W::kPerWord, kWidth = cpu::kNR<float>;
  const auto bits = [](Part x) {
    if constexpr (sizeof(Part) == 2)
      return uint32_t{x.bits};
    else
      return static_cast<uint32_t>(x) & (kPerWord == 4 ? 0xffu : 0xffffu);
  };
  for (const bool deep : {false, true}) {
    for (const int64_t elements : {1, 2, 3, 4, 7, 15, 16, 17, 35}) {
      for (const int64_t count : {int64_t{1}, int64_t{3}, int64_t{4}, kWidth - 1, kWidth}) {
        const int64_t step = deep ? elements + 3 : 1, depth_step = deep ? 1 : count + 5;
        const std::vector<double> numbers = random_values<double>((count + 5) * (elements + 5), 4);
        std::vector<Part> source(numbers.size());
        for (size_t i = 0; i < source.size(); ++i)
          source[i] = static_cast<Part>(
              sizeof(Part) == 2 ? numbers[i]
                                : std::floor((std::is_signed_v<Part> ? 0 : 128) + 120 * numbers[i]));
        const int64_t depth = tinytorch::ceil_div(elements, kPerWord);
        std::vector<int32_t> panel(static_cast<size_t>(kWidth * depth), 77);
        const uint8_t flip = kPerWord == 4 ? 128 : 0;
        cpu::pack_words<kWidth, kPerWord>(panel.data(), count, elements, source.data(), step, depth_step,
                                          flip);
        for (int64_t k = 0; k < kPerWord * depth; ++k) {
          for (int64_t i = 0; i < kWidth; ++i) {
            const uint32_t expected =
                i < count && k < elements
                    ? bits(source[static_cast<size_t>(i * step + k * depth_step)]) ^ flip
                    : 0;
            const auto word = static_cast<uint32_t>(panel[static_cast<size_t>(k / kPerWord * kWidth + i)]);
            const uint32_t part =
                word >> (32 / kPerWord * (k % kPerWord)) & (kPerWord == 4 ? 0xffu : 0xffffu);
            REQUIRE(part == expected);
          }
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("a tile, whole and at an edge, stored and accumulated", T, float, double, int32_t,
                   int64_t) {
  constexpr int64_t kRows = cpu::kMR, kCols = cpu::kNR<T>;
  for (const int64_t depth : {1, 2, 7, 8, 130}) {
    const std::vector<T> a = random_values<T>(depth * kRows, 2), b = random_values<T>(depth * kCols, 3);
    for (const bool accumulate : {false, true}) {
      for (const int64_t rows : {int64_t{1}, kRows - 1, kRows}) {
        for (const int64_t cols : {int64_t{1}, kCols - 1, kCols}) {
          std::vector<T> c(static_cast<size_t>(kRows * (kCols + 3)), T(5));
          cpu::multiply_tile<T>(depth, a.data(), b.data(), c.data(), kCols + 3, rows, cols, accumulate);
          for (int64_t i = 0; i < kRows; ++i) {
            for (int64_t j = 0; j < kCols + 3; ++j) {
              double sum = accumulate ? 5 : 0;
              for (int64_t k = 0; k < depth && j < kCols; ++k)
                sum += static_cast<double>(a[static_cast<size_t>(k * kRows + i)]) *
                       static_cast<double>(b[static_cast<size_t>(k * kCols + j)]);
              const bool inside = i < rows && j < cols;
              const double got = static_cast<double>(c[static_cast<size_t>(i * (kCols + 3) + j)]);
              REQUIRE(std::abs(got - (inside ? sum : 5.0)) <=
                      (std::is_integral_v<T> ? 0 : 2e-6 * static_cast<double>(depth)));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("panels that are packed together equal panels packed alone") {
  constexpr int64_t kWidth = cpu::kMR, kMost = cpu::kPanelsTogether<float, kWidth> * kWidth, kRow = 90;
  CHECK(cpu::kPanelsTogether<float, kWidth> == 4);
  CHECK(cpu::kPanelsTogether<double, 64> == 1);
  std::vector<float> source(kRow * kRow);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i + 1);
  for (const int64_t depth : {1, 7, 33})
    for (const int64_t count : {int64_t{1}, kWidth, kMost - 1, kMost})
      for (const bool side_by_side : {true, false}) {
        const int64_t step = side_by_side ? 1 : kRow, depth_step = side_by_side ? kRow : 1;
        const int64_t size = tinytorch::ceil_div(count, kWidth) * kWidth * depth;
        std::vector<float> together(static_cast<size_t>(size), -1.0f), alone = together;
        cpu::pack_panels<kWidth>(together.data(), count, depth, source.data(), step, depth_step);
        for (int64_t i = 0; i < count; i += kWidth)
          cpu::pack_panel<kWidth>(alone.data() + i * depth, std::min(kWidth, count - i), depth,
                                  source.data() + i * step, step, depth_step);
        CHECK(together == alone);
      }
}
