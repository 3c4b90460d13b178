#include <tinytorch/backend/cpu/attention_decode.hpp>

#include <support/kv_scene.hpp>
#include <tinytorch/backend/cpu/kv_append.hpp>
#include <tinytorch/core/parallel.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

namespace {

using Bits = std::vector<unsigned char>;

// The result of the kernels for a case, with queries that depend on the seed alone.
struct Attended {
  std::vector<double> out;
  Bits bits;
};
Attended attended(const KvCase& c, std::vector<double>* wanted = nullptr, Layout layout = Layout::dense) {
  KvScene<Array> scene(c);
  scene.fill(kernels::kv_append);
  const Shape shape{scene.rows(), c.heads, c.head_size};
  Array q = Array::random(c.queries, shape, c.seed + 5, -3, 3, layout), out(c.queries, shape, layout);
  const double scale = 1 / std::sqrt(static_cast<double>(c.head_size));
  kernels::attention_decode(out.view(), q.view(), scene.view(c.past, c.rows), scale, c.window);
  if (wanted) *wanted = scene.expected(q.values(), scale);
  return {out.values(), out.bytes()};
}

void check(const KvCase& c, Layout layout = Layout::dense) {
  CAPTURE(static_cast<int>(c.kind));
  CAPTURE(name_of(c.dtype));
  CAPTURE(name_of(c.queries));
  CAPTURE(c.head_size);
  CAPTURE(c.past[0]);
  CAPTURE(c.rows[0]);
  std::vector<double> wanted;
  const std::vector<double> got = attended(c, &wanted, layout).out;
  REQUIRE(got.size() == wanted.size());
  const double tolerance = c.queries == f64    ? 1e-13
                           : c.queries == bf16 ? 8e-3
                           : c.queries == f16  ? 1e-3
                                               : 3e-6;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - wanted[i]);
    if (error <= tolerance * (1 + std::abs(wanted[i]))) continue;
    CAPTURE(i);
    CHECK(got[i] == doctest::Approx(wanted[i]));
    return;
  }
}

constexpr KvKind kKinds[] = {KvKind::contiguous, KvKind::ring, KvKind::paged};

}  // namespace

TEST_CASE("attention to a cache equals the definition: every kind, dtype, grouping and length") {
  uint64_t seed = 1;
  for (const KvKind kind : kKinds) {
    for (const auto& [cached, queries] :
         {std::pair{f32, f32}, {bf16, f32}, {f16, f16}, {bf16, bf16}, {i8, f32}, {i8, bf16}, {f64, f64}}) {
      for (const auto& [heads, groups, D] :
           {std::tuple{1, 1, 1}, {4, 2, 7}, {6, 1, 33}, {3, 3, 64}, {16, 1, 80}}) {
        check({.kind = kind,
               .dtype = cached,
               .queries = queries,
               .past = {0, 300, 17},
               .rows = {1, 1, 1},
               .heads = heads,
               .groups = groups,
               .head_size = D,
               .sinks = 3,
               .ring = 21,
               .seed = ++seed});
        check({.kind = kind,
               .dtype = cached,
               .queries = queries,
               .past = {40, 0},
               .rows = {3, 8},
               .heads = heads,
               .groups = groups,
               .head_size = D,
               .page = 5,
               .sinks = 0,
               .ring = 50,
               .seed = ++seed},
              Layout::gaps);
      }
    }
  }
}

TEST_CASE("lengths at the borders of blocks, splits and pages; sequences without rows; windows") {
  uint64_t seed = 100;
  for (const int64_t past : {0, 1, 15, 16, 62, 63, 64, 127, 255, 256, 257, 511, 513, 1100}) {
    for (const int64_t rows : {1, 2, 9, 40}) {
      check({.kind = KvKind::paged,
             .past = {past, 3, past / 2},
             .rows = {rows, 0, 1},
             .heads = 3,
             .groups = 3,
             .head_size = 20,
             .page = 16,
             .seed = ++seed});
      check({.kind = KvKind::paged,
             .past = {past},
             .rows = {rows},
             .heads = 2,
             .groups = 1,
             .head_size = 9,
             .page = 1,
             .window = 37,
             .seed = ++seed});
      check({.kind = KvKind::contiguous,
             .past = {past},
             .rows = {rows},
             .heads = 2,
             .groups = 2,
             .head_size = 16,
             .window = 1,
             .seed = ++seed});
      check({.kind = KvKind::ring,
             .past = {past},
             .rows = {rows},
             .heads = 2,
             .groups = 2,
             .head_size = 16,
             .sinks = 4,
             .ring = 60,
             .seed = ++seed});
      check({.kind = KvKind::ring,
             .past = {past},
             .rows = {rows},
             .heads = 2,
             .groups = 1,
             .head_size = 16,
             .sinks = 70,
             .ring = 41,
             .window = 90,
             .seed = ++seed});
    }
  }
}

TEST_CASE("the bits of a result depend neither on pages, threads, the batch nor the length of the step") {
  const int threads = thread_count();
  for (const DType cached : {f32, bf16, i8}) {
    KvCase c{
        .dtype = cached, .past = {700}, .rows = {1}, .heads = 4, .groups = 2, .head_size = 40, .seed = 9};
    const Attended alone = attended(c);
    for (const int64_t page : {1, 16, 64, 1000}) {
      c.kind = KvKind::paged, c.page = page;
      CHECK(attended(c).bits == alone.bits);
    }
    for (const int n : {1, 3}) {
      set_thread_count(n);
      CHECK(attended(c).bits == alone.bits);
    }
    set_thread_count(threads);
    KvCase many = c;
    many.past = {700, 2000, 3, 64}, many.rows = {1, 5, 1, 9};  // the first sequence has the same tokens
    const Attended together = attended(many);
    // Queries are numbered by row, so those of the first row are the same.
    CHECK(std::vector<double>(together.out.begin(), together.out.begin() + 160) == alone.out);

    // The rows of one step of 9 tokens equal those of a step each.
    KvCase chunk = c;
    chunk.past = {250}, chunk.rows = {9};
    KvScene<Array> scene(chunk);
    scene.fill(kernels::kv_append);
    Array q = Array::random(f32, {9, 4, 40}, 3), out(f32, {9, 4, 40});
    kernels::attention_decode(out.view(), q.view(), scene.view({250}, {9}), 0.2, 0);
    for (int64_t i = 0; i < 9; ++i) {
      const std::vector<double> all = q.values();
      Array one = Array::from(f32, {1, 4, 40},
                              std::vector<double>(all.begin() + i * 160, all.begin() + (i + 1) * 160)),
            y(f32, {1, 4, 40});
      kernels::attention_decode(y.view(), one.view(), scene.view({250 + i}, {1}), 0.2, 0);
      const std::vector<double> row = out.values();
      CHECK(y.values() == std::vector<double>(row.begin() + i * 160, row.begin() + (i + 1) * 160));
    }
  }
}

TEST_CASE("NaN and infinity reach the rows that see them, and no others") {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    KvCase c{.past = {60}, .rows = {8}, .heads = 1, .groups = 1, .head_size = 8, .seed = 4};
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

TEST_CASE("queries and caches of dtypes that do not fit are refused; a step without rows is accepted") {
  KvCase c{.dtype = f64, .queries = f64};
  KvScene<Array> scene(c);
  scene.fill(kernels::kv_append);
  Array q(f32, {1, 2, 8}), out(f32, {1, 2, 8});
  CHECK_THROWS_WITH_AS(kernels::attention_decode(out.view(), q.view(), scene.view({5}, {1}), 1, 0),
                       doctest::Contains("f64 with f64"), tinytorch::Error);
  Array none(f64, {0, 2, 8});
  kernels::attention_decode(none.view(), none.view(), scene.view({6}, {0}), 1, 0);
}
