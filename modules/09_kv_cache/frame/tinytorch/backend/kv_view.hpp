// KvView: where the keys and values of past tokens lie in memory. One description serves every kind of cache,
// so that one attention kernel reads them all.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.4. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <tinytorch/backend/kv_format.hpp>
#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// Tokens that follow one another both in the sequence and in memory.
struct KvRun {
  int64_t row;    // of the first token: index of a row [D] within a head's plane of its page
  int64_t page;   // number of the page in the pool
  int64_t count;  // tokens
};

struct KvView {
  void *keys = nullptr, *values = nullptr;  // [pages, G, page, elements of a row]
  // [pages, G, page, scales of a row]: what the numbers of a row or group are multiplied by, or null.
  void *key_scales = nullptr, *value_scales = nullptr;
  DType dtype = DType::f32;  // of the elements, if the format is of_dtype
  KvFormat format = KvFormat::of_dtype;
  int64_t batch = 0, groups = 0, head_size = 0;  // B, G, D
  int64_t page = 0;                              // tokens of a page
  const int32_t* table = nullptr;  // [B, table_width]; null: page b is the only page of sequence b
  int64_t table_width = 0;
  int64_t sinks = 0,
          ring = 0;  // ring > 0: slots behind the sinks, which tokens from `sinks` on share in turn
  // Both on the device of the memory. lengths [B] counts the tokens of each sequence, with those of the
  // running step. first_row [B + 1] numbers the rows of the step: rows first_row[b] to first_row[b + 1] are
  // the last tokens of sequence b. Rows from first_row[B] on pad the step: no kernel appends them, or writes
  // their results.
  const int64_t *lengths = nullptr, *first_row = nullptr;
  // Upper bounds of the lengths and of the rows of a sequence, which size the grid of a CUDA kernel. No bit
  // depends on them.
  int64_t longest = 0, most_rows = 0;
  // i32 [B, G] on the device, all zero between kernels, or null. The blocks of a CUDA kernel that compute
  // parts of one result count their arrivals here, so that the last one merges the parts.
  int32_t* arrivals = nullptr;

  TT_HOST_DEVICE int64_t slot(int64_t token) const;                       // task 9.4
  TT_HOST_DEVICE KvRun run(int64_t b, int64_t token, int64_t end) const;  // task 9.4
  TT_HOST_DEVICE int64_t row_of(const KvRun& r, int64_t g) const;         // task 9.4
  TT_HOST_DEVICE int64_t skipped(int64_t length) const;                   // task 9.4
  TT_HOST_DEVICE int64_t held(int64_t length) const { return length - skipped(length); }
  TT_HOST_DEVICE int64_t token_of(int64_t number, int64_t length) const;  // task 9.4
};

}  // namespace tinytorch::inline TT_BUILD::backend

#include <tasks/backend/kv_view.hpp>
