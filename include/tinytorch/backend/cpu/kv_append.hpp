// Writes the keys and values of a step's new tokens into a cache. Tokens of earlier steps are never touched.
#pragma once

#include <tinytorch/backend/kv_view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// k, v [N, G, D] of one floating dtype, with any strides: row first_row[b] + i goes to token
// lengths[b] - (first_row[b + 1] - first_row[b]) + i of sequence b. They are rounded to the dtype of the
// cache; with i8, a row [D] is divided by its scale, the largest magnitude / 127, and rounded to nearest. In
// a ring, only the last tokens of a step that is longer than the ring stay.
TT_API void kv_append(const KvView& kv, const View& k, const View& v);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <cmath>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// One row as integers from -127 to 127; returns its scale. A row of zeros has scale 0. The integers of a row
// with a NaN or an infinity would say nothing, so its scale is NaN: attention to this token gives NaN.
template <class S>
float quantize_row(int8_t* out, const S* x, int64_t step, int64_t D) {
  float largest = 0, total = 0;
  for (int64_t d = 0; d < D; ++d) {
    const float value = std::abs(convert<float>(x[d * step]));
    largest = largest < value ? value : largest;
    total += value;
  }
  if (!std::isfinite(largest) || std::isnan(total)) {
    for (int64_t d = 0; d < D; ++d) out[d] = 0;
    return std::numeric_limits<float>::quiet_NaN();
  }
  const double inverse = largest > 0 ? 127 / static_cast<double>(largest) : 0;  // finite for subnormals too
  for (int64_t d = 0; d < D; ++d)
    out[d] = static_cast<int8_t>(std::nearbyint(convert<double>(x[d * step]) * inverse));
  return largest / 127;
}

template <class S, class K>
void append_rows(const KvView& kv, K* pool, float* scales, const View& from) {
  const int64_t D = kv.head_size, G = kv.groups;
  for (int64_t b = 0; b < kv.batch; ++b) {
    const int64_t first = kv.first_row[b], count = kv.first_row[b + 1] - first, past = kv.lengths[b] - count;
    const int64_t skipped = kv.ring > 0 && count > kv.ring ? count - kv.ring : 0;
    for (int64_t i = 0; i < count; ++i) {
      if (i < skipped && past + i >= kv.sinks) continue;  // overwritten within this step
      const KvRun run = kv.run(b, past + i, past + i + 1);
      for (int64_t g = 0; g < G; ++g) {
        const int64_t row = kv.row_of(run, g);
        const S* const x = from.as<const S>() + (first + i) * from.strides[0] + g * from.strides[1];
        if constexpr (std::is_same_v<K, int8_t>) {
          scales[row] = quantize_row(pool + row * D, x, from.strides[2], D);
        } else {
          for (int64_t d = 0; d < D; ++d) pool[row * D + d] = convert<K>(x[d * from.strides[2]]);
        }
      }
    }
  }
}

TT_API void kv_append(const KvView& kv, const View& k, const View& v) {
  if (k.numel() == 0) return;
  dispatch(k.dtype, [&]<class S>(S*) {
    if constexpr (is_floating(dtype_of<S>)) {
      dispatch(kv.dtype, [&]<class K>(K*) {
        if constexpr (is_floating(dtype_of<K>) || std::is_same_v<K, int8_t>) {
          maybe_parallel(k.numel() > kElementwiseGrain, 2, 1, [&](int64_t begin, int64_t end) {
            if (begin == 0) append_rows<S>(kv, static_cast<K*>(kv.keys), kv.key_scales, k);
            if (end == 2) append_rows<S>(kv, static_cast<K*>(kv.values), kv.value_scales, v);
          });
        }
      });
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
