// Attention of a few new tokens to all tokens of a cache: one pass over the cached keys and values, which is
// memory-bound. Limit: bytes of the keys and values over read bandwidth.
//
// The queries that share a head of keys (grouped-query attention, and the tokens of one step) are computed
// together, so that a key is read once for up to kDecodeRows of them. Tokens are divided into splits of
// kSplit and blocks of kBlock by their number alone, and partial results are merged in the order of the
// splits, and multiply-adds are explicit. So the bits of a result do not depend on the number of threads, on
// the other sequences of a step, on how many tokens a step has, or on where the pages lie.
// Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
#pragma once

#include <tinytorch/backend/kv_view.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, q [N, H, D] of one floating dtype, with any strides; G divides H. The row of a sequence's token at
// position t sees the tokens that are at most at t, less than `window` positions away if window > 0, and
// still in the cache. `kv` already holds the step's own tokens. A cache of f64 takes queries of f64 only, and
// the others take the other dtypes; sums are f64 or f32. A row that sees no token gives zeros.
TT_API void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <cmath>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/kv_codes.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/scalar_math.hpp>
#include <tinytorch/core/simd_multiply_add.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kDecodeRows = 8, kBlock = 64, kSplit = 256;

// kLanes<T> elements of a cached row, widened.
template <class T, class K>
[[gnu::always_inline]] inline Simd<T> load_widened(const K* p) {
  if constexpr (std::is_same_v<T, K>) {
    return simd_load(p);
  } else if constexpr (std::is_same_v<K, Half>) {
    Simd<T> wide{};
    for (int64_t i = 0; i < kLanes<T>; ++i) wide[i] = convert<T>(p[i]);
    return wide;
  } else {
    return load_floats(p);
  }
}

// The sum of x[d] y[d]; D is the length of both.
template <class T, class K>
[[gnu::always_inline]] inline T dot_row(const T* x, const K* y, int64_t D) {
  constexpr int64_t kL = kLanes<T>;
  Simd<T> a{}, b{};
  int64_t d = 0;
  for (; d + 2 * kL <= D; d += 2 * kL) {
    a = simd_multiply_add<T>(simd_load(x + d), load_widened<T>(y + d), a);
    b = simd_multiply_add<T>(simd_load(x + d + kL), load_widened<T>(y + d + kL), b);
  }
  for (; d + kL <= D; d += kL) a = simd_multiply_add<T>(simd_load(x + d), load_widened<T>(y + d), a);
  T sum = sum_of_lanes<T>(a + b);
  for (; d < D; ++d) sum = math::multiply_add(x[d], convert<T>(y[d]), sum);
  return sum;
}

// sum[d] += factor x[d]
template <class T, class K>
[[gnu::always_inline]] inline void add_row(T* sum, T factor, const K* x, int64_t D) {
  constexpr int64_t kL = kLanes<T>;
  const Simd<T> f = simd_broadcast(factor);
  int64_t d = 0;
  for (; d + kL <= D; d += kL)
    simd_store(sum + d, simd_multiply_add<T>(f, load_widened<T>(x + d), simd_load(sum + d)));
  for (; d < D; ++d) sum[d] = math::multiply_add(factor, convert<T>(x[d]), sum[d]);
}

// The running softmax of one query row: the largest score, the sum of e^(score - largest), and the sum of the
// values with these weights, `sum` [D].
template <class T>
struct OnlineRow {
  static constexpr T kNone = -std::numeric_limits<T>::infinity();
  T largest = kNone, weight = 0;

  // Multiplies the sums by e^(largest - top), so that `top` becomes the largest.
  void raise(T top, T* sum, int64_t D) {
    if (top == largest) return;
    const T factor = largest == kNone ? T(0) : math::exp<math::Range::below_zero>(largest - top);
    weight *= factor;
    for (int64_t d = 0; d < D; ++d) sum[d] *= factor;
    largest = top;
  }
  // Adds the tokens of a later split.
  void merge(const OnlineRow& other, T* sum, const T* other_sum, int64_t D) {
    if (other.largest > largest) raise(other.largest, sum, D);
    // Without a largest score, the other sums are 0, or NaN from scores that are NaN.
    const T factor =
        other.largest == kNone ? T(1) : math::exp<math::Range::below_zero>(other.largest - largest);
    weight = math::multiply_add(factor, other.weight, weight);
    for (int64_t d = 0; d < D; ++d) sum[d] = math::multiply_add(factor, other_sum[d], sum[d]);
  }
};

// A group of up to kDecodeRows query rows of one sequence and one head of keys.
template <class T, class K>
class DecodeRows {
 public:
  // q [rows, D] is scaled; the row r is at position[r].
  DecodeRows(const KvView& kv, int64_t window, int64_t b, int64_t g, const T* q, const int64_t* position,
             int64_t rows)
      : kv_(kv),
        D_(kv.head_size),
        b_(b),
        g_(g),
        rows_(rows),
        q_(q),
        decoded_(kIsCoded<K> ? kBlock * kv.head_size : 0) {
    for (int64_t r = 0; r < rows; ++r) {
      first_[r] = window > 0 && position[r] >= window ? position[r] - window + 1 : 0;
      last_[r] = position[r] + 1;
    }
  }

  // The softmax over the held tokens of numbers [begin, end), at most kSplit: state [rows], sums [rows, D].
  void run(int64_t begin, int64_t end, OnlineRow<T>* state, T* sums) {
    std::fill_n(state, rows_, OnlineRow<T>{});
    std::fill_n(sums, rows_ * D_, T(0));
    const int64_t skipped = kv_.skipped(kv_.lengths[b_]);
    for (int64_t n = begin, stop; n < end; n = stop) {
      stop = std::min(end, (n / kBlock + 1) * kBlock);
      if (skipped > 0 && n < kv_.sinks)
        stop = std::min(stop, kv_.sinks);  // the tokens of a block are adjacent
      const int64_t first = n < kv_.sinks ? n : n + skipped;
      block(first, first + stop - n, state, sums);
    }
  }

 private:
  void block(int64_t begin, int64_t end, OnlineRow<T>* state, T* sums) {
    for_each_run(begin, end, [&](int64_t t, int64_t row, int64_t count) {
      const auto* const keys = elements(kv_.keys, kv_.key_scales, row, count);
      for (int64_t r = 0; r < rows_; ++r) {
        T* const score = score_[r] + (t - begin);
        for (int64_t j = seen_from(r, t); j < seen_to(r, t, count); ++j) {
          if (r == 0) prefetch_row(kv_.values, row + j);  // they are read after the scores
          score[j] = dot_row(q_ + r * D_, keys + j * D_, D_);
          if constexpr (std::is_same_v<K, int8_t>) score[j] *= scale_of(kv_.key_scales, row + j);
        }
      }
    });
    for (int64_t r = 0; r < rows_; ++r) exponentiate(r, begin, end, state[r], sums + r * D_);
    for_each_run(begin, end, [&](int64_t t, int64_t row, int64_t count) {
      const auto* const values = elements(kv_.values, kv_.value_scales, row, count);
      for (int64_t r = 0; r < rows_; ++r) {
        const T* const p = score_[r] + (t - begin);
        for (int64_t j = seen_from(r, t); j < seen_to(r, t, count); ++j) {
          if (r == 0) prefetch_row(kv_.keys, row + kBlock + j);  // of the next block
          T weight = p[j];
          if constexpr (std::is_same_v<K, int8_t>) weight *= scale_of(kv_.value_scales, row + j);
          add_row(sums + r * D_, weight, values + j * D_, D_);
        }
      }
    });
  }
  // `count` rows from `row` on: where they lie, or decoded once for all queries.
  auto elements(const void* plane, const void* scales, int64_t row, int64_t count) {
    if constexpr (kIsCoded<K>) {
      using Byte = std::conditional_t<std::is_same_v<K, Int4>, uint8_t, K>;
      using Scale = std::conditional_t<std::is_same_v<K, Int4>, BFloat16, float>;
      for (int64_t j = 0; j < count; ++j) {
        decode_row(decoded_.data() + j * D_, static_cast<const Byte*>(plane) + (row + j) * layout_.elements,
                   static_cast<const Scale*>(scales) + (row + j) * layout_.scales, D_);
      }
      return static_cast<const T*>(decoded_.data());
    } else {
      (void)scales, (void)count;
      return static_cast<const K*>(plane) + row * D_;
    }
  }
  static T scale_of(const void* scales, int64_t row) {
    return static_cast<T>(static_cast<const float*>(scales)[row]);
  }
  // Prefetching has no effect on the result, and may name an address outside of the memory.
  void prefetch_row(const void* plane, int64_t row) const {
    const int64_t bytes = layout_.elements * static_cast<int64_t>(sizeof(K));  // coded elements are bytes
    for (int64_t i = 0; i < bytes; i += 64)
      __builtin_prefetch(static_cast<const char*>(plane) + row * bytes + i);
  }
  // The tokens of the run from t on that query row r sees: [seen_from, seen_to).
  int64_t seen_from(int64_t r, int64_t t) const { return std::max<int64_t>(0, first_[r] - t); }
  int64_t seen_to(int64_t r, int64_t t, int64_t count) const { return std::min(count, last_[r] - t); }

  template <class F>
  void for_each_run(int64_t begin, int64_t end, F&& f) const {
    for (int64_t t = begin; t < end;) {
      const KvRun run = kv_.run(b_, t, end);
      f(t, kv_.row_of(run, g_), run.count);
      t += run.count;
    }
  }

  // score = e^(score - largest), for the tokens that row r sees; the largest includes them.
  void exponentiate(int64_t r, int64_t begin, int64_t end, OnlineRow<T>& state, T* sum) {
    const int64_t from = seen_from(r, begin), to = seen_to(r, begin, end - begin);
    if (from >= to) return;
    T* const score = score_[r];
    T top = state.largest;
    for (int64_t j = from; j < to; ++j) top = top > score[j] ? top : score[j];
    state.raise(top, sum, D_);
    if (top == OnlineRow<T>::kNone) top = 0;  // e^-infinity is 0
    T weight = 0;
    for (int64_t j = from; j < to; ++j) {
      score[j] = math::exp<math::Range::below_zero>(score[j] - top);
      weight += score[j];
    }
    state.weight += weight;
  }

  const KvView& kv_;
  int64_t D_, b_, g_, rows_;
  const T* q_;
  Scratch<T> decoded_;  // [kBlock, D]
  KvRowLayout layout_ = kv_row_layout(kv_.format, kv_.dtype, D_);
  int64_t first_[kDecodeRows], last_[kDecodeRows];  // the tokens that a row sees: [first, last)
  T score_[kDecodeRows][kBlock];
};

// The rows of a step, and the tasks they are divided into: a task is a group of rows of one sequence and one
// head of keys, and, if there are too few of these for all threads, one split of its tokens.
template <class T, class K>
class DecodeStep {
 public:
  DecodeStep(const View& out, const View& q, const KvView& kv, double scale, int64_t window)
      : out_(out),
        q_(q),
        kv_(kv),
        scale_(static_cast<T>(scale)),
        window_(window),
        shared_(q.shape[1] / kv.groups),
        count_(group_count()),
        groups_(count_) {
    int64_t i = 0;
    for (int64_t b = 0; b < kv.batch; ++b) {
      for (int64_t g = 0; g < kv.groups; ++g) {
        for (int64_t r = 0; r < rows_of(b); r += kDecodeRows)
          groups_.data()[i++] = {b, g, r, std::min(kDecodeRows, rows_of(b) - r)};
      }
      most_splits_ = std::max(most_splits_, splits_of(b));
    }
  }

  void run() {
    const bool by_splits = most_splits_ > 1 && count_ < 4 * thread_count();
    const int64_t splits = by_splits ? most_splits_ : 1, D = kv_.head_size;
    const int64_t length = kDecodeRows * D;
    Scratch<T> sums(count_ * splits * length);
    Scratch<OnlineRow<T>> states(count_ * splits * kDecodeRows);
    int64_t tokens = 0;
    for (int64_t b = 0; b < kv_.batch; ++b) tokens += kv_.held(kv_.lengths[b]);
    const bool parallel = 4 * tokens * q_.shape[1] * D > kParallelFlops;
    maybe_parallel(parallel, count_ * splits, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Group& group = groups_.data()[i / splits];
        OnlineRow<T>* const state = states.data() + i * kDecodeRows;
        if (by_splits) {
          attend(group, i % splits, i % splits + 1, state, sums.data() + i * length);
        } else {
          attend(group, 0, splits_of(group.sequence), state, sums.data() + i * length);
          store(group, state, sums.data() + i * length);
        }
      }
    });
    if (!by_splits) return;
    maybe_parallel(parallel, count_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        OnlineRow<T>* const state = states.data() + i * splits * kDecodeRows;
        T* const sum = sums.data() + i * splits * length;
        const Group& group = groups_.data()[i];
        for (int64_t s = 1; s < splits_of(group.sequence); ++s)
          merge(group.rows, state, sum, state + s * kDecodeRows, sum + s * length);
        store(group, state, sum);
      }
    });
  }

 private:
  struct Group {
    int64_t sequence, head, first, rows;  // head of the keys; rows first to first + rows of the sequence's
  };

  int64_t rows_of(int64_t b) const { return (kv_.first_row[b + 1] - kv_.first_row[b]) * shared_; }
  int64_t splits_of(int64_t b) const { return ceil_div(kv_.held(kv_.lengths[b]), kSplit); }
  int64_t group_count() const {
    int64_t count = 0;
    for (int64_t b = 0; b < kv_.batch; ++b) count += kv_.groups * ceil_div(rows_of(b), kDecodeRows);
    return count;
  }

  // The row `r` of a sequence: rows are numbered by token, then by query head of the group.
  int64_t token_of(const Group& group, int64_t r) const {
    return kv_.first_row[group.sequence] + (group.first + r) / shared_;
  }
  int64_t head_of(const Group& group, int64_t r) const {
    return group.head * shared_ + (group.first + r) % shared_;
  }

  // The softmax of a group's rows over splits [from, to) of the tokens.
  void attend(const Group& group, int64_t from, int64_t to, OnlineRow<T>* state, T* sums) const {
    const int64_t D = kv_.head_size, length = kv_.lengths[group.sequence];
    const int64_t past = length - (kv_.first_row[group.sequence + 1] - kv_.first_row[group.sequence]);
    Scratch<T> scratch(2 * kDecodeRows * D);
    T* const q = scratch.data();
    T* const part = q + kDecodeRows * D;
    int64_t position[kDecodeRows];
    dispatch(q_.dtype, [&]<class S>(S*) {
      for (int64_t r = 0; r < group.rows; ++r) {
        const S* const x =
            q_.as<const S>() + token_of(group, r) * q_.strides[0] + head_of(group, r) * q_.strides[1];
        for (int64_t d = 0; d < D; ++d) q[r * D + d] = convert<T>(x[d * q_.strides[2]]) * scale_;
        position[r] = past + (group.first + r) / shared_;
        if constexpr (std::is_same_v<K, Int4>) rotate(q + r * D, D);  // as the keys are
      }
    });
    DecodeRows<T, K> rows(kv_, window_, group.sequence, group.head, q, position, group.rows);
    OnlineRow<T> own[kDecodeRows];
    const int64_t held = kv_.held(length);
    if (from >= to) {  // a sequence without tokens
      std::fill_n(state, group.rows, OnlineRow<T>{});
      std::fill_n(sums, group.rows * D, T(0));
    }
    for (int64_t s = from; s < to; ++s) {
      const bool first = s == from;
      rows.run(s * kSplit, std::min((s + 1) * kSplit, held), first ? state : own, first ? sums : part);
      if (!first) merge(group.rows, state, sums, own, part);
    }
  }
  void merge(int64_t rows, OnlineRow<T>* state, T* sums, const OnlineRow<T>* own, const T* part) const {
    const int64_t D = kv_.head_size;
    for (int64_t r = 0; r < rows; ++r) state[r].merge(own[r], sums + r * D, part + r * D, D);
  }
  void store(const Group& group, const OnlineRow<T>* state, const T* sums) const {
    const int64_t D = kv_.head_size;
    dispatch(out_.dtype, [&]<class S>(S*) {
      for (int64_t r = 0; r < group.rows; ++r) {
        S* const to =
            out_.as<S>() + token_of(group, r) * out_.strides[0] + head_of(group, r) * out_.strides[1];
        const T inverse = state[r].weight == T(0) ? T(0) : T(1) / state[r].weight;
        for (int64_t d = 0; d < D; ++d) to[d * out_.strides[2]] = convert<S>(sums[r * D + d] * inverse);
      }
    });
  }

  const View &out_, &q_;
  const KvView& kv_;
  T scale_;
  int64_t window_;
  int64_t shared_;           // query heads of a head of keys
  int64_t most_splits_ = 0;  // of the longest sequence
  int64_t count_;            // groups
  Scratch<Group> groups_;
};

TT_API void attention_decode(const View& out, const View& q, const KvView& kv, double scale, int64_t window) {
  if (out.numel() == 0) return;
  const bool doubles = kv.format == KvFormat::of_dtype && kv.dtype == DType::f64;
  if (!is_floating(q.dtype) || (q.dtype == DType::f64) != doubles) {
    fail("TT-DTYPE-02",
         std::string("attention_decode: queries of ") + name_of(q.dtype) + " do not fit a cache of " +
             (kv.format == KvFormat::of_dtype ? name_of(kv.dtype) : name_of(kv.format)) +
             "\n  rule: f64 with f64, other floating dtypes with f32, bf16, f16, i8, fp8 and i4");
  }
  dispatch_format(kv, [&]<class K>(K*) {
    using T = std::conditional_t<std::is_same_v<K, double>, double, float>;
    DecodeStep<T, K>(out, q, kv, scale, window).run();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
