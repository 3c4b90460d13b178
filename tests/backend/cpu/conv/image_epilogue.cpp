// The blocks that a convolution gives its epilogue: each element is in one block, and is complete there.
#include <support/array.hpp>

#include <atomic>
#include <tinytorch/backend/cpu/conv.hpp>
#include <tinytorch/backend/cpu/conv/image_epilogue.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace cpu_kernels = tinytorch::backend::cpu;
using cpu_kernels::ImageBlock;
using cpu_kernels::ImageEpilogue;

TEST_CASE("an epilogue without a function is false and does nothing; one with a function calls it") {
  ImageEpilogue().operator()({0, 0, 1, 0, 1});
  CHECK_FALSE(static_cast<bool>(ImageEpilogue()));
  ImageBlock seen{};
  const auto f = [&](const ImageBlock& b) { seen = b; };
  const ImageEpilogue epilogue(f);
  CHECK(static_cast<bool>(epilogue));
  epilogue({1, 2, 3, 4, 5});
  CHECK((seen.n == 1 && seen.c0 == 2 && seen.c1 == 3 && seen.i0 == 4 && seen.i1 == 5));
}

TEST_CASE(
    "blocks cover each element once, when the result has it: all kernels, layouts, threads and dtypes") {
  struct Case {
    int64_t N, C, H, W, M, side, stride, padding, groups;
  };
  const Case cases[] = {{1, 1, 1, 1, 1, 1, 1, 0, 1},      {2, 3, 7, 5, 4, 3, 1, 1, 1},
                        {70, 2, 5, 5, 3, 2, 1, 0, 1},    // small images share a frame
                        {1, 2, 40, 67, 15, 3, 1, 1, 1},  // several blocks of one image
                        {2, 12, 9, 11, 70, 3, 1, 1, 1},  // converted to channels-last
                        {1, 64, 33, 31, 100, 3, 2, 1, 1}, {3, 40, 6, 5, 600, 1, 1, 0, 1},
                        {2, 8, 9, 9, 6, 3, 1, 1, 2},      {2, 16, 19, 18, 16, 3, 1, 1, 16},
                        {2, 16, 9, 8, 32, 3, 2, 1, 16},   {3, 5, 1, 1, 7, 1, 1, 0, 1}};
  const int threads = tinytorch::thread_count();
  for (const int count : {1, 3}) {
    tinytorch::set_thread_count(count);
    for (const Case& c : cases) {
      for (const DType dtype : {f32, f64, bf16}) {
        for (const Layout layout : {Layout::dense, Layout::channels_last}) {
          const tinytorch::backend::Window2d window{c.side, c.side, c.stride, c.padding, 1};
          const int64_t OH = tinytorch::backend::window_outputs(c.H, c.side, window),
                        OW = tinytorch::backend::window_outputs(c.W, c.side, window);
          Array x = Array::random(dtype, {c.N, c.C, c.H, c.W}, 1, -1, 1, layout);
          Array w = Array::random(dtype, {c.M, c.C / c.groups, c.side, c.side}, 2);
          Array b = Array::random(dtype, {c.M}, 3);
          Array want(dtype, {c.N, c.M, OH, OW}, layout), got(dtype, want.shape(), layout);
          cpu_kernels::conv2d(want.view(), x.view(), w.view(), b.view(), window, c.groups);
          const std::vector<double> values = want.values();
          std::vector<std::atomic<int>> calls(values.size());
          std::atomic<int64_t> wrong{0};
          const tinytorch::backend::View out = got.view();
          const auto check = [&](const ImageBlock& block) {
            tinytorch::backend::View part = out;
            part.data = out.as<char>() +
                        (block.n * out.strides[0] + block.c0 * out.strides[1] + block.i0 * out.strides[2]) *
                            static_cast<int64_t>(size_of(dtype));
            part.shape = {1, block.c1 - block.c0, block.i1 - block.i0, OW};
            std::vector<double> now(static_cast<size_t>(part.numel()));
            tinytorch::backend::pack(now.data(), part, 0, part.numel());
            size_t k = 0;
            for (int64_t m = block.c0; m < block.c1; ++m) {
              for (int64_t i = block.i0; i < block.i1; ++i) {
                for (int64_t j = 0; j < OW; ++j, ++k) {
                  const auto at = static_cast<size_t>(((block.n * c.M + m) * OH + i) * OW + j);
                  ++calls[at];
                  wrong += now[k] == values[at] ? 0 : 1;
                }
              }
            }
          };
          cpu_kernels::conv2d(got.view(), x.view(), w.view(), b.view(), window, c.groups,
                              ImageEpilogue(check));
          CHECK(wrong == 0);
          CHECK(std::ranges::all_of(calls, [](const std::atomic<int>& n) { return n == 1; }));
          CHECK(got.values() == values);
        }
      }
    }
  }
  tinytorch::set_thread_count(threads);
}
