// KvCache: what all caches of keys and values have in common. A step appends tokens to some sequences and
// attends; when its last layer is done, the tokens belong to the cache.
//
// The frame of a course header: it has the given parts, and includes the functions of task 9.1. It is cut
// from the library's header by modules/frames.py.
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <tinytorch/kv_cache/attention_cache.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

struct KvCacheOptions {
  int64_t sequences = 1;
  int64_t capacity = 0;              // tokens of a sequence
  Device device = default_device();  // that of the model
  DType dtype = DType::f32;  // of the memory: f32, f64, bf16, f16, or i8 with a scale per token and head
  // fp8 or i4 stand for their own elements, whatever the dtype says (backend/kv_format.hpp).
  KvFormat format = KvFormat::of_dtype;
};

class KvCache : public AttentionCache {
 public:
  KvCache(const KvShape& shape, const KvCacheOptions& options, TT_LOC) : shape_(shape), options_(options) {
    if (!shape.exists() || shape.groups < 1 || shape.head_size < 1 || options.sequences < 1 ||
        options.capacity < 1) {
      fail("TT-KV-01",
           "a cache needs layers, groups, a head size, sequences and a capacity of at least 1\n  hint: "
           "model.kv_shape() has the first three; it has none for a model that does not use a cache",
           loc);
    }
    if (!is_floating(options.dtype) && options.dtype != DType::i8) {
      fail("TT-DTYPE-02",
           std::string("a cache cannot have elements of ") + name_of(options.dtype) +
               "\n  rule: f32, f64, bf16, f16 or i8",
           loc);
    }
    lengths_.assign(static_cast<size_t>(options.sequences), 0);
    if (options.device.is_cuda())
      step_.arrivals = zeros({options.sequences, shape.groups}, DType::i32, options.device, loc);
  }

  int64_t sequences() const { return options_.sequences; }
  int64_t capacity() const { return options_.capacity; }
  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
  const KvShape& shape() const { return shape_; }
  DType dtype() const { return options_.dtype; }
  KvFormat format() const { return options_.format; }
  int64_t bytes_per_token() const;                      // task 9.1
  void begin(std::span<const int64_t> counts, TT_LOC);  // task 9.1

  // Prepares the cache for graphs (transformer/graph_decode.hpp), which read the description of a step at the
  // same addresses in each replay: from now on begin() writes it to tensors that are never replaced.
  // A step of a graph has at most `most_rows` rows. Throws TT-KV-01 if an earlier call allowed fewer.
  void fix_addresses(int64_t most_rows, TT_LOC) {
    if (fixed_.defined() && fixed_rows() >= most_rows) return;
    if (fixed_.defined()) {
      fail("TT-KV-01",
           "fix_addresses: graphs know addresses for steps of " + std::to_string(fixed_rows()) +
               " rows, fewer than " + std::to_string(most_rows) + "\n  hint: use the larger number first",
           loc);
    }
    fixed_ = zeros({2 * sequences() + 1 + most_rows}, DType::i64, options_.device, loc);
    fix_table(loc);
  }
  // Pads the step after begin(): it has `rows` rows, of which those after the announced ones belong to no
  // sequence, and its kernels are launched for sequences of up to `longest` tokens. If the step has more rows
  // than there are sequences, they are launched for any number of new tokens of each.
  void pad_step(int64_t rows, int64_t longest, TT_LOC) {
    const bool valid = fixed_.defined() && explicit_ && rows >= rows_ && rows <= fixed_rows() &&
                       (step_.most_rows == 1 || rows > sequences()) && longest >= step_.longest;
    if (!valid) {
      fail("TT-KV-01",
           "pad_step: needs fix_addresses(), then begin(), and from " + std::to_string(rows_) + " to " +
               std::to_string(fixed_rows()) + " rows, got " + std::to_string(rows) +
               "\n  rule: a step with several tokens of a sequence has more rows than there are sequences",
           loc);
    }
    rows_ = rows, step_.longest = longest;
    if (rows > sequences()) step_.most_rows = rows;
  }
  void end_step();                                          // task 9.1
  void truncate(int64_t sequence, int64_t length, TT_LOC);  // task 9.1
  void clear() {
    for (int64_t b = 0; b < sequences(); ++b) truncate(b, 0);
  }

  int64_t position() const override {
    if (explicit_) return positions();  // throws: one number would be wrong for some tokens
    const bool equal =
        std::all_of(lengths_.begin(), lengths_.end(), [&](int64_t n) { return n == lengths_[0]; });
    if (equal) return lengths_[0];
    fail("TT-KV-01",
         "the sequences of this cache have different lengths\n  hint: call begin() with the number of tokens "
         "of each, and pass the tokens of all in one row");
  }
  inline Positions positions() const override;  // task 9.1

  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                const AttentionOptions& rules) override {
    if (!rules.causal || rules.dropout > 0 || rules.lengths.defined())
      fail("TT-KV-04", "attention to a cache is causal, without dropout and without lengths");
    const KvMemory memory = begin_layer(layer, k);
    const int64_t B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3);
    // The first step of all sequences sees its own tokens alone. They are still in q, k and v, which the
    // kernel for whole sequences reads as tiles of matrix products.
    const bool fresh = !explicit_ && T > 1 && memory.longest == T && keeps_all_of(T);
    Tensor y;
    if (fresh) {
      kv_append(memory, rows_of(k), rows_of(v));
      y = scaled_dot_product_attention(q, k, v, rules);
    } else if (memory.most_rows > 1 && !keeps_all_of(memory.longest)) {
      y = attend_one_by_one(memory, q, k, v, rules);
    } else {
      const Tensor out =
          append_and_attend(rows_of(q), rows_of(k), rows_of(v), memory, {rules.scale, rules.window});
      y = out.reshape({B, T, H, D}).transpose(1, 2);
    }
    end_layer(layer);
    return y;
  }
  Tensor attend_by(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Attend& f) override {
    const KvMemory memory = begin_layer(layer, k);
    const bool in_graph =
        fixed_.defined() && !options_.device.is_cpu();  // its lengths are only on the device
    if (in_graph || memory.key_scales.defined() || !keeps_all_of(memory.longest)) {
      fail("TT-KV-04",
           "attention that no kernel has, such as a soft cap, needs a cache of a floating dtype that keeps "
           "all "
           "tokens, outside of graphs\n  hint: a ContiguousCache or a PagedCache");
    }
    kv_append(memory, rows_of(k), rows_of(v));
    const int64_t B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3);
    const Tensor rows = rows_of(q);  // [B T, H, D]
    Tensors parts;
    int64_t first = 0;
    for (size_t b = 0; b < counts_.size(); ++b) {
      if (counts_[b] == 0) continue;
      const auto tokens = [&](const Tensor& planes) {
        return tokens_of(planes, memory.table, static_cast<int64_t>(b), lengths_[b] + counts_[b])
            .to(q.dtype());
      };
      const Tensor own = slice(rows, 0, first, first + counts_[b]).transpose(0, 1).unsqueeze(0);
      parts.push_back(f(own, tokens(memory.keys), tokens(memory.values)).select(0, 0).transpose(0, 1));
      first += counts_[b];
    }
    if (first < B * T) parts.push_back(zeros({B * T - first, H, D}, q.dtype(), q.device()));
    end_layer(layer);
    return cat(parts, 0).reshape({B, T, H, D}).transpose(1, 2);
  }
  inline KeysAndValues append(int64_t layer, const Tensor& k, const Tensor& v) override;  // task 9.1

 protected:
  // Gets memory for sequences of these lengths; nothing changes if it throws.
  virtual void make_room(std::span<const int64_t> /*lengths*/, Loc /*loc*/) {}
  virtual void shrink(int64_t /*sequence*/, int64_t /*length*/) {}
  virtual void fix_table(Loc /*loc*/) {}
  void set_length(int64_t sequence, int64_t length) { lengths_.at(static_cast<size_t>(sequence)) = length; }
  // False if a cache of so many tokens overwrites some of them.
  virtual bool keeps_all_of(int64_t /*tokens*/) const { return true; }
  // All keys and values of a layer, [B, G, S, D] of this dtype, or nothing if they are not in one piece. They
  // show the tokens of the running step once these are appended.
  virtual std::optional<KeysAndValues> in_one_piece(const KvMemory& /*memory*/, DType /*dtype*/) const {
    return std::nullopt;
  }
  virtual void require_room(int64_t sequence, int64_t length, Loc loc) const {
    if (length <= capacity()) return;
    fail("TT-KV-02",
         "sequence " + std::to_string(sequence) + " would have " + std::to_string(length) +
             " tokens, more than the capacity of " + std::to_string(capacity()) +
             "\n  hint: KvCacheOptions::capacity, or a RingCache, which keeps the last tokens",
         loc);
  }
  // Gives each layer empty planes [pages, G, page, D], and their scales. A derived cache calls it once.
  void add_layers(int64_t pages, int64_t page, Loc loc) {
    const backend::KvRowLayout row = row_layout();
    const Shape shape{pages, shape_.groups, page, row.elements},
        scales{pages, shape_.groups, page, row.scales};
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      KvMemory& m = layers_.emplace_back();
      m.keys = empty(shape, row.dtype, options_.device, loc);
      m.values = empty(shape, row.dtype, options_.device, loc);
      if (row.scales == 0) continue;
      m.key_scales = empty(scales, row.scale_dtype, options_.device, loc);
      m.value_scales = empty(scales, row.scale_dtype, options_.device, loc);
    }
    step_.format = options_.format, step_.head_size = shape_.head_size;
  }

  KvShape shape_;
  KvCacheOptions options_;
  std::vector<KvMemory> layers_;  // the planes of each layer
  KvMemory step_;                 // all but the planes: table, ring, and what the running step adds

 private:
  backend::KvRowLayout row_layout() const {
    return backend::kv_row_layout(options_.format, options_.dtype, shape_.head_size);
  }
  // Checks the new keys [B, G, T, D] of a layer, and begins a step at the first layer.
  KvMemory begin_layer(int64_t layer, const Tensor& k) {
    const int64_t B = k.size(0), T = k.size(2);
    if (layer == 0 && !explicit_) {
      if (B != sequences()) {
        fail("TT-KV-01", "a cache of " + std::to_string(sequences()) + " sequences got a batch of " +
                             std::to_string(B) +
                             "\n  hint: KvCacheOptions::sequences, or begin() for a step with some of them");
      }
      begin(std::vector<int64_t>(static_cast<size_t>(B), T));
      explicit_ = false;
    }
    if (B * T != rows_) {
      fail("TT-KV-01", "the step of this cache has " + std::to_string(rows_) + " tokens, and layer " +
                           std::to_string(layer) + " got " + std::to_string(B * T));
    }
    return memory_of(layer);
  }
  void end_layer(int64_t layer);                   // task 9.1
  std::vector<int64_t> positions_of_step() const;  // task 9.1
  // The first `length` tokens of a sequence, [1, G, length, D], of planes [pages, G, page, D].
  static Tensor tokens_of(const Tensor& planes, const Tensor& table, int64_t sequence, int64_t length) {
    const int64_t G = planes.size(1), page = planes.size(2), D = planes.size(3);
    const int64_t pages = ceil_div(length, page);
    const Tensor own =
        table.defined()
            ? index_select(planes, 0, slice(table.select(0, sequence), 0, 0, pages).to(DType::i64))
            : slice(planes, 0, sequence, sequence + 1);
    const Tensor tokens = own.transpose(0, 1).reshape({G, own.size(0) * page, D});
    return slice(tokens, 1, 0, length).unsqueeze(0);
  }
  // [B, H, T, D] as the rows of a step, [B T, H, D]
  static Tensor rows_of(const Tensor& x) {
    return x.transpose(1, 2).reshape({x.size(0) * x.size(2), x.size(1), x.size(3)});
  }
  // Attends to each token in a step of its own, because a token that overwrites another one would take it
  // from the earlier tokens of the same step.
  Tensor attend_one_by_one(KvMemory memory, const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& rules) const {
    if (explicit_) {
      fail("TT-KV-04",
           "a step of begin() with several tokens of a sequence does not fit a cache that overwrites "
           "tokens\n  hint: give each sequence one token a step");
    }
    std::vector<int64_t> first(static_cast<size_t>(sequences()) + 1), after = lengths_;
    std::iota(first.begin(), first.end(), int64_t{0});
    memory.first_row = from_data(first, {sequences() + 1}, options_.device);
    memory.most_rows = 1;
    Tensors parts;
    for (int64_t t = 0; t < q.size(2); ++t) {
      for (int64_t& length : after) ++length;
      memory.lengths = from_data(after, {sequences()}, options_.device);
      memory.longest = *std::max_element(after.begin(), after.end());
      const auto token = [&](const Tensor& x) { return rows_of(slice(x, 2, t, t + 1)); };
      kv_append(memory, token(k), token(v));
      parts.push_back(cached_attention(token(q), memory, {rules.scale, rules.window}).unsqueeze(2));
    }
    return cat(parts, 2);
  }

  int64_t fixed_rows() const { return fixed_.defined() ? fixed_.numel() - 2 * sequences() - 1 : 0; }

  void describe_step(const std::vector<int64_t>& after, Loc loc) {
    std::vector<int64_t> first(1, 0);
    for (const int64_t n : counts_) first.push_back(first.back() + n);
    rows_ = first.back();
    if (fixed_.defined()) {
      std::vector<int64_t> all = after;
      all.insert(all.end(), first.begin(), first.end());
      const std::vector<int64_t> each = positions_of_step();
      if (std::ssize(each) <= fixed_rows()) all.insert(all.end(), each.begin(), each.end());
      all.resize(static_cast<size_t>(fixed_.numel()));
      fixed_.copy_(from_data(all, {fixed_.numel()}, cpu, loc));
      step_.lengths = slice(fixed_, 0, 0, sequences());
      step_.first_row = slice(fixed_, 0, sequences(), 2 * sequences() + 1);
    } else {
      step_.lengths = from_data(after, {sequences()}, options_.device, loc);
      step_.first_row = from_data(first, {sequences() + 1}, options_.device, loc);
    }
    step_.longest = *std::max_element(after.begin(), after.end());
    step_.most_rows = *std::max_element(counts_.begin(), counts_.end());
    step_.tokens = std::accumulate(after.begin(), after.end(), int64_t{0});
  }
  KvMemory memory_of(int64_t layer) const {
    const KvMemory& planes = layers_.at(static_cast<size_t>(layer));
    KvMemory m = step_;
    m.keys = planes.keys, m.values = planes.values;
    m.key_scales = planes.key_scales, m.value_scales = planes.value_scales;
    return m;
  }

  std::vector<int64_t> lengths_;  // of the sequences, without the running step
  std::vector<int64_t> counts_;   // of the running step
  // i64: lengths [B], first_row [B + 1], positions [most rows], after fix_addresses()
  Tensor fixed_;
  bool explicit_ = false;  // begin() was called for the next or the running step
  int64_t rows_ = 0;       // of the running step
};

}  // namespace tinytorch::inline TT_BUILD

#include <tasks/kv_cache/cache.hpp>
