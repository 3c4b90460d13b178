// Image operands in the requested layout: in place if they have it, else copied, and results copied back.
#include <support/array.hpp>

#include <tinytorch/backend/cpu/conv/images.hpp>

using namespace test;
using namespace tinytorch::backend::cpu;

TEST_CASE("an operand is used in place, or copied to the requested layout") {
  for (const Layout from : {Layout::dense, Layout::channels_last, Layout::gaps, Layout::transposed}) {
    for (const DType dtype : {f32, bf16}) {
      for (const ImageLayout layout : {ImageLayout::channels_first, ImageLayout::channels_last}) {
        Array a = Array::random(dtype, {2, 3, 4, 5}, 1, -1, 1, from);
        const ImageOperand<float> operand(a.view(), layout, false);
        const Images<float> images = operand.images();
        const bool lies_so =
            dtype == f32 &&
            from == (layout == ImageLayout::channels_first ? Layout::dense : Layout::channels_last);
        CHECK((static_cast<void*>(images.data) == a.view().data) == lies_so);
        CHECK((layout == ImageLayout::channels_first ? images.pixel : images.channel) == 1);
        std::vector<double> found;
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t h = 0; h < 4; ++h)
              for (int64_t w = 0; w < 5; ++w)
                found.push_back(static_cast<double>(images.at(n, c, h)[w * images.pixel]));
        CHECK(found == a.values());

        Array result(dtype, {2, 3, 4, 5}, from);
        const ImageOperand<float> written(result.view(), layout, true);
        const Images<float> to = written.images();
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t h = 0; h < 4; ++h)
              for (int64_t w = 0; w < 5; ++w)
                to.at(n, c, h)[w * to.pixel] = images.at(n, c, h)[w * images.pixel];
        written.write_back();
        CHECK(result.values() == a.values());
      }
    }
  }
}

TEST_CASE("is_channel_finite finds one infinity or NaN, also in rows with gaps") {
  for (const Layout layout : {Layout::dense, Layout::channels_last}) {
    std::vector<double> values(2 * 3 * 4 * 5, 1.0);
    values[1 * 60 + 2 * 20 + 19] = static_cast<double>(INFINITY);
    values[0 * 60 + 1 * 20 + 7] = static_cast<double>(NAN);
    Array a = Array::from(f32, {2, 3, 4, 5}, values, layout);
    tinytorch::backend::View part = a.view();
    part.shape[3] = 4;  // without the last column, which has the infinity
    for (tinytorch::backend::View v : {a.view(), part}) {
      const ImageOperand<float> operand(v, ImageLayout::channels_first, false);
      for (int64_t n = 0; n < 2; ++n)
        for (int64_t c = 0; c < 3; ++c)
          CHECK(is_channel_finite(operand.images(), n, c) ==
                !((n == 1 && c == 2 && v.shape[3] == 5) || (n == 0 && c == 1)));
    }
  }
}
