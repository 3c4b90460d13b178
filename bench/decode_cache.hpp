// A cache of random keys and values for the benchmarks of decoding: its shape, its bytes and its memory.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tinytorch/tinytorch.hpp>
#include <utility>
#include <vector>

namespace bench {

namespace tt = tinytorch;

inline constexpr std::pair<tt::DType, tt::KvFormat> kCacheFormats[] = {{tt::bf16, tt::KvFormat::of_dtype},
                                                                       {tt::i8, tt::KvFormat::of_dtype},
                                                                       {tt::bf16, tt::KvFormat::fp8},
                                                                       {tt::bf16, tt::KvFormat::i4}};

// Attention of one new token of each sequence to a cache, and what the cache looks like.
struct DecodeShape {
  int64_t sequences = 32, tokens = 4096, heads = 32, groups = 8, head_size = 128;
  int64_t page = 64;  // 0: one page per sequence
  tt::DType cache = tt::bf16;
  tt::KvFormat format = tt::KvFormat::of_dtype;

  static DecodeShape of(const std::map<std::string, int64_t>& options) {
    const auto at = [&](const char* name) { return options.at(name); };
    return {at("sequences"),
            at("tokens"),
            at("heads"),
            at("groups"),
            at("head_size"),
            at("page"),
            static_cast<tt::DType>(at("cache")),
            static_cast<tt::KvFormat>(at("format"))};
  }
  std::map<std::string, int64_t> options() const {
    return {{"sequences", sequences},
            {"tokens", tokens},
            {"heads", heads},
            {"groups", groups},
            {"head_size", head_size},
            {"page", page},
            {"cache", static_cast<int64_t>(cache)},
            {"format", static_cast<int64_t>(format)}};
  }
  std::string str() const {
    return std::to_string(sequences) + "x" + std::to_string(tokens) + ", " + std::to_string(heads) + "/" +
           std::to_string(groups) + " heads of " + std::to_string(head_size) + ", " +
           (page > 0 ? "page " + std::to_string(page) : "contiguous") + ", " + elements();
  }
  std::string elements() const { return format == tt::KvFormat::of_dtype ? name_of(cache) : name_of(format); }
  tt::backend::KvRowLayout row() const { return tt::backend::kv_row_layout(format, cache, head_size); }
  double token_bytes() const { return 2 * static_cast<double>(groups * row().bytes()); }
  double cache_bytes() const { return static_cast<double>(sequences * tokens) * token_bytes(); }
};

// A cache of random tokens. Its pages lie in the pool in an order that has nothing to do with that of the
// tokens.
inline tt::KvMemory filled_cache(const DecodeShape& shape, int64_t rows, tt::Device device) {
  const int64_t B = shape.sequences, page = shape.page > 0 ? shape.page : shape.tokens,
                width = (shape.tokens + page - 1) / page;
  const auto counts = [&](int64_t n, int64_t first, int64_t step) {
    return (tt::arange(0, n, 1, tt::i64, device) * step + first);
  };
  tt::KvMemory memory;
  const tt::backend::KvRowLayout row = shape.row();
  const tt::Shape pool{B * width, shape.groups, page, row.elements},
      scales{B * width, shape.groups, page, row.scales};
  for (tt::Tensor* x : {&memory.keys, &memory.values}) {
    const bool floats = tt::is_floating(row.dtype);
    *x = floats ? tt::randn(pool, tt::f32, device).to(row.dtype)
                : tt::randint(0, 127, pool, row.dtype, device);
  }
  if (row.scales > 0) {
    memory.key_scales = tt::full(scales, 0.02, row.scale_dtype, device);
    memory.value_scales = memory.key_scales.clone();
  }
  memory.format = shape.format, memory.head_size = shape.head_size;
  if (shape.page > 0) {
    std::vector<int32_t> table(static_cast<size_t>(B * width));
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(i);
    for (size_t i = table.size(); i > 1; --i) std::swap(table[i - 1], table[i * 7919 % 104'729 % i]);
    memory.table = tt::from_data(table, {B, width}, device);
  }
  memory.lengths = counts(B, shape.tokens, 0), memory.first_row = counts(B + 1, 0, rows);
  memory.longest = shape.tokens, memory.most_rows = rows, memory.tokens = B * shape.tokens;
  return memory;
}

}  // namespace bench
