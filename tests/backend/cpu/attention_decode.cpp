#include <tinytorch/backend/cpu/attention_decode.hpp>

#include <support/few.hpp>
#include <support/kv_kernels.hpp>
#include <tinytorch/backend/cpu/kv_append.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

using OnCpu = KvKernels<Array, kernels::kv_append, kernels::attention_decode>;

TEST_CASE("attention to a cache equals the definition: every kind, dtype, grouping and length") {
  OnCpu::check_kinds(false);
}

TEST_CASE("lengths at the borders of blocks, splits and pages; sequences without rows; windows") {
  for (const KvFormat format : {KvFormat::of_dtype, KvFormat::fp8, KvFormat::i4})
    OnCpu::check_borders(false, format);
}

TEST_CASE("steps of long and short sequences, with rows that pad them and with a bound that none reaches") {
  OnCpu::check_mixed();
}

TEST_CASE("the bits of a result depend neither on pages, the batch nor the length of the step") {
  OnCpu::check_bits({1, 16, 64, 1000});
}

TEST_CASE("so they do at every head size, whole vectors or not") {
  for (const int64_t head_size : some_of<int64_t>({1, 3, 6, 8, 12, 20, 24, 36, 100}, 3)) {
    for (const auto& [dtype, format] : {std::pair{f32, KvFormat::of_dtype},
                                        {f64, KvFormat::of_dtype},
                                        {bf16, KvFormat::of_dtype},
                                        {f16, KvFormat::of_dtype},
                                        {i8, KvFormat::of_dtype},
                                        {f32, KvFormat::fp8},
                                        {f32, KvFormat::i4}}) {
      CAPTURE(head_size);
      CAPTURE(name_of(dtype));
      CAPTURE(static_cast<int>(format));
      KvCase c{.dtype = dtype, .format = format, .past = {700}, .rows = {1}, .heads = 3, .groups = 1};
      c.queries = dtype == f64 ? f64 : f32, c.head_size = head_size, c.seed = 5;
      OnCpu::check_bits_of(c, {16});
    }
  }
}

TEST_CASE("the bits of a result do not depend on the number of threads") {
  const int threads = thread_count();
  for (const int64_t past : {40, 700, 5000}) {
    const KvCase c{.past = {past, 3}, .rows = {1, 4}, .heads = 4, .groups = 1, .head_size = 40, .seed = 9};
    const std::vector<double> usual = OnCpu::attended(c);
    for (const int n : {1, 3, 16}) {
      set_thread_count(n);
      CHECK(OnCpu::attended(c) == usual);
    }
    set_thread_count(threads);
  }
}

TEST_CASE("NaN and infinity reach the rows that see them, and no others") {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    const KvCase c{.past = {60}, .rows = {8}, .heads = 1, .groups = 1, .head_size = 8, .seed = 4};
    for (const bool in_keys : {true, false}) {
      KvScene<Array> scene(c);
      scene.fill(kernels::kv_append);
      float* const memory = (in_keys ? scene.keys() : scene.values()).view().as<float>();
      memory[64 * 8 + 3] = static_cast<float>(bad);  // of the token at position 64
      Array q = Array::random(f32, {8, 1, 8}, 3, 0.5, 1), out(f32, {8, 1, 8});
      kernels::attention_decode(out.view(), q.view(), scene.view(c.past, c.rows), 1, 0);
      const std::vector<double> y = out.values();
      for (size_t i = 0; i < y.size(); ++i) {
        const bool sees = i / 8 >= 4 && (in_keys || i % 8 == 3);
        CHECK(std::isfinite(y[i]) == !sees);
      }
    }
  }
}

TEST_CASE("a row of a sequence without tokens gives zeros") {
  const KvCase c{.past = {60}, .rows = {1}, .heads = 2, .groups = 1, .head_size = 8};
  KvScene<Array> scene(c);
  scene.fill(kernels::kv_append);
  Array q = Array::random(f32, {1, 2, 8}, 3), out(f32, {1, 2, 8});
  kernels::attention_decode(out.view(), q.view(), scene.view({60}, {1}), 1,
                            0);  // leaves sums in scratch memory
  kernels::attention_decode(out.view(), q.view(), scene.view({-1}, {1}), 1, 0);
  CHECK(out.values() == std::vector<double>(16, 0));
}

TEST_CASE("queries and caches of dtypes that do not fit are refused; a step without rows is accepted") {
  const KvCase c{.dtype = f64, .queries = f64};
  KvScene<Array> scene(c);
  scene.fill(kernels::kv_append);
  Array q(f32, {1, 2, 8}), out(f32, {1, 2, 8});
  CHECK_THROWS_WITH_AS(kernels::attention_decode(out.view(), q.view(), scene.view({5}, {1}), 1, 0),
                       doctest::Contains("f64 with f64"), tinytorch::Error);
  Array none(f64, {0, 2, 8});
  kernels::attention_decode(none.view(), none.view(), scene.view({6}, {0}), 1, 0);
}
