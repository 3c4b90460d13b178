// Writes the keys and values of a step's new tokens into a cache. Tokens of earlier steps are never touched.
#pragma once

#include <tinytorch/backend/kv_view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// k, v [N, G, D] of one floating dtype, with any strides: row first_row[b] + i goes to token
// lengths[b] - (first_row[b + 1] - first_row[b]) + i of sequence b. They are rounded to the dtype of the
// cache. With i8 and fp8, a row [D] is divided by its scale, the largest magnitude / 127 or 448, and rounded
// to nearest, ties to even; with i4, so is each group by backend::int4_scale, and the numbers stop at -8
// and 7. In a ring, only the last tokens of a step that is longer than the ring stay.
TT_API void kv_append(const KvView& kv, const View& k, const View& v);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/kv_codes.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The keys, or the values, of a step.
template <class S, class K>
class AppendRows {
 public:
  AppendRows(const KvView& kv, bool keys, const View& from)
      : kv_(kv),
        from_(from),
        pool_(keys ? kv.keys : kv.values),
        scales_(keys ? kv.key_scales : kv.value_scales),
        keys_(keys),
        layout_(kv_row_layout(kv.format, kv.dtype, kv.head_size)),
        wide_(std::is_same_v<K, Int4> ? layout_.scales * kKvGroup : 0) {}

  void run() {
    for (int64_t b = 0; b < kv_.batch; ++b) {
      const int64_t first = kv_.first_row[b], count = kv_.first_row[b + 1] - first,
                    past = kv_.lengths[b] - count;
      const int64_t skipped = kv_.ring > 0 && count > kv_.ring ? count - kv_.ring : 0;
      for (int64_t i = 0; i < count; ++i) {
        if (i < skipped && past + i >= kv_.sinks) continue;  // overwritten within this step
        const KvRun run = kv_.run(b, past + i, past + i + 1);
        for (int64_t g = 0; g < kv_.groups; ++g) {
          const S* const x = from_.as<const S>() + (first + i) * from_.strides[0] + g * from_.strides[1];
          write(kv_.row_of(run, g), x, from_.strides[2]);
        }
      }
    }
  }

 private:
  void write(int64_t row, const S* x, int64_t step) {
    const int64_t D = kv_.head_size;
    if constexpr (std::is_same_v<K, Int4>) {
      for (int64_t d = 0; d < D; ++d) wide_.data()[d] = convert<float>(x[d * step]);
      quantize_groups(static_cast<uint8_t*>(pool_) + row * layout_.elements,
                      static_cast<BFloat16*>(scales_) + row * layout_.scales, wide_.data(), D, keys_);
    } else {
      K* const out = static_cast<K*>(pool_) + row * D;
      if constexpr (std::is_same_v<K, int8_t> || std::is_same_v<K, Float8>) {
        static_cast<float*>(scales_)[row] = quantize_row(out, x, step, D);
      } else {
        for (int64_t d = 0; d < D; ++d) out[d] = convert<K>(x[d * step]);
      }
    }
  }

  const KvView& kv_;
  const View& from_;
  void *pool_, *scales_;
  bool keys_;
  KvRowLayout layout_;
  Scratch<float> wide_;  // a row of i4, as floats
};

TT_API void kv_append(const KvView& kv, const View& k, const View& v) {
  if (k.numel() == 0) return;
  dispatch(k.dtype, [&]<class S>(S*) {
    if constexpr (is_floating(dtype_of<S>)) {
      dispatch_format(kv, [&]<class K>(K*) {
        maybe_parallel(k.numel() > kElementwiseGrain, 2, 1, [&](int64_t begin, int64_t end) {
          if (begin == 0) AppendRows<S, K>(kv, true, k).run();
          if (end == 2) AppendRows<S, K>(kv, false, v).run();
        });
      });
    }
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
