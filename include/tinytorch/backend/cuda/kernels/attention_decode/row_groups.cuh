// Groups of query rows for attention to a cache. A block computes a group at a time: up to `rows` query rows
// of one sequence that share a head of keys, numbered by token, then by query head.
//
// Each sequence may have as many groups as the one with most rows needs. Where that is more groups than the
// rows of the step fill, as beside a long prompt, the groups of sequence b begin at
//
//   begin(b) = floor(first_row[b] shared / rows) + b
//
// instead, which needs no sum over the other sequences. A sequence with n tokens in the step has
// ceil(n shared / rows) groups, and with x = first_row[b] shared / rows and y = n shared / rows,
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
  int64_t each;   // of a sequence; 0: they begin at begin(b)
};

// step_rows: N, with those that pad the step.
inline RowGroups row_groups(const KvView& kv, int64_t step_rows, int64_t shared, int64_t rows) {
  const int64_t each = std::max<int64_t>(1, ceil_div(kv.most_rows * shared, rows)),
                filled = ceil_div(step_rows * shared, rows) + kv.batch - 1;
  if (each == 1 || each * kv.batch <= filled) return {each * kv.batch, each};
  return {filled, 0};
}

// Group `line` of those of all heads of keys: rows r0 to r0 + rows of sequence b and head g of the keys. Some
// or all of these rows may not exist. Groups that follow one another read the same keys if a sequence has
// several.
template <class Int>
struct RowGroup {
  Int b, g, r0;

  // rows: a constant, so that the divisions by it are shifts. All lanes of a warp ask for the same line.
  __device__ __forceinline__ RowGroup(const KvView& kv, const RowGroups& groups, Int shared, Int rows,
                                      Int line) {
    if (groups.each > 0) {
      const auto each = static_cast<Int>(groups.each), heads = static_cast<Int>(kv.groups);
      const Int head = each == 1 ? line : line / each;
      b = head / heads, g = head % heads, r0 = (line - head * each) * rows;
      return;
    }
    const auto count = static_cast<Int>(groups.count);
    const Int group = line % count;
    g = line / count;
    const auto begin = [&](Int sequence) {
      return static_cast<Int>(kv.first_row[sequence]) * shared / rows + sequence;
    };
    // The last sequence whose groups begin at `group` or before. The lanes of a warp look at 32 of them at
    // the same time, because each look waits for memory.
    const auto lane = static_cast<Int>(threadIdx.x % kWarp);
    b = 0;
    for (auto left = static_cast<Int>(kv.batch); left > 1;) {
      const Int each = (left + kWarp - 1) / kWarp, at = lane * each;
      const unsigned begun = __ballot_sync(kAllLanes, at < left && begin(b + at) <= group);
      const Int last = static_cast<Int>(kWarp - 1 - __clz(static_cast<int>(begun))) * each;
      b += last;
      left = each < left - last ? each : left - last;
    }
    r0 = (group - begin(b)) * rows;
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
