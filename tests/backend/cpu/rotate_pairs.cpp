#include <support/array.hpp>
#include <support/pair_rotation.hpp>

#include <tinytorch/backend/cpu/rotate_pairs.hpp>

using namespace test;
using tinytorch::backend::View;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("vectors are rotated by the angles of their tokens, in every layout and dtype, and back") {
  constexpr int64_t kRows = 50;
  for (const RotatedShape& s : rotated_shapes()) {
    Array cos = Array::from(f32, {kRows, s.half}, some_angles(kRows, s.half, false)),
          sin = Array::from(f32, {kRows, s.half}, some_angles(kRows, s.half, true));
    std::vector<double> drawn, following;
    for (int64_t t = 0; t < s.shape[2]; ++t) {
      drawn.push_back(static_cast<double>(t * 17 % kRows)), following.push_back(static_cast<double>(t + 3));
    }
    Array positions = Array::from(i64, {s.shape[2]}, drawn);
    for (const DType dtype : kFloating) {
      for (const Layout layout : kLayouts) {
        for (const bool each : {false, true}) {
          for (const bool inverse : {false, true}) {
            INFO(s.shape.str(), ", half ", s.half, ", dtype ", static_cast<int>(dtype), ", layout ",
                 static_cast<int>(layout), ", each ", each, ", inverse ", inverse);
            Array x = Array::random(dtype, s.shape, 1, -2, 2, layout), y(dtype, s.shape, layout);
            kernels::rotate_pairs(y.view(), x.view(),
                                  {cos.view(), sin.view(), each ? positions.view() : View{}, 3, inverse});
            check_close(y.values(),
                        rotated(x.values(), s, cos.values(), sin.values(), each ? drawn : following, inverse),
                        dtype, 4);
          }
        }
      }
    }
  }
}

TEST_CASE("the heads of a packed projection are rotated where they lie, and those beyond them stay") {
  const RotatedShape s{{2, 5, 3, 8}, 4};
  Array cos = Array::from(f32, {9, 4}, some_angles(9, 4, false)),
        sin = Array::from(f32, {9, 4}, some_angles(9, 4, true)), packed = Array::random(f32, {2, 3, 7, 8}, 3),
        y(f32, s.shape);
  View heads = packed.view();  // [B, T, heads, D] -> [B, 5, T, D]
  heads.shape = s.shape;
  heads.strides = {3 * 7 * 8, 8, 7 * 8, 1};
  std::vector<double> x;
  const std::vector<double> all = packed.values();
  for (size_t b = 0; b < 2; ++b)
    for (size_t h = 0; h < 5; ++h)
      for (size_t t = 0; t < 3; ++t)
        for (size_t d = 0; d < 8; ++d) x.push_back(all[((b * 3 + t) * 7 + h) * 8 + d]);
  kernels::rotate_pairs(y.view(), heads, {cos.view(), sin.view(), {}, 6});
  check_close(y.values(), rotated(x, s, cos.values(), sin.values(), {6, 7, 8}, false), f32, 4);
  CHECK(packed.values() == all);
}
