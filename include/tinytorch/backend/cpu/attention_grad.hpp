// Gradients of attention on the CPU, from out and lse. Probabilities are recomputed tile by tile:
//
//   p = e^(scale q k^T - lse)      dv = p^T dout      dp = dout v^T      ds = scale p (dp - sum(dout out))
//   dq = ds k                      dk = ds^T q
//
// The heads that share keys are one task, so that no two tasks add to one gradient, and the order of sums
// does not depend on the number of threads. Tiles have the layout of attention.hpp.
// Source: Dao, "FlashAttention-2", 2023.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Shapes as in attention(). dq has the shape of q, dk and dv that of k; all three are overwritten.
TT_API void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                           const View& k, const View& v, const View& out, const View& lse,
                           const AttentionParameters& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS)
#include <memory>
#include <tinytorch/backend/cpu/attention.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Packs B panels from x [rows, cols]: panels of kNR columns, each [kNR rows, kNR], zero-padded from `rows`
// on.
template <class T, class S>
void pack_b_panels(T* out, const Matrix<S>& x, int64_t rows, int64_t cols) {
  constexpr int64_t kWidth = kNR<T>;
  for (int64_t c = 0; c < cols; c += kWidth) {
    T* const panel = out + c * kWidth;
    std::fill_n(panel, kWidth * kWidth, T(0));
    pack_panel<kWidth>(panel, std::min(kWidth, cols - c), rows, x.data + c * x.col, x.col, x.row);
  }
}

// One group: one head of keys and values, and the heads of queries that use it.
template <class T, class S>
class AttentionGroupGrad {
 public:
  static constexpr int64_t kWidth = kNR<T>;

  AttentionGroupGrad(const AttentionParameters& parameters, int64_t batch, const Matrix<S>& k,
                     const Matrix<S>& v, int64_t queries, int64_t keys, int64_t D)
      : p_(parameters),
        batch_(batch),
        T_size_(queries),
        S_(keys),
        D_(D),
        padded_d_(ceil_div(D, kWidth) * kWidth),
        keys_(padded_rows(keys) * D),
        values_(padded_rows(keys) * D),
        features_(padded_rows(D) * keys),
        dk_(padded_rows(keys) * padded_d_),
        dv_(padded_rows(keys) * padded_d_),
        query_(D * kWidth),
        dout_(D * kWidth),
        query_b_(padded_d_ * kWidth),
        dout_b_(padded_d_ * kWidth),
        dq_(padded_rows(D) * kWidth) {
    pack_by_rows(keys_.data(), k, keys, D);
    pack_by_rows(values_.data(), v, keys, D);
    pack_by_columns(features_.data(), k, keys, D);
    finite_keys_ = all_finite(features_.data(), padded_rows(D) * keys);
    std::fill_n(dk_.data(), padded_rows(keys) * padded_d_, T(0));
    std::fill_n(dv_.data(), padded_rows(keys) * padded_d_, T(0));
  }

  // Adds a tile of `count` queries of one head, from query t0 on, to dk and dv, and writes its dq. lse [T].
  // first_query as in AttentionTile::run.
  void add(S* dq, int64_t dq_row, int64_t dq_col, const Matrix<S>& dout, const Matrix<S>& q,
           const Matrix<S>& out, const T* lse, int64_t t0, int64_t count, int64_t first_query) {
    const Matrix<S> tile_q{q.data + t0 * q.row, q.row, q.col},
        tile_dout{dout.data + t0 * dout.row, dout.row, dout.col};
    pack_panel<kWidth>(dout_.data(), count, D_, tile_dout.data, dout.row, dout.col);
    // delta [kWidth] = sum over d of dout out. It sums across the rows of a panel, so out is packed, too, in
    // the buffer that q uses next.
    pack_panel<kWidth>(query_.data(), count, D_, out.data + t0 * out.row, out.row, out.col);
    std::fill_n(delta_, kWidth, T(0));
    for (int64_t d = 0; d < D_; ++d) {
      TT_SIMD
      for (int64_t i = 0; i < kWidth; ++i)
        delta_[i] += query_.data()[d * kWidth + i] * dout_.data()[d * kWidth + i];
    }
    pack_panel<kWidth>(query_.data(), count, D_, tile_q.data, q.row, q.col);
    pack_b_panels(query_b_.data(), tile_q, count, D_);
    pack_b_panels(dout_b_.data(), tile_dout, count, D_);
    finite_queries_ = all_finite(query_b_.data(), padded_d_ * kWidth);
    finite_dout_ = all_finite(dout_b_.data(), padded_d_ * kWidth);
    for (int64_t i = 0; i < kWidth; ++i) {
      // A missing query, or one that sees no key, gets lse = infinity, so its probabilities are e^-inf = 0.
      lse_[i] = i < count && std::isfinite(lse[t0 + i]) ? lse[t0 + i] : -kMinusInfinity;
      if (i < count && std::isnan(lse[t0 + i])) lse_[i] = lse[t0 + i];
    }
    std::fill_n(dq_.data(), padded_rows(D_) * kWidth, T(0));
    const VisibleKeys<kWidth> visible(p_, batch_, t0, count, T_size_, S_);
    for (int64_t k0 = visible.begin; k0 < visible.end; k0 += kKeyBlock) {
      add_block(visible, k0, std::min(kKeyBlock, visible.end - k0), count, first_query);
    }
    for (int64_t i = 0; i < count; ++i) {
      S* const to = dq + (t0 + i) * dq_row;
      for (int64_t d = 0; d < D_; ++d) to[d * dq_col] = convert<S>(dq_.data()[d * kWidth + i]);
    }
  }
  // Writes dk and dv of the group.
  void store(S* dk, int64_t dk_row, int64_t dk_col, S* dv, int64_t dv_row, int64_t dv_col) {
    for (int64_t j = 0; j < S_; ++j) {
      for (int64_t d = 0; d < D_; ++d) {
        dk[j * dk_row + d * dk_col] = convert<S>(dk_.data()[j * padded_d_ + d]);
        dv[j * dv_row + d * dv_col] = convert<S>(dv_.data()[j * padded_d_ + d]);
      }
    }
  }

 private:
  static constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

  // Adds the keys [k0, k0 + rows).
  void add_block(const VisibleKeys<kWidth>& visible, int64_t k0, int64_t rows, int64_t count,
                 int64_t first_query) {
    for (int64_t j = 0; j < rows; j += kMR) {
      micro_kernel<T>(D_, keys_.data() + (k0 + j) * D_, query_.data(), p_tile_ + j * kWidth, kWidth, false);
      micro_kernel<T>(D_, values_.data() + (k0 + j) * D_, dout_.data(), ds_tile_ + j * kWidth, kWidth, false);
    }
    const T scale = static_cast<T>(p_.scale);
    apply_dropout<T, kWidth>(ds_tile_, p_, first_query, count, k0, rows, S_);
    for (int64_t j = 0; j < rows; ++j) {
      T *const p = p_tile_ + j * kWidth, *const ds = ds_tile_ + j * kWidth;
      TT_SIMD
      for (int64_t i = 0; i < kWidth; ++i) {
        p[i] = math::exp<math::Range::below_zero>(p[i] * scale - lse_[i]);
        ds[i] = scale * p[i] * (ds[i] - delta_[i]);
      }
    }
    visible.mask(p_tile_, k0, rows, T(0));
    visible.mask(ds_tile_, k0, rows, T(0));
    apply_dropout<T, kWidth>(p_tile_, p_, first_query, count, k0, rows, S_);
    add_keys(dq_.data(), features_.data(), ds_tile_, D_, S_, k0, rows, finite_keys_, visible);
    add_to_keys(dv_.data(), p_tile_, dout_b_.data(), k0, rows, finite_dout_, visible);
    add_to_keys(dk_.data(), ds_tile_, query_b_.data(), k0, rows, finite_queries_, visible);
  }
  // sum [keys, D] += tile [rows, kWidth queries] b [kWidth queries, D], for keys from k0 on; `finite` as in
  // add_keys.
  void add_to_keys(T* sum, const T* tile, const T* b, int64_t k0, int64_t rows, bool finite,
                   const VisibleKeys<kWidth>& visible) {
    if (!finite && !visible.all(k0, k0 + padded_rows(rows))) {  // padding rows count as keys
      visible.for_keys(k0, rows, [&](int64_t j, int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i) {
          for (int64_t d = 0; d < D_; ++d)
            sum[(k0 + j) * padded_d_ + d] +=
                tile[j * kWidth + i] * b[(d / kWidth * kWidth + i) * kWidth + d % kWidth];
        }
      });
      return;
    }
    alignas(64) T a[kMR * kWidth];
    for (int64_t j = 0; j < rows; j += kMR) {
      pack_panel<kMR>(a, std::min(kMR, rows - j), kWidth, tile + j * kWidth, kWidth, 1);
      for (int64_t c = 0; c < D_; c += kWidth) {
        micro_kernel<T>(kWidth, a, b + c * kWidth, sum + (k0 + j) * padded_d_ + c, padded_d_, true);
      }
    }
  }

  const AttentionParameters& p_;
  int64_t batch_, T_size_, S_, D_, padded_d_;  // padded_d_: D rounded up to a multiple of kWidth
  Scratch<T> keys_, values_, features_;        // packed: k and v by rows, k by columns
  Scratch<T> dk_, dv_;                         // [keys, padded_d_]
  Scratch<T> query_, dout_;                    // [D, kWidth]
  Scratch<T> query_b_, dout_b_, dq_;           // [kWidth, D] in panels; [D, kWidth]
  bool finite_keys_, finite_queries_ = true, finite_dout_ = true;
  alignas(64) T p_tile_[kKeyBlock * kWidth];
  alignas(64) T ds_tile_[kKeyBlock * kWidth];
  alignas(64) T lse_[kWidth];
  alignas(64) T delta_[kWidth];
};

template <class T, class S>
void attention_grad_as(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                       const View& k, const View& v, const View& out, const View& lse,
                       const AttentionParameters& p) {
  constexpr int64_t kWidth = kNR<T>;
  const int64_t B = q.shape[0], H = q.shape[1], queries = q.shape[2], D = q.shape[3], G = k.shape[1],
                keys = k.shape[2];
  const auto head_data = [](const View& x, int64_t batch, int64_t head) {
    return x.as<S>() + batch * x.strides[0] + head * x.strides[1];
  };
  const bool parallel = 10 * B * H * queries * keys * D > kParallelFlops;
  maybe_parallel(parallel, B * G, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t batch = i / G, g = i % G;
      // On the heap, because its tiles are large for the stack of a thread.
      const auto group = std::make_unique<AttentionGroupGrad<T, S>>(
          p, batch, head_of<S>(k, batch, g), head_of<S>(v, batch, g), queries, keys, D);
      for (int64_t head = g * (H / G); head < (g + 1) * (H / G); ++head) {
        const int64_t first_query = (batch * H + head) * queries;
        for (int64_t t0 = 0; t0 < queries; t0 += kWidth) {
          group->add(head_data(dq, batch, head), dq.strides[2], dq.strides[3], head_of<S>(dout, batch, head),
                     head_of<S>(q, batch, head), head_of<S>(out, batch, head),
                     lse.as<const T>() + first_query, t0, std::min(kWidth, queries - t0), first_query + t0);
        }
      }
      group->store(head_data(dk, batch, g), dk.strides[2], dk.strides[3], head_data(dv, batch, g),
                   dv.strides[2], dv.strides[3]);
    }
  });
}

TT_API void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                           const View& k, const View& v, const View& out, const View& lse,
                           const AttentionParameters& parameters) {
  dispatch_floating(q.dtype, [&]<class T>(T*) {
    dispatch_source<T>(q.dtype, [&]<class S>(const S*) {
      attention_grad_as<T, S>(dq, dk, dv, dout, q, k, v, out, lse, parameters);
    });
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
