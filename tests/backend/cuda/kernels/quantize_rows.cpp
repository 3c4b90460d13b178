// Rows of 8-bit codes on CUDA: the definition, the bits of the CPU, and the traffic of each path.
#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/row_codes.hpp>
#include <tinytorch/backend/cpu/quantize_rows.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

constexpr DType kCodes[] = {i8, u8};
constexpr DType kSources[] = {f32, bf16, f16};

void check_rows(Fresh& fresh, DType codes, DType t, int64_t rows, int64_t K, Layout layout, Layout of_codes) {
  INFO(text_of(t), " ", rows, " x ", K, " layout ", static_cast<int>(layout), " codes ",
       static_cast<int>(of_codes));
  const std::vector<double> values = code_rows(fresh.next(), rows, K, t);
  Array x = Array::from(t, {rows, K}, values, layout), want(codes, {rows, K}), want_scale(f32, {rows});
  backend::cpu::quantize_rows(want.view(), want_scale.view(), x.view());
  DeviceArray in = DeviceArray::from(t, {rows, K}, values, layout), code(codes, {rows, K}, of_codes),
              scale(f32, {rows});
  kernels::quantize_rows(code.view(), scale.view(), in.view());
  const std::vector<double> own = code.values(), own_scale = scale.values();
  CHECK(own == want.values());
  const std::vector<double> cpu_scale = want_scale.values();
  int64_t other = 0;
  for (size_t r = 0; r < own_scale.size(); ++r) {
    other += !(own_scale[r] == cpu_scale[r] || (std::isnan(own_scale[r]) && std::isnan(cpu_scale[r])));
  }
  CHECK(other == 0);
  CHECK(code.untouched_around());
  CHECK(scale.untouched_around());
  if (rows * K <= 20'000) check_codes(codes, own, own_scale, in.values(), rows, K);
}

}  // namespace

TEST_CASE("codes and scales on CUDA follow the definition, with the bits of the CPU" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  // Narrow rows; rows of elements, of parts of a warp, of warps and blocks, in shared memory, in segments.
  constexpr std::pair<int64_t, int64_t> kSizes[] = {
      {1, 1},       {1000, 1},   {333, 2},  {70, 3},   {65, 7},    {40, 33},  {50, 63},
      {33, 64},     {17, 65},    {9, 96},   {8, 100},  {7, 255},   {5, 256},  {5, 257},
      {3, 768},     {3, 1000},   {3, 2049}, {2, 4096}, {70, 8200}, {2, 8191}, {67, 12'500},
      {1, 100'003}, {3, 65'536}, {0, 7},    {4, 0}};
  for (const DType codes : kCodes) {
    for (const DType t : kSources) {
      for (const auto& [rows, K] : kSizes) {
        if (rows * K > 100'000 && left_out(4)) continue;
        for (const Layout layout : {Layout::dense, Layout::offset}) {
          check_rows(fresh, codes, t, rows, K, layout, layout);
          if (rows * K < 3000) check_rows(fresh, codes, t, rows, K, Layout::dense, Layout::offset);
        }
        if (rows * K < 3000) check_rows(fresh, codes, t, rows, K, Layout::transposed, Layout::dense);
      }
    }
  }
}

TEST_CASE("rows too long for shared memory, and rows that are processed in several steps" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  if (few_cases() && !kEmulated) return;
  check_rows(fresh, i8, f32, 70, 60'001, Layout::dense, Layout::dense);  // 16.8 MB in segments
}

TEST_CASE("integers are rounded half to even on CUDA" * needs_devices()) {
  DeviceArray x = DeviceArray::from(f32, {1, 9}, {127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -127}),
              code(i8, {1, 9}), scale(f32, {1});
  kernels::quantize_rows(code.view(), scale.view(), x.view());
  CHECK(code.values() == std::vector<double>{127, 0, 2, 2, 0, -2, -2, 126, -127});
  CHECK(scale.values() == std::vector<double>{1});
}

TEST_CASE("other dtypes are refused on CUDA" * needs_devices()) {
  DeviceArray x(f64, {2, 2}), y(f32, {2, 2}), code(i8, {2, 2}), wide(i32, {2, 2}), scale(f32, {2});
  CHECK(message_of([&] { kernels::quantize_rows(code.view(), scale.view(), x.view()); }) ==
        "TT-DTYPE-02: quantize_rows: x is f64\n  rule: f32, bf16 or f16");
  CHECK(message_of([&] { kernels::quantize_rows(wide.view(), scale.view(), y.view()); }) ==
        "TT-DTYPE-02: quantize_rows: codes of i32\n  rule: codes are i8, or u8 for fp8");
}

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/emulator.hpp>

TEST_CASE("each element is read once and each code is written once, in few sectors") {
  namespace sim = tinytorch::backend::cuda::sim;
  Fresh fresh;
  for (const DType t : kSources) {
    for (const auto& [rows, K, visits] : {std::tuple<int64_t, int64_t, int64_t>{600, 5, 1},
                                          {64, 64, 1},
                                          {9, 257, 1},
                                          {5, 1000, 1},
                                          {5, 4096, 1},
                                          {70, 40'000, 1},
                                          {1, 100'000, 2}}) {
      INFO(text_of(t), " ", rows, " x ", K);
      DeviceArray x = fresh.array(t, {rows, K}), code(i8, {rows, K}), scale(f32, {rows});
      sim::clear_counts();
      sim::set_counting(true);
      kernels::quantize_rows(code.view(), scale.view(), x.view());
      sim::set_counting(false);
      uint64_t read = 0, written = 0, sectors = 0;
      for (const sim::KernelCounts& c : sim::counts()) {
        read += c.bytes_read, written += c.bytes_written, sectors += c.sectors;
      }
      const auto n = static_cast<uint64_t>(rows * K), size = static_cast<uint64_t>(tinytorch::size_of(t));
      const uint64_t scales = static_cast<uint64_t>(rows) * 4, extra = visits == 2 ? n / 10 : 0;
      CHECK(read >= n * size * static_cast<uint64_t>(visits));
      CHECK(read <= n * size * static_cast<uint64_t>(visits) + extra);
      CHECK(written >= n + scales);
      CHECK(written <= n + scales + extra);
      const bool aligned = K * static_cast<int64_t>(size) % 16 == 0;
      const double ideal = static_cast<double>(n * (size * static_cast<uint64_t>(visits) + 1)) / 32;
      CHECK(static_cast<double>(sectors) <= (aligned ? 1.15 : 1.8) * ideal + 2.0 * static_cast<double>(rows));
    }
  }
}
#endif

#else
TEST_CASE("quantize_rows on CUDA: the build has no CUDA" * doctest::skip()) {}
#endif
