// Linear layers with 8-bit codes on CUDA: every path against the definition, and its traffic.
#include <span>
#include <support/codes_products.hpp>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

namespace {

using backend::View;
using kernels::Int8Path;

// Sets the path of products of i8 until the end of the C++ scope.
struct OnPath {
  explicit OnPath(Int8Path path) { kernels::use_int8_path(path); }
  ~OnPath() { kernels::use_int8_path(Int8Path::automatic); }
};
// cuBLASLt last, which the emulator lacks.
constexpr Int8Path kAllPaths[] = {Int8Path::automatic, Int8Path::tiles, Int8Path::small_tiles,
                                  Int8Path::warpgroups, Int8Path::blas};
const std::span<const Int8Path> kPaths(kAllPaths, kEmulated ? 4 : 5);

struct Call {
  DeviceArray x, w, x_scale, w_scale, bias, out;
  Call(const CodesCase& c, const CodesOperands& o, DType codes, Layout layout, Layout of_out)
      : x(DeviceArray::from(codes, {c.M, c.K}, o.x, layout)),
        w(DeviceArray::from(codes, {c.N, c.K}, o.w, layout)),
        x_scale(DeviceArray::from(f32, {static_cast<int64_t>(o.x_scale.size())}, o.x_scale)),
        w_scale(DeviceArray::from(f32, {static_cast<int64_t>(o.w_scale.size())}, o.w_scale)),
        bias(DeviceArray::from(c.bias, {static_cast<int64_t>(o.bias.size())}, o.bias)),
        out(c.out, {c.M, c.N}, of_out) {}
  void run(const CodesCase& c, DType codes) {
    const View scale = c.scaled ? x_scale.view() : View{}, of_w = c.scaled ? w_scale.view() : View{},
               add = c.biased ? bias.view() : View{};
    (codes == i8 ? kernels::linear_int8 : kernels::linear_fp8)(out.view(), x.view(), w.view(), scale, of_w,
                                                               add, c.fn);
  }
};

void check(const CodesCase& c, DType codes, uint64_t seed, Layout layout = Layout::dense,
           Layout of_out = Layout::dense, bool extreme = false) {
  INFO(c.M, " x ", c.N, " x ", c.K, ", result ", std::string(name_of(c.out)), ", layout ",
       static_cast<int>(layout), ", activation ", static_cast<int>(c.fn), ", path ",
       static_cast<int>(kernels::int8_path()));
  const CodesOperands o = codes_operands(c, codes, seed, extreme);
  Call call(c, o, codes, layout, of_out);
  call.run(c, codes);
  std::vector<double> bound;
  const std::vector<double> want = codes_product(c, o, codes, bound);
  check_codes_result(c, codes, call.out.values(), want, bound);
  if (of_out == Layout::dense || of_out == Layout::offset) CHECK(call.out.untouched_around());
}

constexpr CodesCase kSums{1, 1, 1, i32, true, true, false, false};
CodesCase sums(int64_t M, int64_t N, int64_t K) {
  CodesCase c = kSums;
  c.M = M, c.N = N, c.K = K;
  return c;
}
constexpr Activation kAll[] = {Activation::none, Activation::relu, Activation::silu, Activation::gelu,
                               Activation::gelu_tanh};

}  // namespace

TEST_CASE("sums of i8 are exact on every path, for partial tiles, odd depths and every layout" *
          needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  constexpr std::array<int64_t, 3> kSizes[] = {
      {5, 1, 1},     {5, 3, 16},      {7, 33, 100},    {63, 65, 64},    {65, 63, 128},
      {64, 64, 256}, {127, 129, 144}, {129, 257, 129}, {130, 300, 400}, {257, 70, 48}};
  for (const Int8Path path : kPaths) {
    const OnPath on(path);
    for (const auto& [M, N, K] : kSizes) {
      if (left_out(2)) continue;
      check(sums(M, N, K), i8, fresh.next());
      if (path != Int8Path::automatic && kEmulated) continue;  // the layout is the launcher's affair
      check(sums(M, N, K), i8, fresh.next(), kLayouts[fresh.next() % 3], kLayouts[fresh.next() % 3]);
      check(sums(M, N, K), i8, fresh.next(), Layout::offset, Layout::offset);
    }
    check(sums(66, 130, 300), i8, 1, Layout::dense, Layout::dense, true);
  }
}

TEST_CASE("one to four rows use dp4a, for aligned and other depths" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  for (int64_t M = 1; M <= 4; ++M) {
    for (const auto& [N, K] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 15}, {17, 16}, {33, 100}, {16, 513}, {5, 2064}}) {
      check(sums(M, N, K), i8, fresh.next());
      check(sums(M, N, K), i8, fresh.next(), kLayouts[fresh.next() % 3], kLayouts[fresh.next() % 3]);
      check(sums(M, N, K), i8, fresh.next(), Layout::offset, Layout::offset);
      check({M, N, K, bf16, true, true, true, true, Activation::gelu_tanh}, i8, fresh.next());
    }
  }
}

TEST_CASE("-128 times -128, no depth, and a long depth" * needs_devices()) {
  for (const Int8Path path : kPaths) {
    const OnPath on(path);
    for (const int64_t M : {2, 6}) {
      for (const int64_t K : {0, 1, 32, 131'071}) {
        if (K > 1000 && kEmulated && (M == 2) != (path == Int8Path::automatic)) continue;
        if (K > 1000 && left_out(4)) continue;  // seconds for each path
        check(sums(M, 3, K), i8, 9, Layout::dense, Layout::dense, true);
      }
    }
  }
  check({7, 4, 0, f32}, i8, 1);
  check({7, 4, 0, f32}, u8, 1);
  check({0, 4, 3, f32}, i8, 1);
  check({4, 0, 3, f32}, i8, 1);
}

TEST_CASE("scales, bias and activation are applied to complete sums, for every dtype" * needs_devices()) {
  Fresh fresh;
  INFO(fresh.text());
  uint64_t turn = 0;
  for (const DType codes : {i8, u8}) {
    for (const Int8Path path : kPaths) {
      if (codes == u8 && path != Int8Path::automatic) continue;
      const OnPath on(path);
      for (const DType out : {f32, bf16, f16}) {
        for (const Activation fn : kAll) {
          const uint64_t t = ++turn;
          const int64_t M = t % 2 ? 70 : 33, N = t % 3 ? 72 : 131, K = t % 4 ? 160 : 77;
          check({M, N, K, out, t % 2 == 0, t % 4 < 2, true, t % 5 != 0, fn, t % 3 ? f32 : bf16}, codes,
                fresh.next(), kLayouts[t % 3], t % 7 ? Layout::dense : kLayouts[t % 3]);
        }
      }
      check({33, 70, 64, f32, true, true, false, false}, codes, fresh.next());
    }
  }
}

TEST_CASE("a row of x has the same bits alone and among others, on one path" * needs_devices()) {
  const OnPath on(Int8Path::tiles);
  const CodesCase c{20, 40, 96, bf16};
  CodesOperands o = codes_operands(c, i8, 4);
  Call all(c, o, i8, Layout::dense, Layout::dense);
  all.run(c, i8);
  const auto together = all.out.values();
  CodesCase some = c;
  some.M = 6;
  o.x.erase(o.x.begin(), o.x.begin() + 14 * c.K);
  o.x_scale.erase(o.x_scale.begin(), o.x_scale.begin() + 14);
  Call few(some, o, i8, Layout::dense, Layout::dense);
  few.run(some, i8);
  CHECK(few.out.values() == std::vector<double>(together.begin() + 14 * c.N, together.end()));
}

TEST_CASE("a NaN scale gives a row of NaN, and operands that do not fit are refused on CUDA" *
          needs_devices()) {
  for (const int64_t M : {2, 40}) {
    const CodesCase c{M, 5, 32};
    CodesOperands o = codes_operands(c, i8, 1);
    o.x_scale[1] = NAN;
    Call call(c, o, i8, Layout::dense, Layout::dense);
    call.run(c, i8);
    const auto out = call.out.values();
    for (size_t i = 0; i < out.size(); ++i) CHECK(std::isnan(out[i]) == (i / 5 == 1));
  }
  DeviceArray x(i8, {2, 4}), w(i8, {3, 4}), out(f32, {2, 3}), scale(f32, {3});
  CHECK(message_of([&] {
          kernels::linear_int8(out.view(), x.view(), w.view(), scale.view(), {}, {}, Activation::none);
        }).find("TT-SHAPE-02: linear_int8: x [2, 4], weight [3, 4]") == 0);
}

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/emulator.hpp>

TEST_CASE("traffic: no bank conflicts in the slabs, whole sectors, weights read once by dp4a") {
  namespace sim = tinytorch::backend::cuda::sim;
  const auto counted = [](const CodesCase& c) {
    const CodesOperands o = codes_operands(c, i8, 8);
    Call call(c, o, i8, Layout::dense, Layout::dense);
    sim::clear_counts();
    sim::set_counting(true);
    call.run(c, i8);
    sim::set_counting(false);
    const auto all = sim::counts();
    REQUIRE(all.size() == 1);
    return all[0];
  };
  for (const Int8Path path : {Int8Path::tiles, Int8Path::small_tiles, Int8Path::warpgroups}) {
    const OnPath on(path);
    for (const DType out : {i32, bf16}) {
      INFO("path ", static_cast<int>(path), " result ", std::string(name_of(out)));
      CodesCase c = sums(128, 256, 512);
      c.out = out, c.scaled = out != i32;
      const sim::KernelCounts k = counted(c);
      CHECK(static_cast<double>(k.wavefronts) <= 1.1 * static_cast<double>(k.ideal_wavefronts));
      CHECK(static_cast<double>(k.sectors) <= 1.1 * static_cast<double>(k.ideal_sectors));
      const int64_t rows = path == Int8Path::small_tiles ? 4 * 128 + 2 * 256
                           : path == Int8Path::tiles     ? 2 * 128 + 256
                                                         : 384;
      CHECK(k.bytes_read >= static_cast<uint64_t>(rows * 512));
      CHECK(k.bytes_read <= static_cast<uint64_t>(rows * 512 + 2 * 128 * 256));  // and scales
      CHECK(k.bytes_written == static_cast<uint64_t>(128 * 256) * tinytorch::size_of(out));
    }
  }
  const sim::KernelCounts k = counted(sums(1, 64, 2048));
  CHECK(static_cast<double>(k.sectors) <= 1.05 * static_cast<double>(k.ideal_sectors));
  CHECK(k.bytes_read == uint64_t{64 * 2048 + 32 * 2048});  // the weight, and x for every two rows
}
#endif

#else
TEST_CASE("gemm_int8 on CUDA: the build has no CUDA" * doctest::skip()) {}
#endif
