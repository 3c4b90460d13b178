// attention_decode.cpp tests what is read back; here, which bytes change.
#include <tinytorch/backend/cpu/kv_append.hpp>

#include <array>
#include <support/kv_scene.hpp>

using namespace test;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("only the slots of the new tokens change, in every kind of cache") {
  for (const KvKind kind : {KvKind::contiguous, KvKind::ring, KvKind::paged}) {
    for (const auto& [dtype, format] : {std::pair{f32, KvFormat::of_dtype},
                                        {bf16, KvFormat::of_dtype},
                                        {i8, KvFormat::of_dtype},
                                        {f32, KvFormat::fp8},
                                        {f32, KvFormat::i4}}) {
      KvCase c{.kind = kind,
               .dtype = dtype,
               .format = format,
               .past = {30, 7, 0},
               .rows = {2, 0, 5},
               .heads = 2,
               .groups = 2,
               .head_size = 6,
               .page = 4,
               .sinks = 2,
               .ring = 9};
      KvScene<Array> scene(c);
      // The bytes of all planes, before and after the last step: scales of old tokens must not change either.
      const auto planes = [&] {
        return std::array{scene.keys().bytes(), scene.values().bytes(), scene.key_scales().bytes(),
                          scene.value_scales().bytes()};
      };
      std::array<std::vector<unsigned char>, 4> before;
      scene.fill([&](const backend::KvView& kv, const backend::View& k, const backend::View& v) {
        before = planes();
        kernels::kv_append(kv, k, v);
      });
      const std::array after = planes();
      const backend::KvRowLayout layout = scene.layout();
      const backend::KvView kv = scene.view(c.past, c.rows);
      std::vector<bool> is_new(static_cast<size_t>(scene.keys().shape().numel() / layout.elements));
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t i = 0; i < c.rows[static_cast<size_t>(b)]; ++i) {
          const int64_t token = c.past[static_cast<size_t>(b)] + i;
          for (int64_t g = 0; g < 2; ++g)
            is_new[static_cast<size_t>(kv.row_of(kv.run(b, token, token + 1), g))] = true;
        }
      }
      CHECK(std::count(is_new.begin(), is_new.end(), true) == 14);
      for (size_t plane = 0; plane < 4; ++plane) {
        const size_t row_bytes = plane < 2 ? static_cast<size_t>(layout.elements) * size_of(layout.dtype)
                                           : static_cast<size_t>(layout.scales) * size_of(layout.scale_dtype);
        if (row_bytes == 0) continue;
        for (size_t row = 0; row < is_new.size(); ++row) {
          const auto at = static_cast<std::ptrdiff_t>(row * row_bytes),
                     end = at + static_cast<std::ptrdiff_t>(row_bytes);
          const bool same =
              std::equal(before[plane].begin() + at, before[plane].begin() + end, after[plane].begin() + at);
          CHECK(same != is_new[row]);
        }
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

namespace {

// A key of 9 floats as a cache of i8 stores it.
struct Stored {
  std::vector<double> codes;
  double scale;
};
Stored stored(const std::vector<double>& key) {
  Array keys(i8, {1, 1, 1, 9}), values(i8, {1, 1, 1, 9}), key_scales(f32, {1, 1, 1}),
      value_scales(f32, {1, 1, 1});
  Array lengths = Array::from(i64, {1}, {1}), first_row = Array::from(i64, {2}, {0, 1}),
        k = Array::from(f32, {1, 1, 9}, key);
  backend::KvView kv;
  kv.keys = keys.view().data, kv.values = values.view().data, kv.dtype = DType::i8;
  kv.key_scales = key_scales.view().as<float>(), kv.value_scales = value_scales.view().as<float>();
  kv.batch = kv.groups = kv.page = 1, kv.head_size = 9;
  kv.lengths = lengths.view().as<int64_t>(), kv.first_row = first_row.view().as<int64_t>();
  kernels::kv_append(kv, k.view(), k.view());
  CHECK(values.values() == keys.values());
  return {keys.values(), key_scales.values()[0]};
}

}  // namespace

TEST_CASE("integers are within half a step of every row of floats; NaN and infinity give a scale of NaN") {
  Generator generator(3);
  for (const double size : {1.0, 1e-45, 1e-38, 1e38, 0.0}) {
    std::vector<double> key(9);
    for (double& x : key) x = static_cast<double>(static_cast<float>(generator.uniform(-1, 1) * size));
    const Stored s = stored(key);
    for (size_t i = 0; i < key.size(); ++i) {
      const double half_step = 0.50005 * s.scale + (size < 1e-37 ? 1e-43 : 0);
      CHECK(std::abs(s.codes[i] * s.scale - key[i]) <= half_step);
    }
  }
  for (const double bad : {static_cast<double>(NAN), HUGE_VAL, -HUGE_VAL}) {
    CHECK(std::isnan(stored({1, 2, bad, 0, 0, 0, 0, 0, 0}).scale));
  }
}
