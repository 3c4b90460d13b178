#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/pair_rotation.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("vectors are rotated by the angles of their tokens, in every layout and dtype, and back" *
          needs_devices()) {
  using tinytorch::backend::View;
  constexpr int64_t kRows = 50;
  Fresh fresh;
  INFO(fresh.text());
  for (const RotatedShape& s : rotated_shapes()) {
    DeviceArray cos = DeviceArray::from(f32, {kRows, s.half}, some_angles(kRows, s.half, false)),
                sin = DeviceArray::from(f32, {kRows, s.half}, some_angles(kRows, s.half, true));
    const std::vector<double> drawn = fresh.whole(s.shape[2], 0, kRows);
    std::vector<double> following;
    for (int64_t t = 0; t < s.shape[2]; ++t) following.push_back(static_cast<double>(t + 3));
    DeviceArray positions = DeviceArray::from(i64, {s.shape[2]}, drawn);
    for (const DType dtype : kFloating) {
      for (const Layout layout : kLayouts) {
        if (test::left_out(2)) continue;
        const bool each = fresh.next() / 0x10001 % 2 == 0, inverse = fresh.next() / 0x20002 % 2 == 0;
        INFO(s.shape.str(), ", half ", s.half, ", dtype ", text_of(dtype), ", layout ",
             static_cast<int>(layout), ", each ", each, ", inverse ", inverse);
        DeviceArray x = fresh.array(dtype, s.shape, -2, 2, layout), y(dtype, s.shape, layout);
        kernels::rotate_pairs(y.view(), x.view(),
                              {cos.view(), sin.view(), each ? positions.view() : View{}, 3, inverse});
        check_close(y.values(),
                    rotated(x.values(), s, cos.values(), sin.values(), each ? drawn : following, inverse),
                    dtype, 4, 4);
      }
    }
  }
}

TEST_CASE("a position outside of the tables gives NaN, and nothing beyond them is read" * needs_devices()) {
  const RotatedShape s{{1, 2, 3, 16}, 8};
  DeviceArray cos = DeviceArray::from(f32, {4, 8}, some_angles(4, 8, false)),
              sin = DeviceArray::from(f32, {4, 8}, some_angles(4, 8, true)),
              positions = DeviceArray::from(i64, {3}, {2, 4, -1}),
              x = DeviceArray::from(f32, s.shape, std::vector<double>(96, 1.0)), y(f32, s.shape);
  kernels::rotate_pairs(y.view(), x.view(), {cos.view(), sin.view(), positions.view()});
  const std::vector<double> got = y.values();
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i / 16 % 3 != 0));
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
