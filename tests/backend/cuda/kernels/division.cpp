#include <support/fresh.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

TEST_CASE("divisions of every dtype and layout equal the definition" * needs_devices()) {
  using tinytorch::backend::Division;
  Fresh fresh;
  INFO(fresh.text());
  for (const DType t : {f32, f64, bf16, f16, i8, u8, i32, i64}) {
    for (const Shape& shape : {Shape{1}, Shape{33}, Shape{257}, Shape{5, 33}, Shape{3, 8, 31}}) {
      for (const Division fn : {Division::floor, Division::remainder, Division::fmod}) {
        INFO(static_cast<int>(fn), " ", text_of(t), " ", shape.str());
        const int64_t n = shape.numel();
        std::vector<double> x = fresh.whole(n, t == u8 ? 0 : -100, 100),
                            y = fresh.whole(n, t == u8 ? 1 : -9, 9);
        for (double& v : y) v = v == 0 ? 5 : v;
        if (is_floating(t)) x[0] = kNan;
        const Layout layout = kLayouts[fresh.next() % 3];
        DeviceArray a = DeviceArray::from(t, shape, x, layout), b = DeviceArray::from(t, shape, y);
        DeviceArray out(t, shape, kLayouts[fresh.next() % 3]);
        kernels::division(fn, out.view(), a.view(), b.view());
        std::vector<double> want;
        for (size_t i = 0; i < x.size(); ++i) {
          double value = fn == Division::floor ? std::floor(x[i] / y[i]) : std::fmod(x[i], y[i]);
          if (fn == Division::remainder && value != 0 && (value < 0) != (y[i] < 0)) value += y[i];
          want.push_back(value);
        }
        check_close(out.values(), want, t, 0);
      }
    }
  }
}

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
