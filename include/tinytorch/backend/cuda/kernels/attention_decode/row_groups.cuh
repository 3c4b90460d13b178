// Groups of query rows for attention to a cache. A block computes a group at a time: up to `rows` query rows
// of one sequence that share a head of keys, numbered by token, then by query head.
//
// If no sequence has more rows than a group, sequence b has group b. Otherwise its groups begin at
//
//   begin(b) = floor(first_row[b] shared / rows) + b
//
// which needs no sum over the other sequences. A sequence with n tokens in the step has ceil(n shared / rows)
// groups, and with x = first_row[b] shared / rows and y = n shared / rows,
//
//   floor(x) + ceil(y) <= ceil(x + y) <= floor(x + y) + 1
//
// shows that they end before those of the next sequence begin, and that those of the last one end before
// ceil(N shared / rows) + B - 1, where N counts all rows of the step. At most B - 1 of these groups have no
// rows, besides those that the rows which pad a step would fill.
#pragma once

#include <tinytorch/backend/cuda/kernels/kv_append.cuh>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct RowGroups {
  int64_t count;  // of a head of keys
  bool one_each;  // sequence b has group b
};

// step_rows: N, with those that pad the step.
inline RowGroups row_groups(const KvView& kv, int64_t step_rows, int64_t shared, int64_t rows) {
  if (kv.most_rows * shared <= rows) return {kv.batch, true};
  return {ceil_div(step_rows * shared, rows) + kv.batch - 1, false};
}

// Group `line` of those of all heads of keys: rows r0 to r0 + rows of sequence b and head g of the keys. Some
// or all of these rows may not exist. Groups that follow one another read the same keys if a sequence has
// several.
template <class Int>
struct RowGroup {
  Int b, g, r0;

  // rows: a constant, so that the divisions by it are shifts.
  __device__ __forceinline__ RowGroup(const KvView& kv, const RowGroups& groups, Int shared, Int rows,
                                      Int line) {
    if (groups.one_each) {
      const auto heads = static_cast<Int>(kv.groups);
      b = line / heads, g = line % heads, r0 = 0;
      return;
    }
    const auto count = static_cast<Int>(groups.count);
    const Int group = line % count;
    g = line / count;
    const auto begin = [&](Int sequence) {
      return static_cast<Int>(kv.first_row[sequence]) * shared / rows + sequence;
    };
    b = 0;  // the last sequence whose groups begin at `group` or before
    for (auto end = static_cast<Int>(kv.batch); end - b > 1;) {
      const Int middle = (b + end) / 2;
      if (begin(middle) <= group)
        b = middle;
      else
        end = middle;
    }
    r0 = (group - begin(b)) * rows;
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
