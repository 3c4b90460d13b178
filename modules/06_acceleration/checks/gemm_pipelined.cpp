#include <06_acceleration/checks/ladder_product.hpp>
#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/async_copies.hpp>
#endif

using namespace course;

namespace {

// In the emulator, copies are made when a thread waits for them.
struct DelayedCopies {
#if TINYTORCH_CUDA_SIM
  DelayedCopies() { backend::cuda::sim::delay_copies(true); }
  ~DelayedCopies() { backend::cuda::sim::delay_copies(false); }
  static int64_t waits(int groups) { return backend::cuda::sim::waits_with(groups); }
#else
  static int64_t waits(int) { return 0; }
#endif
};

void check(ProductCase c, int stages = 3) {
  const DelayedCopies delayed;
  c.dtype = bf16;
  check_ladder(("gemm_pipelined with " + std::to_string(stages) + " stages").c_str(), c,
               [&](const View& out, const View& a, const View& b) {
                 backend::cuda::gemm_pipelined(out, a, b, stages);
               });
}

}  // namespace

TEST_CASE("6.11 one tile of one stage") {
  check({.M = 64, .N = 64, .K = 32});
  check({.M = 8, .N = 8, .K = 8});
}

TEST_CASE("6.11 depths shorter than the pipeline, and longer") {
  for (const int stages : {2, 3, 4})
    for (const int64_t K : {8, 32, 40, 64, 104, 200}) check({.M = 9, .N = 16, .K = K}, stages);
}

TEST_CASE("6.11 several tiles of the result, the last ones partial") {
  check({.M = 65, .N = 72, .K = 72});
  check({.M = 3, .N = 136, .K = 40}, 2);
}

TEST_CASE("6.11 matrices of any layout, parts that are not aligned, rows of any width") {
  for (const Layout layout : kLayouts)
    check({.M = 9, .N = 16, .K = 8, .a = layout, .b = layout, .out = layout});
  for (const int64_t skipped : {1, 8}) check({.M = 9, .N = 16, .K = 40, .skipped = skipped});
  check({.M = 9, .N = 16, .K = 40, .upside_down = true});
  check({.M = 5, .N = 12, .K = 12, .behind = 4});
  check({.M = 9, .N = 12, .K = 16, .behind = 4});
  check({.M = 5, .N = 7, .K = 9});
  check({.M = 5, .N = 8, .K = 36});
}

TEST_CASE("6.11 the same bits with 2, 3 and 4 stages") {
  const int64_t M = 40, N = 48, K = 168;
  Values a = Values::random(bf16, {M, K}).on_device(), b = Values::random(bf16, {K, N}).on_device();
  Numbers first;
  for (const int stages : {2, 3, 4}) {
    const DelayedCopies delayed;
    Values out = Values(f32, {M, N}).on_device();
    backend::cuda::gemm_pipelined(out.view(), a.view(), b.view(), stages);
    if (first.empty()) first = out.numbers();
    expect("the bits of 2 stages and of " + shown(stages), out.numbers() == first);
  }
}

TEST_CASE("6.11 no terms give 0, an empty result needs no kernel, and what does not fit is refused") {
  check({.M = 3, .N = 8, .K = 0});
  check({.M = 0, .N = 8, .K = 8});
  check_ladder_refusals(bf16, [](const View& out, const View& a, const View& b) {
    backend::cuda::gemm_pipelined(out, a, b, 3);
  });
  Values x = Values::random(bf16, {8, 8}).on_device(), out = Values(f32, {8, 8}).on_device();
  for (const int stages : {1, 5})
    expect_throws("TT-RANGE-08", shown(stages) + " stages",
                  [&] { backend::cuda::gemm_pipelined(out.view(), x.view(), x.view(), stages); });
}

TEST_CASE("6.11 while a stage is multiplied, the others are on their way") {
  if (!kCounts) return expect("nothing is counted on a GPU", true);
  for (const int stages : {2, 3, 4}) {
    const DelayedCopies delayed;
    const Counted n = count_ladder(64, 64, 256, bf16, [&](const View& out, const View& a, const View& b) {
      backend::cuda::gemm_pipelined(out, a, b, stages);
    });
    expect("bytes read of [64, 256] and [256, 64], for one tile: at most 2.5 times their memory",
           n.bytes_read <= 2.5 * 2 * 2 * 64 * 256);
    expect_equal(shown(stages) + " stages: waits of 128 threads in 8 steps, behind which " +
                     shown(stages - 2) + " groups are on their way",
                 DelayedCopies::waits(stages - 2), int64_t{128 * 8});
  }
}
