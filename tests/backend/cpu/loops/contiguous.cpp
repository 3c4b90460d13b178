#include <support/array.hpp>

#include <tinytorch/backend/cpu/loops/contiguous.hpp>

using namespace test;

TEST_CASE("a contiguous input has row-major order, and write_back returns an output to its layout") {
  for (DType dtype : kFloating) {
    for (Layout layout : {Layout::dense, Layout::gaps}) {
      Array x = Array::random(dtype, {3, 5, 7}, 1, -2, 2, layout);
      Array y(dtype, {3, 5, 7}, layout);
      backend::cpu::dispatch_floating(dtype, [&]<class T>(T*) {
        const backend::cpu::ContiguousInput<T> in(x.view());
        backend::cpu::ContiguousOutput<T> out(y.view());
        for (int i = 0; i < 105; ++i) {
          CHECK(static_cast<double>(in.data()[i]) == x.values()[static_cast<size_t>(i)]);
          out.data()[i] = in.data()[i];
        }
        out.write_back();
      });
      CHECK(y.values() == x.values());
    }
  }
}
