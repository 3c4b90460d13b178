// Attention of a few new tokens to all tokens of a cache: one pass over the cached keys and values.
//
// A key of D numbers is read for 2 D operations for each query that uses it, so reading is what takes the
// time: the cache is read once, and never copied. The queries that share a head of keys are computed
// together. Source: Dao et al., "Flash-Decoding for long-context inference", 2023.
//
// Task 9.2: add_token, attend_row. Task 9.5: attend_group. The given parts of this header are in
// modules/09_kv_cache/frame/tinytorch/backend/cpu/attention_decode.hpp, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Adds a token with this score and this value [D] to a query row: out [D] is the sum of e^(score - largest)
// times value. If the score is larger than all before, out and weight are first multiplied by
// e^(largest before - score).
template <class T>
void add_token(RunningSoftmax<T>& row, T* out, T score, const T* value, int64_t D) {
  if (score > row.largest) {
    const T factor = std::exp(row.largest - score);  // 0 at the first token
    row.weight *= factor;
    for (int64_t d = 0; d < D; ++d) out[d] *= factor;
    row.largest = score;
  }
  const T p = std::exp(score - row.largest);
  row.weight += p;
  for (int64_t d = 0; d < D; ++d) out[d] += p * value[d];
}

// out [D] = softmax over the tokens that row n of the step sees (scale q . key) times their values, for one
// query q [D] and head g of the keys of sequence b.
//
// The rows first_row[b] to first_row[b + 1] of the step are the last of the lengths[b] tokens of the
// sequence, so row n is at position lengths[b] - (first_row[b + 1] - n). It sees tokens up to its position,
// less than `window` away if window > 0. The cache has held(length) tokens; token_of(i, length) is the number
// of the i-th of them, and row_of(run(b, t, t + 1), g) is where it lies (read_cached_row). Zeros if it sees
// none.
template <class K, class T>
void attend_row(T* out, const T* q, const KvView& kv, int64_t b, int64_t g, int64_t n, T scale,
                int64_t window) {
  const int64_t D = kv.head_size, length = kv.lengths[b];
  const int64_t position = length - (kv.first_row[b + 1] - n);
  Scratch<T> key(D), value(D);
  RunningSoftmax<T> row;
  std::fill_n(out, D, T(0));
  for (int64_t i = 0; i < kv.held(length); ++i) {
    const int64_t t = kv.token_of(i, length);
    if (t > position || (window > 0 && position - t >= window)) continue;
    const int64_t at = kv.row_of(kv.run(b, t, t + 1), g);
    read_cached_row<K>(key.data(), kv.keys, kv.key_scales, at, D);
    read_cached_row<K>(value.data(), kv.values, kv.value_scales, at, D);
    add_token(row, out, scale * dot_of(q, key.data(), D), value.data(), D);
  }
  for (int64_t d = 0; d < D && row.weight > 0; ++d) out[d] /= row.weight;
}

// Computes attend_row for all queries of sequence b that share head g of the keys: those of `shared`
// neighbouring heads, g * shared and the following, of every row of the step. out, q [N, H, D] are those of
// the whole step, with H = groups * shared. Each key and each value is read once.
template <class K, class T>
void attend_group(T* out, const T* q, const KvView& kv, int64_t b, int64_t g, int64_t shared, T scale,
                  int64_t window) {
  const int64_t D = kv.head_size, H = kv.groups * shared, length = kv.lengths[b];
  const int64_t first = kv.first_row[b], count = kv.first_row[b + 1] - first;
  Scratch<T> key(D), value(D);
  std::vector<RunningSoftmax<T>> rows(static_cast<size_t>(count * shared));
  const auto place = [&](int64_t r) { return ((first + r / shared) * H + g * shared + r % shared) * D; };
  for (int64_t r = 0; r < count * shared; ++r) std::fill_n(out + place(r), D, T(0));
  for (int64_t i = 0; i < kv.held(length); ++i) {
    const int64_t t = kv.token_of(i, length), at = kv.row_of(kv.run(b, t, t + 1), g);
    read_cached_row<K>(key.data(), kv.keys, kv.key_scales, at, D);
    read_cached_row<K>(value.data(), kv.values, kv.value_scales, at, D);
    for (int64_t r = 0; r < count * shared; ++r) {
      const int64_t position = length - count + r / shared;
      if (t > position || (window > 0 && position - t >= window)) continue;
      const T score = scale * dot_of(q + place(r), key.data(), D);
      add_token(rows[static_cast<size_t>(r)], out + place(r), score, value.data(), D);
    }
  }
  for (int64_t r = 0; r < count * shared; ++r) {
    const T weight = rows[static_cast<size_t>(r)].weight;
    for (int64_t d = 0; d < D && weight > 0; ++d) out[place(r) + d] /= weight;
  }
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
