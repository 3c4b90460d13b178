// Attention of a step's new tokens to the tokens of a cache (backend/kv_view.hpp), and how they get there.
// The memory of a cache changes in place, so neither function has a derivative.
#pragma once

#include <tinytorch/backend/kv_view.hpp>
#include <tinytorch/tensor/operators.hpp>

namespace tinytorch::inline TT_BUILD {

// The memory of one layer's cache during a step, as tensors on one device.
struct KvMemory {
  Tensor keys, values;  // [pages, G, page, elements of a row], by backend/kv_format.hpp
  // [pages, G, page, scales of a row], if the format has scales. The last dimension may be absent if it is 1.
  Tensor key_scales{}, value_scales{};
  Tensor table{};  // i32 [B, pages of a sequence]; undefined: page b is the only page of sequence b
  // i64 [B] and [B + 1]: the tokens of a sequence, with those of the step; sequence b has the step's rows
  // first_row[b] to first_row[b + 1].
  Tensor lengths, first_row;
  int64_t sinks = 0, ring = 0;  // backend::KvView
  KvFormat format = KvFormat::of_dtype;
  int64_t head_size = 0;  // D; 0 stands for the last dimension of keys, and does not fit i4
  // Known on the host: bounds of the lengths and of the rows of a sequence, and the tokens of all.
  int64_t longest = 0, most_rows = 0, tokens = 0;
  Tensor arrivals{};  // i32 [B, G] of zeros, or undefined: saves a CUDA kernel (backend::KvView)

  int64_t features() const { return head_size > 0 ? head_size : keys.size(3); }
  backend::KvView view() const;
};

// k, v [N, G, D]: the rows of the step.
TT_API void kv_append(const KvMemory& memory, const Tensor& k, const Tensor& v, TT_LOC);
// q [N, H, D], rows of the step whose keys are in the memory already -> [N, H, D]. The row of the token at
// position t sees the tokens up to t, and only those less than `window` positions away if window > 0. A
// `scale` of 0 means 1 / sqrt(D). f64 queries need an f64 cache, and the others any other cache. Throws
// TT-SHAPE-02 and TT-DTYPE-02 if q does not fit the memory, TT-RANGE-02 if window < 0, and TT-GRAD-05 if a
// gradient would be recorded.
struct CachedAttentionOptions {
  double scale = 0;
  int64_t window = 0;
};
TT_API Tensor cached_attention(const Tensor& q, const KvMemory& memory,
                               const CachedAttentionOptions& options = {}, TT_LOC);
// kv_append(memory, k, v), then cached_attention(q, memory, options). A CUDA device does both in one kernel
// where a step has few tokens of 16 bits.
TT_API Tensor append_and_attend(const Tensor& q, const Tensor& k, const Tensor& v, const KvMemory& memory,
                                const CachedAttentionOptions& options = {}, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(TENSOR)
#include <cmath>
#include <tinytorch/backend/cpu/attention_decode.hpp>
#include <tinytorch/backend/cpu/kv_append.hpp>
#include <tinytorch/tensor/apply.hpp>

namespace tinytorch::inline TT_BUILD {

inline backend::KvView KvMemory::view() const {
  backend::KvView kv;
  kv.keys = keys.view_of().data, kv.values = values.view_of().data, kv.dtype = keys.dtype();
  if (key_scales.defined()) {
    kv.key_scales = key_scales.view_of().data;
    kv.value_scales = value_scales.view_of().data;
  }
  kv.batch = lengths.size(0), kv.groups = keys.size(1), kv.page = keys.size(2), kv.head_size = features();
  kv.format = format;
  if (table.defined()) kv.table = table.view_of().as<const int32_t>(), kv.table_width = table.size(1);
  kv.sinks = sinks, kv.ring = ring;
  kv.lengths = lengths.view_of().as<const int64_t>(), kv.first_row = first_row.view_of().as<const int64_t>();
  kv.longest = longest, kv.most_rows = most_rows;
  if (arrivals.defined()) kv.arrivals = arrivals.view_of().as<int32_t>();
  return kv;
}

// Checks rows [N, heads, D] of a step.
inline void require_step_rows(const char* op, const Tensor& x, const KvMemory& memory, bool keys, Loc loc) {
  require_defined(op, loc, x, memory.keys, memory.values, memory.lengths, memory.first_row);
  (void)common_device(op, {x, memory.keys, memory.values, memory.lengths, memory.first_row}, loc);
  require_floating(op, x, loc);
  const int64_t G = memory.keys.size(1), D = memory.features();
  const bool heads =
      x.rank() == 3 && x.size(2) == D && (keys ? x.size(1) == G : x.size(1) >= G && x.size(1) % G == 0);
  if (heads) return;
  fail("TT-SHAPE-02",
       std::string(op) + ": " + x.describe() + " does not fit a cache with pages of " +
           memory.keys.describe() +
           "\n  rule: q [N, H, D], k and v [N, G, D], pages [n, G, page, D], G divides H",
       loc);
}
inline void refuse_gradient(const char* op, const Tensors& operands, Loc loc) {
  if (!records_grad(operands)) return;
  fail("TT-GRAD-05",
       std::string(op) +
           ": attention to a cache has no derivative\n  hint: generate under NoGrad, and train "
           "without a cache",
       loc);
}

inline Cost cost_of_append(const Tensor& k, const Tensor& v) {
  return {0, 2 * static_cast<double>(k.bytes() + v.bytes())};
}
inline void require_append(const char* op, const KvMemory& memory, const Tensor& k, const Tensor& v,
                           Loc loc) {
  require_step_rows(op, k, memory, true, loc);
  require_step_rows(op, v, memory, true, loc);
  refuse_gradient(op, {k, v}, loc);
}
// The factor of the scores.
inline double require_attention(const char* op, const Tensor& q, const KvMemory& memory,
                                const CachedAttentionOptions& options, Loc loc) {
  require_step_rows(op, q, memory, false, loc);
  refuse_gradient(op, {q}, loc);
  if (options.window < 0) {
    fail("TT-RANGE-02",
         std::string(op) + ": window must not be negative, got " + std::to_string(options.window), loc);
  }
  return options.scale == 0 ? 1 / std::sqrt(static_cast<double>(q.size(2))) : options.scale;
}
inline Cost cost_of_attention(const Tensor& q, const KvMemory& memory) {
  const int64_t D = q.size(2);
  const auto tokens = static_cast<double>(memory.tokens), rows = static_cast<double>(q.size(0));
  const backend::KvRowLayout row = backend::kv_row_layout(memory.format, memory.keys.dtype(), D);
  const double per_token = 2 * static_cast<double>(memory.keys.size(1) * row.bytes());
  const double pairs = tokens * rows / static_cast<double>(std::max<int64_t>(1, memory.lengths.size(0)));
  return {4 * pairs * static_cast<double>(q.size(1) * D),
          tokens * per_token + 2 * static_cast<double>(q.bytes())};
}

TT_API void kv_append(const KvMemory& memory, const Tensor& k, const Tensor& v, Loc loc) {
  require_append("kv_append", memory, k, v, loc);
  ObservedWork work("kv_append", k.device());
  if (work.observed()) work.cost = cost_of_append(k, v);
  const backend::cuda::DeviceGuard on_device(k.device(), loc);
  TT_KERNEL(k, kv_append(memory.view(), k.view_of(), v.view_of()));
}

TT_API Tensor cached_attention(const Tensor& q, const KvMemory& memory, const CachedAttentionOptions& options,
                               Loc loc) {
  const double scale = require_attention("cached_attention", q, memory, options, loc);
  Tensor out = empty(q.shape(), q.dtype(), q.device(), loc);
  ObservedWork work("cached_attention", q.device());
  if (work.observed()) work.cost = cost_of_attention(q, memory);
  const backend::cuda::DeviceGuard on_device(q.device(), loc);
  TT_KERNEL(q, attention_decode(out.view_of(), q.view_of(), memory.view(), scale, options.window));
  return out;
}

TT_API Tensor append_and_attend(const Tensor& q, const Tensor& k, const Tensor& v, const KvMemory& memory,
                                const CachedAttentionOptions& options, Loc loc) {
  require_defined("append_and_attend", loc, q, k, v);
  if (q.device().is_cpu() || k.dtype() != q.dtype() || v.dtype() != q.dtype()) {
    kv_append(memory, k, v, loc);
    return cached_attention(q, memory, options, loc);
  }
  require_append("append_and_attend", memory, k, v, loc);
  const double scale = require_attention("append_and_attend", q, memory, options, loc);
  Tensor out = empty(q.shape(), q.dtype(), q.device(), loc);
  ObservedWork work("append_and_attend", q.device());
  if (work.observed()) {
    const Cost append = cost_of_append(k, v), attention = cost_of_attention(q, memory);
    work.cost = {attention.flops, append.bytes + attention.bytes};
  }
  const backend::cuda::DeviceGuard on_device(q.device(), loc);
  if constexpr (TINYTORCH_WITH_CUDA) {
    backend::cuda::append_and_attend(out.view_of(), q.view_of(), k.view_of(), v.view_of(), memory.view(),
                                     scale, options.window);
  }
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
