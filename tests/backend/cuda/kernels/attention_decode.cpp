// attention_decode/paged.cuh, attention_decode.cuh and kv_append.cuh: attention to a cache.
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <support/kv_kernels.hpp>

using namespace test;

#if TINYTORCH_WITH_CUDA

using OnDevice =
    KvKernels<DeviceArray, kernels::kv_append, kernels::attention_decode, kernels::append_and_attend>;

TEST_CASE("attention to a cache equals the definition: every kind, dtype, grouping and length" *
          needs_devices()) {
  OnDevice::check_kinds(few_cases());
}

TEST_CASE("lengths at the borders of splits and pages; sequences without rows; windows" * needs_devices()) {
  for (const KvFormat format : {KvFormat::of_dtype, KvFormat::fp8, KvFormat::i4})
    OnDevice::check_borders(few_cases(), format);
}

TEST_CASE("heads up to 256 features, in words and by element" * needs_devices()) {
  uint64_t seed = 40;
  for (const int64_t D : {16, 24, 100, 128, 160, 256, 255}) {
    if (test::left_out(3)) continue;
    for (const auto& [cached, format] : {std::pair{f32, KvFormat::of_dtype},
                                         {bf16, KvFormat::of_dtype},
                                         {i8, KvFormat::of_dtype},
                                         {f32, KvFormat::fp8},
                                         {f32, KvFormat::i4}}) {
      KvCase c{.kind = KvKind::paged, .dtype = cached, .format = format, .past = {280}, .rows = {1}};
      c.heads = c.groups = 2, c.head_size = D, c.seed = ++seed;
      OnDevice::check(c);
      c.groups = 1, c.rows = {3};
      OnDevice::check(c);
    }
  }
}

TEST_CASE("queries of 16 bits, on tensor cores: heads of whole words, groups, windows, rings" *
          needs_devices() * test::long_on_emulator()) {
  OnDevice::check_narrow();
}

TEST_CASE("steps of long and short sequences, with rows that pad them and with a bound that none reaches" *
          needs_devices()) {
  OnDevice::check_mixed();
}

TEST_CASE("the bits of a result depend neither on pages, the batch nor the length of the step" *
          needs_devices()) {
  OnDevice::check_bits({16, 1000}, few_cases());
}

TEST_CASE("a block that computes several splits in turn changes no bit" * needs_devices() *
          test::long_on_emulator()) {
  OnDevice::check_bits_of_many(std::max(10, 3 * tinytorch::backend::cuda::properties(0).multiprocessors));
}

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/emulator.hpp>

TEST_CASE("a step moves at most 1.15 times the bytes of the keys and values that it attends to" *
          needs_devices() * test::long_on_emulator()) {
  namespace sim = tinytorch::backend::cuda::sim;
  struct Numbers {
    DType dtype;
    KvFormat format;
    DType queries;
  };
  for (const Numbers& n : {Numbers{f32, KvFormat::of_dtype, f32},
                           {bf16, KvFormat::of_dtype, bf16},
                           {i8, KvFormat::of_dtype, bf16},
                           {f32, KvFormat::fp8, bf16},
                           {f32, KvFormat::i4, bf16}}) {
    for (const int64_t groups : {1, 2, 8}) {
      if (n.dtype == f32 && n.queries == f32 && groups == 1) continue;  // it reads again for each four rows
      KvCase c{.kind = KvKind::paged,
               .dtype = n.dtype,
               .format = n.format,
               .queries = n.queries,
               .past = {700, 300, 511, 1000},
               .rows = {1, 1, 1, 1}};
      c.heads = 8, c.groups = groups, c.head_size = 128;
      INFO("cache ", text_of(n.dtype), " ", name_of(n.format), ", heads of keys ", groups);
      KvScene<DeviceArray> scene(c);
      scene.fill(kernels::kv_append);
      const Shape shape{scene.rows(), c.heads, c.head_size};
      DeviceArray q = DeviceArray::random(c.queries, shape, 3), out(c.queries, shape);
      const backend::KvView kv = scene.view(c.past, c.rows);
      sim::clear_counts();
      sim::set_counting(true);
      kernels::attention_decode(out.view(), q.view(), kv, 0.1, 0);
      sim::set_counting(false);
      uint64_t read = 0, written = 0;
      for (const sim::KernelCounts& k : sim::counts()) read += k.bytes_read, written += k.bytes_written;
      const int64_t tokens = 700 + 300 + 511 + 1000 + 4,
                    row = backend::kv_row_layout(n.format, n.dtype, c.head_size).bytes();
      const auto bytes = static_cast<double>(2 * tokens * groups * row);
      CHECK(static_cast<double>(read) >= bytes);
      CHECK(static_cast<double>(read + written) <= 1.15 * bytes);
    }
  }
}
#endif

#else
TEST_CASE("without CUDA there are no kernels to test" * doctest::skip()) {}
#endif
