#include <tinytorch/backend/cpu/quantize_rows.hpp>

#include <array>
#include <cstring>
#include <support/errors.hpp>
#include <support/row_codes.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

constexpr DType kCodes[] = {i8, u8};
constexpr DType kSources[] = {f32, bf16, f16};

}  // namespace

TEST_CASE("codes and scales follow the definition for every dtype, length and layout") {
  uint64_t seed = 11;
  for (const DType codes : kCodes) {
    for (const DType t : kSources) {
      for (const auto& [rows, K] : {std::pair<int64_t, int64_t>{40, 1},
                                    {17, 3},
                                    {9, 31},
                                    {7, 64},
                                    {6, 1023},
                                    {5, 1025},
                                    {3, 4099},
                                    {1, 20'000},
                                    {0, 5},
                                    {4, 0}}) {
        for (const Layout layout : kLayouts) {
          Array x = Array::from(t, {rows, K}, code_rows(++seed, rows, K, t), layout);
          Array code(codes, {rows, K}, Layout::offset), scale(f32, {rows}, Layout::offset);
          kernels::quantize_rows(code.view(), scale.view(), x.view());
          check_codes(codes, code.values(), scale.values(), x.values(), rows, K);
          CHECK(code.untouched_around());
          CHECK(scale.untouched_around());
        }
      }
    }
  }
}

TEST_CASE("integers are rounded half to even, and codes use -127 to 127") {
  Array x = Array::from(f32, {1, 9}, {127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -127}), code(i8, {1, 9}),
        scale(f32, {1});
  kernels::quantize_rows(code.view(), scale.view(), x.view());
  CHECK(code.values() == std::vector<double>{127, 0, 2, 2, 0, -2, -2, 126, -127});
  CHECK(scale.values() == std::vector<double>{1});
}

TEST_CASE("a row has the same codes alone and among others") {
  const int64_t rows = 7, K = 501;
  Array x = Array::from(bf16, {rows, K}, code_rows(5, rows, K, bf16)), code(i8, {rows, K}),
        scale(f32, {rows});
  kernels::quantize_rows(code.view(), scale.view(), x.view());
  const auto all = code.values();
  for (int64_t r = 0; r < rows; ++r) {
    Array alone(i8, {1, K}), of_row(f32, {1});
    backend::View row = x.view();
    row.shape = {1, K}, row.data = row.as<BFloat16>() + r * K;
    kernels::quantize_rows(alone.view(), of_row.view(), row);
    CHECK(alone.values() == std::vector<double>(all.begin() + r * K, all.begin() + (r + 1) * K));
  }
}

TEST_CASE("rows of codes may have gaps between them, which stay as they are") {
  for (const DType codes : kCodes) {
    for (const auto& [rows, K, pitch] :
         {std::array<int64_t, 3>{5, 37, 48}, {3, 1, 16}, {2, 1030, 1031}, {1, 7, 64}, {3, 0, 16}}) {
      CAPTURE(pitch);
      Array x = Array::from(f32, {rows, K}, code_rows(8, rows, K, f32)), tight(codes, {rows, K}),
            scale(f32, {rows}), own(f32, {rows});
      kernels::quantize_rows(tight.view(), scale.view(), x.view());
      Array wide =
          Array::from(codes, {rows, pitch}, std::vector<double>(static_cast<size_t>(rows * pitch), 9));
      backend::View spaced = wide.view();
      spaced.shape = {rows, K};
      kernels::quantize_rows(spaced, own.view(), x.view());
      const std::vector<double> got = wide.values(), want = tight.values();
      for (int64_t i = 0; i < rows * pitch; ++i) {
        const int64_t r = i / pitch, k = i % pitch;
        CHECK(got[static_cast<size_t>(i)] == (k < K ? want[static_cast<size_t>(r * K + k)] : 9));
      }
      const std::vector<double> scales = scale.values(), found = own.values();  // of some rows NaN
      CHECK(std::memcmp(found.data(), scales.data(), scales.size() * sizeof(double)) == 0);
      CHECK(wide.untouched_around());
    }
  }
}

TEST_CASE("other dtypes are refused") {
  Array x(f64, {2, 2}), y(f32, {2, 2}), code(i8, {2, 2}), wide(i32, {2, 2}), scale(f32, {2});
  CHECK(message_of([&] { kernels::quantize_rows(code.view(), scale.view(), x.view()); }) ==
        "TT-DTYPE-02: quantize_rows: x is f64\n  rule: f32, bf16 or f16");
  CHECK(message_of([&] { kernels::quantize_rows(wide.view(), scale.view(), y.view()); }) ==
        "TT-DTYPE-02: quantize_rows: codes of i32\n  rule: codes are i8, or u8 for fp8");
}
