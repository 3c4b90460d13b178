// KvKernels: checks of the two kernels of a backend, kv_append and attention_decode, on the scenes of
// kv_scene.hpp: every kind of cache, dtype, grouping and length, and what the bits may depend on.
#pragma once

#include <support/few.hpp>
#include <support/kv_scene.hpp>

namespace test {

// The two kernels of a backend, and the type of an array on its device. kBoth: the function that does the
// work of both for a step, if the backend has one.
template <class Memory, auto kAppend, auto kAttend, auto kBoth = nullptr>
struct KvKernels {
  using Array = Memory;
  // The result for a case, whose queries depend on its seed alone. wanted: by the definition.
  static std::vector<double> attended(const KvCase& c, std::vector<double>* wanted = nullptr,
                                      Layout layout = Layout::dense) {
    KvScene<Memory> scene(c);
    scene.fill(kAppend);
    const Shape shape{scene.step_rows(), c.heads, c.head_size};
    Memory q = Memory::random(c.queries, shape, c.seed + 5, -3, 3, layout), out(c.queries, shape, layout);
    const double scale = 1 / std::sqrt(static_cast<double>(c.head_size));
    kAttend(out.view(), q.view(), scene.view(c.past, c.rows), scale, c.window);
    if (wanted) *wanted = scene.expected(q.values(), scale);
    return results(scene, c, out);
  }
  // The same result, bit by bit, by one function that appends the step's own tokens and attends.
  static std::vector<double> attended_by_both(const KvCase& c, Layout layout) {
    KvScene<Memory> scene(c);
    const Shape shape{scene.step_rows(), c.heads, c.head_size};
    Memory q = Memory::random(c.queries, shape, c.seed + 5, -3, 3, layout), out(c.queries, shape, layout);
    const std::vector<double> zeros(c.past.size() * static_cast<size_t>(c.groups));
    Memory arrivals = Memory::from(i32, {std::ssize(zeros)}, zeros);
    const double scale = 1 / std::sqrt(static_cast<double>(c.head_size));
    scene.fill(kAppend, [&](backend::KvView kv, const backend::View& k, const backend::View& v) {
      kv.arrivals = arrivals.view().template as<int32_t>();
      kBoth(out.view(), q.view(), k, v, kv, scale, c.window);
    });
    CHECK(arrivals.values() == zeros);
    return results(scene, c, out);
  }
  // The results of the sequences' rows. Kernels must not write those of rows that pad the step, and must not
  // append such rows to the cache.
  static std::vector<double> results(KvScene<Memory>& scene, const KvCase& c, Memory& out) {
    std::vector<double> all = out.values();
    if (c.padding == 0) return all;
    const std::vector<double> before = Memory(out.dtype(), out.shape()).values();
    const auto own = scene.rows() * c.heads * c.head_size;
    CHECK(std::equal(all.begin() + own, all.end(), before.begin() + own, equal_or_nan));
    CHECK(scene.others_untouched());
    all.resize(static_cast<size_t>(own));
    return all;
  }
  static void check(const KvCase& c, Layout layout = Layout::dense) {
    CAPTURE(static_cast<int>(c.kind));
    CAPTURE(name_of(c.dtype));
    CAPTURE(name_of(c.format));
    CAPTURE(name_of(c.queries));
    CAPTURE(c.head_size);
    CAPTURE(c.past[0]);
    CAPTURE(c.rows[0]);
    std::vector<double> wanted;
    const std::vector<double> got = attended(c, &wanted, layout);
    REQUIRE(got.size() == wanted.size());
    const double tolerance = c.queries == f64    ? 1e-13
                             : c.queries == bf16 ? 8e-3
                             : c.queries == f16  ? 1e-3
                                                 : 3e-6;
    size_t wrong = 0, first = 0;
    for (size_t i = got.size(); i-- > 0;) {
      const bool close = std::abs(got[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i]));
      if (!close) ++wrong, first = i;
    }
    CAPTURE(first);
    CAPTURE(got[first]);
    CAPTURE(wanted[first]);
    CHECK(wrong == 0);
    if constexpr (!std::is_null_pointer_v<decltype(kBoth)>) {
      if (c.queries == bf16 || c.queries == f16) CHECK(attended_by_both(c, layout) == got);
    }
  }
  // Every kind of cache, dtype, grouping and length of a step. few: a part of the sizes.
  static void check_kinds(bool few) {
    constexpr KvFormat of_dtype = KvFormat::of_dtype;
    uint64_t seed = 1;
    for (const KvKind kind : {KvKind::contiguous, KvKind::ring, KvKind::paged}) {
      for (const auto& [cached, format, queries] : {std::tuple{f32, of_dtype, f32},
                                                    {bf16, of_dtype, f32},
                                                    {f16, of_dtype, f16},
                                                    {bf16, of_dtype, bf16},
                                                    {i8, of_dtype, f32},
                                                    {i8, of_dtype, bf16},
                                                    {f64, of_dtype, f64},
                                                    {f32, KvFormat::fp8, f32},
                                                    {bf16, KvFormat::fp8, f16},
                                                    {f32, KvFormat::i4, f32},
                                                    {bf16, KvFormat::i4, bf16}}) {
        for (const auto& [heads, groups, D] :
             {std::tuple{4, 2, 7}, {3, 3, 64}, {6, 1, 33}, {1, 1, 1}, {16, 1, 80}}) {
          if (few && ++seed % 4 != 0) continue;
          if (test::left_out(3)) continue;
          KvCase c{.kind = kind, .dtype = cached, .format = format, .queries = queries, .past = {0, 300, 17}};
          c.rows = {1, 1, 1};
          c.heads = heads, c.groups = groups, c.head_size = D, c.sinks = 3, c.ring = 21, c.seed = ++seed;
          check(c);
          c.past = {40, 0}, c.rows = {3, 8}, c.page = 5, c.sinks = 0, c.ring = 50, c.seed = ++seed;
          check(c, Layout::gaps);
        }
      }
    }
  }
  // Lengths at the borders of blocks, splits and pages; sequences without rows; windows.
  static void check_borders(bool few, KvFormat format = KvFormat::of_dtype) {
    uint64_t seed = 100;
    for (const int64_t past : {0, 1, 15, 16, 62, 63, 64, 127, 255, 256, 257, 511, 513, 1100}) {
      for (const int64_t rows : {1, 2, 9, 40}) {
        if (few && ++seed % 5 != 0) continue;
        KvCase c{.kind = KvKind::paged, .past = {past, 3, past / 2}, .rows = {rows, 0, 1}};
        c.heads = c.groups = 3, c.head_size = 20, c.seed = ++seed, c.format = format;
        check(c);
        c = {.kind = KvKind::paged, .past = {past}, .rows = {rows}, .head_size = 9, .page = 1, .window = 37};
        c.format = format;
        check(c);
        c = {.past = {past}, .rows = {rows}, .groups = 2, .head_size = 16, .window = 1, .seed = ++seed};
        c.format = format;
        check(c);
        c = {.kind = KvKind::ring, .past = {past}, .rows = {rows}, .head_size = 16, .sinks = 4, .ring = 60};
        c.format = format;
        check(c);
        c.sinks = 70, c.ring = 41, c.window = 90, c.seed = ++seed;
        check(c);
      }
    }
  }
  // The kernels for queries of 16 bits: heads of whole words, groups of up to 40 query heads, windows, rings.
  // Each combination takes seconds on the emulator, which therefore has shorter sequences and runs one
  // combination in six, drawn by the commit.
  static void check_narrow() {
    constexpr int64_t k = TINYTORCH_CUDA_SIM ? 1 : 7;
    uint64_t turn = test::drawn_number(0);
    uint64_t seed = 500;
    for (const auto& [cached, format, queries] : {std::tuple{bf16, KvFormat::of_dtype, bf16},
                                                  {bf16, KvFormat::of_dtype, f16},
                                                  {f16, KvFormat::of_dtype, f16},
                                                  {i8, KvFormat::of_dtype, bf16},
                                                  {i8, KvFormat::of_dtype, f16},
                                                  {bf16, KvFormat::fp8, bf16},
                                                  {bf16, KvFormat::i4, bf16},
                                                  {bf16, KvFormat::i4, f16}}) {
      for (const auto& [heads, groups, D] : {std::tuple{8, 2, 128},
                                             {3, 3, 64},
                                             {20, 1, 64},
                                             {40, 2, 128},
                                             {4, 2, 192},
                                             {34, 2, 256},
                                             {6, 2, 80}}) {
        if (TINYTORCH_CUDA_SIM && turn++ % 6 != 0) continue;
        if (test::left_out(5)) continue;
        KvCase c{.kind = KvKind::paged, .dtype = cached, .format = format, .queries = queries};
        c.past = {0, 43 * k, 17, 148 * k + 4}, c.rows = {1, 1, 0, 2};
        c.heads = heads, c.groups = groups, c.head_size = D, c.seed = ++seed;
        check(c);
        c.past = {85 * k + 5, 35 * k + 5}, c.rows = {3, 9}, c.window = 43 * k, c.page = 5, c.seed = ++seed;
        check(c, Layout::gaps);
        c.kind = KvKind::ring, c.sinks = 3, c.ring = 41 * k + 3, c.window = 0, c.past = {100 * k},
        c.rows = {5};
        check(c);
      }
    }
    for (const int64_t D : {64, 128, 192, 256}) {  // the scales of a row of i4 are 4, 8, 12 and 16 bytes
      KvCase c{.kind = KvKind::paged, .dtype = bf16, .format = KvFormat::i4, .queries = bf16, .past = {40}};
      c.heads = c.groups = 1, c.head_size = D, c.seed = ++seed;
      check(c);
    }
  }
  // Steps in which few sequences have many rows and the others one or none, with every number of query heads
  // that share a head of keys. Neither rows that pad the step nor a bound of the rows of a sequence that none
  // of them reaches change a bit. The emulator runs one combination in three, drawn by the commit.
  static void check_mixed() {
    constexpr KvFormat of_dtype = KvFormat::of_dtype;
    using Numbers = std::vector<int64_t>;
    const std::vector<std::pair<Numbers, Numbers>> steps{
        // tokens before the step, and its rows
        {{3, 0, 9, 140, 20, 0, 7, 30, 0, 1}, {0, 1, 0, 23, 1, 0, 1, 0, 2, 0}},
        {{5, 270, 0, 0, 40, 11, 150}, {33, 1, 0, 1, 1, 0, 9}},
        {{0, 6, 0, 17, 2}, {0, 0, 17, 0, 0}},
        {{4, 0, 31, 8, 150, 2}, {1, 1, 1, 1, 1, 1}}};
    uint64_t seed = 900, turn = test::drawn_number(0);
    for (const auto& [cached, format, queries] : {std::tuple{f64, of_dtype, f64},
                                                  {f32, of_dtype, f32},
                                                  {i8, of_dtype, f32},
                                                  {f32, KvFormat::i4, f32},
                                                  {bf16, of_dtype, bf16},
                                                  {i8, of_dtype, bf16},
                                                  {bf16, KvFormat::fp8, bf16},
                                                  {bf16, KvFormat::i4, f16}}) {
      for (const int64_t shared : {1, 3, 4, 8}) {
        for (const auto& [past, rows] : steps) {
          if (TINYTORCH_CUDA_SIM && turn++ % 3 != 0) continue;
          if (test::left_out(20)) continue;
          KvCase c{.kind = KvKind::paged, .dtype = cached, .format = format, .queries = queries};
          c.past = past, c.rows = rows, c.page = 5, c.head_size = 64, c.seed = ++seed;
          c.groups = 1 + shared % 2, c.heads = c.groups * shared;
          const std::vector<double> plain = attended(c);
          c.padding = 3;
          c.most_rows = std::accumulate(rows.begin(), rows.end(), c.padding);
          check(c);
          CHECK(attended(c) == plain);
          if (shared > 1) continue;
          c.kind = KvKind::contiguous, c.head_size = 20;  // the kernels for heads of any size
          check(c);
        }
      }
    }
  }
  // The result of a sequence does not depend on its pages, on the other sequences, or on the length of the
  // step.
  static void check_bits(const std::vector<int64_t>& page_sizes, bool few = false) {
    for (const auto& [cached, format] : {std::pair{f32, KvFormat::of_dtype},
                                         {bf16, KvFormat::of_dtype},
                                         {i8, KvFormat::of_dtype},
                                         {f32, KvFormat::fp8},
                                         {f32, KvFormat::i4}}) {
      KvCase c{.dtype = cached, .format = format, .past = {700}, .rows = {1}, .heads = 4, .groups = 2};
      c.head_size = 48, c.seed = 9;
      check_bits_of(c, page_sizes);
      if (few || (cached == f32 && format == KvFormat::of_dtype)) continue;
      c.queries = bf16, c.head_size = 64;
      check_bits_of(c, page_sizes);
      if (cached != bf16) continue;
      c.heads = 40;  // more query heads than a tile has rows
      check_bits_of(c, {page_sizes[0]});
    }
  }
  // The first of `count` sequences has the bits that it has alone, whether the step's tokens are in the cache
  // or not: with many sequences, a block computes several splits in turn, and adds them itself.
  static void check_bits_of_many(int64_t count) {
    for (const auto& [cached, format] :
         {std::pair{bf16, KvFormat::of_dtype}, {i8, KvFormat::of_dtype}, {f32, KvFormat::i4}}) {
      KvCase c{.kind = KvKind::paged,
               .dtype = cached,
               .format = format,
               .queries = bf16,
               .past = {TINYTORCH_CUDA_SIM ? 4700 : 9000}};
      c.heads = 4, c.groups = 2, c.head_size = 64, c.seed = 19;
      check(c);
      const std::vector<double> alone = attended(c);
      for (int64_t i = 1; i < count; ++i) c.past.push_back(i * 977 % 2700), c.rows.push_back(1);
      const std::vector<double> many = attended(c);
      CHECK(std::vector<double>(many.begin(), many.begin() + c.heads * c.head_size) == alone);
      CHECK(attended_by_both(c, Layout::dense) == many);
    }
  }
  static void check_bits_of(KvCase c, const std::vector<int64_t>& page_sizes) {
    const int64_t width = c.heads * c.head_size;  // elements of a token's results
    const auto part = [width](const std::vector<double>& x, int64_t i) {
      return std::vector<double>(x.begin() + i * width, x.begin() + (i + 1) * width);
    };
    const std::vector<double> alone = attended(c);
    for (const int64_t page : page_sizes) {
      c.kind = KvKind::paged, c.page = page;
      CHECK(attended(c) == alone);
    }
    KvCase many = c;
    many.past = {700, 2000, 3, 64}, many.rows = {1, 5, 1, 9};  // the first sequence has the same tokens
    CHECK(part(attended(many), 0) == alone);                   // and the same queries

    // The rows of one step of 9 tokens equal those of a step each.
    c.past = {250}, c.rows = {9};
    KvScene<Memory> scene(c);
    scene.fill(kAppend);
    Memory q = Memory::random(c.queries, {9, c.heads, c.head_size}, 3),
           out(c.queries, {9, c.heads, c.head_size});
    kAttend(out.view(), q.view(), scene.view({250}, {9}), 0.2, 0);
    const std::vector<double> queries = q.values(), all = out.values();
    for (int64_t i = 0; i < 9; ++i) {
      Memory one = Memory::from(c.queries, {1, c.heads, c.head_size}, part(queries, i)),
             y(c.queries, {1, c.heads, c.head_size});
      kAttend(y.view(), one.view(), scene.view({250 + i}, {1}), 0.2, 0);
      CHECK(y.values() == part(all, i));
    }
  }
};

}  // namespace test
