// KvView: where the keys and values of past tokens lie in memory. One description serves every kind of cache,
// so that one attention kernel reads them all.
//
//   token t of sequence b  ->  slot s  ->  row s % page of page table[b, s / page]
//
//   contiguous   s = t, and a sequence has one page, as long as its capacity
//   ring         the first `sinks` tokens keep their slots; later ones share the other slots in turn
//   paged        s = t, and the pages of 16 to 64 tokens lie anywhere in a pool
//
// A page holds the rows of each head in turn: row r of head g is row (p G + g) page + r of the pool, and has
// what kv_format.hpp says.
// Source: Kwon et al., "Efficient memory management for large language model serving with PagedAttention",
// 2023; the ring with sinks is from Xiao et al., "Efficient streaming language models", 2023.
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

  TT_HOST_DEVICE int64_t slot(int64_t token) const {
    return ring > 0 && token >= sinks ? sinks + (token - sinks) % ring : token;
  }
  // The longest run of tokens from `token` on, at most up to `end`, in sequence b.
  TT_HOST_DEVICE KvRun run(int64_t b, int64_t token, int64_t end) const {
    const int64_t s = slot(token);
    int64_t count = end - token < page - s % page ? end - token : page - s % page;
    if (ring > 0) {
      const int64_t next = s < sinks ? sinks : sinks + ring;  // the slot at which the run is interrupted
      count = count < next - s ? count : next - s;
    }
    return {s % page, table ? table[b * table_width + s / page] : b, count};
  }
  // The row of head g, in rows from the start of the pool.
  TT_HOST_DEVICE int64_t row_of(const KvRun& r, int64_t g) const {
    return (r.page * groups + g) * page + r.row;
  }
  // A sequence of `length` tokens still has held(length) of them: the sinks, and those behind the
  // skipped(length) tokens that were overwritten. They are numbered 0, 1, ... without a gap.
  TT_HOST_DEVICE int64_t skipped(int64_t length) const {
    return ring > 0 && length > sinks + ring ? length - sinks - ring : 0;
  }
  TT_HOST_DEVICE int64_t held(int64_t length) const { return length - skipped(length); }
  TT_HOST_DEVICE int64_t token_of(int64_t number, int64_t length) const {
    return number < sinks ? number : number + skipped(length);
  }
};

}  // namespace tinytorch::inline TT_BUILD::backend
