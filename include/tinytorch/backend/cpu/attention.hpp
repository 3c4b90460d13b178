// Attention on the CPU: out = softmax(scale q k^T + mask) v, one tile of queries at a time (online softmax).
//
// The probabilities of a tile are computed for a block of keys at a time, with a running maximum and sum per
// query, and are never stored as a whole. Scores are transposed, [keys, queries], so that a vector holds
// adjacent queries: softmax needs no horizontal sums, and the scores are already a packed B panel of the
// micro-kernel (gemm/micro_kernel.hpp). Keys and values are packed once for all tiles; this copy is the only
// memory besides the operands.
// Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao,
// "FlashAttention-2", 2023.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// out, q [B, H, T, D], k, v [B, G, S, D] of one floating dtype, with any strides; G divides H. lse [B, H, T],
// contiguous f32 (f64 for f64): log of each query's sum of exponentials. A query that sees no key gives
// zeros, and its lse is -infinity.
TT_API void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionParameters& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/backend/cpu/loops/runs.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/scalar_math.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kKeyBlock = ceil_div(96, kMR) * kMR;  // keys per update of the online softmax

// The matrix [rows, cols] of one head of a tensor [B, H, rows, cols].
template <class S>
Matrix<S> head_of(const View& x, int64_t batch, int64_t head) {
  return {x.as<const S>() + batch * x.strides[0] + head * x.strides[1], x.strides[2], x.strides[3]};
}

// Packs A panels: pack_by_rows packs panels of kMR rows, each [cols, kMR]; pack_by_columns packs panels of
// kMR columns, each [rows, kMR].
template <class T, class S>
void pack_by_rows(T* out, const Matrix<S>& x, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; r += kMR) {
    pack_panel<kMR>(out + r * cols, std::min(kMR, rows - r), cols, x.data + r * x.row, x.row, x.col);
  }
}
template <class T, class S>
void pack_by_columns(T* out, const Matrix<S>& x, int64_t rows, int64_t cols) {
  pack_by_rows(out, Matrix<S>{x.data, x.col, x.row}, cols, rows);
}
inline int64_t padded_rows(int64_t n) { return ceil_div(n, kMR) * kMR; }

// The keys that each query of a tile sees: [first[i], last[i]).
template <int64_t kWidth>
struct VisibleKeys {
  int64_t first[kWidth], last[kWidth];  // both are non-decreasing
  int64_t begin, end;                   // range of keys that some query sees
  int64_t count;                        // queries of the tile; those from `count` on see no key

  VisibleKeys(const AttentionParameters& p, int64_t b, int64_t t0, int64_t queries, int64_t T, int64_t S)
      : begin(S), end(0), count(queries) {
    for (int64_t i = 0; i < kWidth; ++i) {
      const IndexRange range = p.keys_of(t0 + i, T, S, b);
      first[i] = i < count ? range.first : 0;
      last[i] = i < count ? range.last : 0;
      if (first[i] >= last[i]) continue;
      begin = std::min(begin, first[i]);
      end = std::max(end, last[i]);
    }
    begin = begin / kMR * kMR;
  }
  // True if every query of the tile attends to all keys in [k0, k1).
  bool all(int64_t k0, int64_t k1) const {
    for (int64_t i = 0; i < kWidth; ++i) {
      if (first[i] > k0 || last[i] < k1) return false;
    }
    return true;
  }
  // Calls f(j, lo, hi) for each of `rows` keys from k0 on: the queries in [lo, hi) see key k0 + j.
  template <class F>
  void for_keys(int64_t k0, int64_t rows, F&& f) const {
    int64_t lo = 0, hi = 0;
    for (int64_t j = 0; j < rows; ++j) {
      while (lo < count && last[lo] <= k0 + j) ++lo;
      while (hi < count && first[hi] <= k0 + j) ++hi;
      f(j, lo, std::max(lo, hi));
    }
  }
  // Masks x [rows, kWidth], whose rows are keys from k0 on: elements of queries that do not see the key
  // become `value`.
  template <class T>
  void mask(T* x, int64_t k0, int64_t rows, T value) const {
    if (all(k0, k0 + rows)) return;
    for_keys(k0, rows, [&](int64_t j, int64_t lo, int64_t hi) {
      std::fill(x + j * kWidth, x + j * kWidth + lo, value);
      std::fill(x + j * kWidth + hi, x + (j + 1) * kWidth, value);
    });
  }
};

// sum [D, kWidth] += x^T tile, with the keys [k0, k0 + rows) of x [S, D], packed by columns, and tile [rows,
// kWidth]. If x is not `finite`, each query adds only the keys that it sees: the tile holds 0 for the others,
// and 0 times infinity is NaN.
template <class T, int64_t kWidth>
void add_keys(T* sum, const T* x, const T* tile, int64_t D, int64_t S, int64_t k0, int64_t rows, bool finite,
              const VisibleKeys<kWidth>& visible) {
  if (finite || visible.all(k0, k0 + rows)) {
    for (int64_t d = 0; d < D; d += kMR)
      micro_kernel<T>(rows, x + d * S + k0 * kMR, tile, sum + d * kWidth, kWidth, true);
    return;
  }
  for (int64_t d = 0; d < D; ++d) {
    const T* const column = x + d / kMR * kMR * S + k0 * kMR + d % kMR;
    T part[kWidth] = {};
    visible.for_keys(k0, rows, [&](int64_t j, int64_t lo, int64_t hi) {
      for (int64_t i = lo; i < hi; ++i) part[i] += column[j * kMR] * tile[j * kWidth + i];
    });
    for (int64_t i = 0; i < kWidth; ++i) sum[d * kWidth + i] += part[i];
  }
}

// Dropout: multiplies x [rows, kWidth] by 0 or 1 / (1 - p), by the rule of AttentionParameters. first_query:
// index of the tile's first query among all queries of the call.
template <class T, int64_t kWidth>
void apply_dropout(T* x, const AttentionParameters& p, int64_t first_query, int64_t count, int64_t k0,
                   int64_t rows, int64_t S) {
  if (p.p == 0) return;
  const T scale = static_cast<T>(p.dropout_scale());
  const uint32_t limit = p.dropout_limit();
  for (int64_t i = 0; i < count; ++i) {
    PhiloxBlock words{};
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t key = k0 + j;
      if (j == 0 || key % 4 == 0) words = philox(p.seed, p.dropout_block(first_query + i, key, S));
      T& value = x[j * kWidth + i];
      value = words.v[key % 4] >= limit ? value * scale : T(0);
    }
  }
}

// One tile of `count` queries of one head, from query t0 on.
template <class T, class S>
class AttentionTile {
 public:
  static constexpr int64_t kWidth = kNR<T>;

  AttentionTile(const AttentionParameters& parameters, int64_t D, int64_t T_, int64_t keys)
      : p_(parameters), D_(D), T_size_(T_), S_(keys), scaled_q_(D * kWidth), sum_(padded_rows(D) * kWidth) {}

  // Computes the sums of a tile. keys and values are packed by rows and by columns; finite: all values are
  // finite. b: batch. first_query: index of query t0 among all queries of the call.
  void run(const Matrix<S>& q, const T* keys, const T* values, bool finite, int64_t b, int64_t t0,
           int64_t count, int64_t first_query) {
    pack_panel<kWidth>(scaled_q_.data(), count, D_, q.data + t0 * q.row, q.row, q.col);
    for (int64_t i = 0; i < D_ * kWidth; ++i) scaled_q_.data()[i] *= static_cast<T>(p_.scale);
    std::fill_n(sum_.data(), padded_rows(D_) * kWidth, T(0));
    std::fill_n(max_, kWidth, kMinusInfinity);
    std::fill_n(sum_exp_, kWidth, T(0));
    const VisibleKeys<kWidth> visible(p_, b, t0, count, T_size_, S_);
    for (int64_t k0 = visible.begin; k0 < visible.end; k0 += kKeyBlock) {
      const int64_t rows = std::min(kKeyBlock, visible.end - k0);
      for (int64_t j = 0; j < rows; j += kMR) {
        micro_kernel<T>(D_, keys + (k0 + j) * D_, scaled_q_.data(), score_ + j * kWidth, kWidth, false);
      }
      visible.mask(score_, k0, rows, kMinusInfinity);
      exponentiate(rows);
      apply_dropout<T, kWidth>(score_, p_, first_query, count, k0, rows, S_);
      add_keys(sum_.data(), values, score_, D_, S_, k0, rows, finite, visible);
    }
  }
  // Writes the tile's rows of the head's out [T, D] and lse [T].
  void store(S* out, int64_t row, int64_t col, T* lse, int64_t t0, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const T scale = sum_exp_[i] == T(0) ? T(0) : T(1) / sum_exp_[i];
      S* const to = out + (t0 + i) * row;
      for (int64_t d = 0; d < D_; ++d) to[d * col] = convert<S>(sum_.data()[d * kWidth + i] * scale);
      lse[t0 + i] = sum_exp_[i] == T(0) ? kMinusInfinity : max_[i] + std::log(sum_exp_[i]);
    }
  }

 private:
  static constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

  // Online softmax: rescales the sums to the new maximum, then score = e^(score - maximum).
  void exponentiate(int64_t rows) {
    alignas(64) T top[kWidth], factor[kWidth];
    std::copy_n(max_, kWidth, top);
    for (int64_t j = 0; j < rows; ++j) {
      TT_SIMD
      for (int64_t i = 0; i < kWidth; ++i) {
        const T x = score_[j * kWidth + i];
        top[i] = top[i] > x ? top[i] : x;
      }
    }
    TT_SIMD
    for (int64_t i = 0; i < kWidth; ++i) {
      max_[i] = math::exp<math::Range::below_zero>(
          max_[i] - (top[i] == kMinusInfinity ? T(0) : top[i]));  // e^-inf is 0: no keys so far
      factor[i] = max_[i];
      max_[i] = top[i];
      top[i] = top[i] == kMinusInfinity ? T(0) : top[i];
      sum_exp_[i] *= factor[i];
    }
    for (int64_t j = 0; j < rows; ++j) {
      T* const x = score_ + j * kWidth;
      TT_SIMD
      for (int64_t i = 0; i < kWidth; ++i) {
        x[i] = math::exp<math::Range::below_zero>(x[i] - top[i]);
        sum_exp_[i] += x[i];
      }
    }
    T* const sum = sum_.data();
    for (int64_t d = 0; d < D_; ++d) {
      TT_SIMD
      for (int64_t i = 0; i < kWidth; ++i) sum[d * kWidth + i] *= factor[i];
    }
  }

  const AttentionParameters& p_;
  int64_t D_, T_size_, S_;
  Scratch<T> scaled_q_, sum_;  // [D, kWidth]
  alignas(64) T score_[kKeyBlock * kWidth];
  alignas(64) T max_[kWidth];
  alignas(64) T sum_exp_[kWidth];
};

template <class T, class S>
void attention_as(const View& out, const View& lse, const View& q, const View& k, const View& v,
                  const AttentionParameters& p) {
  constexpr int64_t kWidth = kNR<T>;
  const int64_t B = q.shape[0], H = q.shape[1], queries = q.shape[2], D = q.shape[3], G = k.shape[1],
                keys = k.shape[2];
  const int64_t key_size = padded_rows(keys) * D, value_size = padded_rows(D) * keys;
  Scratch<T> packed(B * G * (key_size + value_size));
  T* const values = packed.data() + B * G * key_size;
  Scratch<bool> finite(B * G);
  parallel_for(B * G * 2, grain_of(keys * D), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / 2;
      if (i % 2 == 0) {
        pack_by_rows(packed.data() + group * key_size, head_of<S>(k, group / G, group % G), keys, D);
      } else {
        pack_by_columns(values + group * value_size, head_of<S>(v, group / G, group % G), keys, D);
        finite.data()[group] = all_finite(values + group * value_size, value_size);
      }
    }
  });
  const int64_t tiles = ceil_div(queries, kWidth);
  const bool parallel = 4 * B * H * queries * keys * D > kParallelFlops;
  maybe_parallel(parallel, B * H * tiles, 1, [&](int64_t begin, int64_t end) {
    AttentionTile<T, S> tile(p, D, queries, keys);
    for (int64_t i = begin; i < end; ++i) {
      // Early and late tiles alternate, for load balance: with a causal mask, late tiles have more keys.
      const int64_t n = i % tiles, t = n % 2 == 0 ? n / 2 : tiles - 1 - n / 2;
      const int64_t batch = i / tiles / H, head = i / tiles % H, group = batch * G + head / (H / G);
      const int64_t first_query = (batch * H + head) * queries, t0 = t * kWidth,
                    count = std::min(kWidth, queries - t0);
      tile.run(head_of<S>(q, batch, head), packed.data() + group * key_size, values + group * value_size,
               finite.data()[group], batch, t0, count, first_query + t0);
      S* const to = out.as<S>() + batch * out.strides[0] + head * out.strides[1];
      tile.store(to, out.strides[2], out.strides[3], lse.as<T>() + first_query, t0, count);
    }
  });
}

TT_API void attention(const View& out, const View& lse, const View& q, const View& k, const View& v,
                      const AttentionParameters& parameters) {
  if (out.numel() == 0) return;
  dispatch_floating(q.dtype, [&]<class T>(T*) {
    dispatch_source<T>(q.dtype,
                       [&]<class S>(const S*) { attention_as<T, S>(out, lse, q, k, v, parameters); });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
