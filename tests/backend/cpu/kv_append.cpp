// attention_decode.cpp tests what is read back; here, which bytes change.
#include <tinytorch/backend/cpu/kv_append.hpp>

#include <support/kv_scene.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("only the slots of the new tokens change, in every kind of cache") {
  for (const KvKind kind : {KvKind::contiguous, KvKind::ring, KvKind::paged}) {
    for (const DType dtype : {f32, bf16, i8}) {
      KvCase c{.kind = kind,
               .dtype = dtype,
               .past = {30, 7, 0},
               .rows = {2, 0, 5},
               .heads = 2,
               .groups = 2,
               .head_size = 6,
               .page = 4,
               .sinks = 2,
               .ring = 9};
      KvScene<Array> scene(c);
      std::vector<unsigned char> before;
      scene.fill([&](const backend::KvView& kv, const backend::View& k, const backend::View& v) {
        before = scene.keys().bytes();
        kernels::kv_append(kv, k, v);
      });
      const backend::KvView kv = scene.view(c.past, c.rows);
      std::vector<bool> is_new(static_cast<size_t>(scene.keys().shape().numel()) / 6);
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t i = 0; i < c.rows[static_cast<size_t>(b)]; ++i) {
          const int64_t token = c.past[static_cast<size_t>(b)] + i;
          for (int64_t g = 0; g < 2; ++g)
            is_new[static_cast<size_t>(kv.row_of(kv.run(b, token, token + 1), g))] = true;
        }
      }
      CHECK(std::count(is_new.begin(), is_new.end(), true) == 14);
      const size_t row_bytes = 6 * size_of(dtype);
      for (size_t row = 0; row < is_new.size(); ++row) {
        const auto at = static_cast<std::ptrdiff_t>(row * row_bytes);
        const bool same =
            std::equal(before.begin() + at, before.begin() + at + static_cast<std::ptrdiff_t>(row_bytes),
                       scene.keys().bytes().begin() + at);
        CHECK(same != is_new[row]);
      }
    }
  }
}

TEST_CASE("a step longer than a ring leaves its last tokens") {
  KvCase c{.kind = KvKind::ring,
           .past = {3},
           .rows = {40},
           .heads = 1,
           .groups = 1,
           .head_size = 4,
           .sinks = 2,
           .ring = 7};
  KvScene<Array> scene(c);
  scene.fill(kernels::kv_append);
  const backend::KvView kv = scene.view(c.past, c.rows);
  const std::vector<double> keys = scene.keys().values();
  for (int64_t token = 0; token < 43; ++token) {
    if (token >= 2 && token < 36) continue;
    for (int64_t d = 0; d < 4; ++d)
      CHECK(keys[static_cast<size_t>(kv.slot(token) * 4 + d)] == scene.original(0, 0, token, 0, d));
  }
}

TEST_CASE(
    "quantize_row: every float row gives integers within half a step; NaN and infinity give a scale of NaN") {
  Generator generator(3);
  for (const double size : {1.0, 1e-45, 1e-38, 1e38, 0.0}) {
    float x[9];
    for (float& value : x) value = static_cast<float>(generator.uniform(-1, 1) * size);
    int8_t codes[9];
    const float scale = kernels::quantize_row(codes, x, 1, 9);
    for (int i = 0; i < 9; ++i) {
      const double half_step = 0.5 * static_cast<double>(scale) + 1e-45;
      CHECK(std::abs(codes[i] * static_cast<double>(scale) - static_cast<double>(x[i])) <=
            half_step * 1.0001 + (size < 1e-37 ? 1e-43 : 0));
    }
  }
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    float x[3] = {1, bad, 2};
    int8_t codes[3];
    CHECK(std::isnan(kernels::quantize_row(codes, x, 1, 3)));
  }
}
