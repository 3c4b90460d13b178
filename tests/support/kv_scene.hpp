// KvScene: caches of every kind that hold known tokens, and attention to them by the definition, in double.
//
// Steps of random length are appended one after another, as a generation does. The memory of a cache is
// filled with NaN first and lies between pages that belong to nobody, so that a kernel that reads a row which
// no token has written gives NaN.
#pragma once

#include <memory>
#include <numeric>
#include <optional>
#include <support/array.hpp>
#include <support/kv_numbers.hpp>
#include <tinytorch/backend/kv_view.hpp>

namespace test {

enum class KvKind { contiguous, ring, paged };

struct KvCase {
  KvKind kind = KvKind::contiguous;
  DType dtype = DType::f32;  // of the cache
  KvFormat format = KvFormat::of_dtype;
  DType queries = DType::f32;    // of q, k, v and the result
  std::vector<int64_t> past{5};  // tokens before the step, of each sequence
  std::vector<int64_t> rows{1};  // tokens of the step
  int64_t heads = 2, groups = 1, head_size = 8, page = 16;
  int64_t sinks = 0, ring = 0;  // of a ring
  int64_t window = 0;
  int64_t padding = 0;    // rows of each step behind those of the sequences
  int64_t most_rows = 0;  // the bound of a sequence's rows that the kernels get, if it is above their maximum
  uint64_t seed = 1;
};

inline bool equal_or_nan(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

// `Memory` is Array, or an array on a GPU with the same constructors, view() and values().
template <class Memory>
class KvScene {
 public:
  explicit KvScene(const KvCase& c)
      : case_(c),
        pages_(page_count()),
        all_pages_(pages_of_all()),
        layout_(backend::kv_row_layout(c.format, c.dtype, c.head_size)),
        shape_{pages_, c.groups, page_size(), layout_.elements},
        keys_(garbage(layout_.dtype, shape_)),
        values_(garbage(layout_.dtype, shape_)),
        key_scales_(scale_garbage()),
        value_scales_(scale_garbage()),
        table_(table()) {}

  int64_t sequences() const { return static_cast<int64_t>(case_.past.size()); }
  int64_t rows() const { return std::accumulate(case_.rows.begin(), case_.rows.end(), int64_t{0}); }

  // The rows of the step, with those that pad it.
  int64_t step_rows() const { return rows() + case_.padding; }

  // The cache during a step in which sequence b has `count[b]` new tokens after `past[b]` old ones.
  backend::KvView view(const std::vector<int64_t>& past, const std::vector<int64_t>& count) {
    std::vector<double> lengths, first{0};
    for (size_t b = 0; b < past.size(); ++b) {
      lengths.push_back(static_cast<double>(past[b] + count[b]));
      first.push_back(first.back() + static_cast<double>(count[b]));
    }
    lengths_.reset(new Memory(Memory::from(i64, {sequences()}, lengths)));
    first_row_.reset(new Memory(Memory::from(i64, {sequences() + 1}, first)));
    backend::KvView kv;
    kv.keys = keys_.view().data, kv.values = values_.view().data;
    if (layout_.scales > 0)
      kv.key_scales = key_scales_.view().data, kv.value_scales = value_scales_.view().data;
    kv.dtype = case_.dtype, kv.format = case_.format;
    kv.batch = sequences(), kv.groups = case_.groups, kv.head_size = case_.head_size, kv.page = page_size();
    if (case_.kind == KvKind::paged) {
      kv.table = table_.view().template as<int32_t>();
      kv.table_width = table_width();
    }
    if (case_.kind == KvKind::ring) kv.sinks = case_.sinks, kv.ring = case_.ring;
    kv.lengths = lengths_->view().template as<int64_t>();
    kv.first_row = first_row_->view().template as<int64_t>();
    kv.longest = static_cast<int64_t>(*std::max_element(lengths.begin(), lengths.end()));
    kv.most_rows = std::max(case_.most_rows, *std::max_element(count.begin(), count.end()));
    return kv;
  }

  // Appends the old tokens in steps of random lengths, then those of the step. append(kv, k, v) is the
  // kernel, and last(kv, k, v) that of the step.
  template <class Append>
  void fill(Append&& append) {
    fill(append, append);
  }
  template <class Append, class Last>
  void fill(Append&& append, Last&& last) {
    Generator generator(case_.seed);
    std::vector<int64_t> past(case_.past.size(), 0);
    for (bool more = true; more;) {
      more = false;
      std::vector<int64_t> count;
      for (size_t b = 0; b < past.size(); ++b) {
        const int64_t left = case_.past[b] - past[b];
        count.push_back(std::min<int64_t>(left, static_cast<int64_t>(generator.uniform(0, 7))));
        more = more || left > 0;
      }
      step(past, count, append);
    }
    step(past, case_.rows, last);
  }

  // The value of element d of the key or value (`which` 0 or 1) of a token's head, as the caller passes it.
  double original(int which, int64_t b, int64_t token, int64_t g, int64_t d) const {
    const auto block = static_cast<uint64_t>((b * 65536 + token) * 64 + g);
    const auto word = tinytorch::philox(case_.seed * 2 + static_cast<uint64_t>(which),
                                        block * 512 + static_cast<uint64_t>(d / 4))
                          .v[d % 4];
    const double x = static_cast<double>(word) / 0x1p31 - 1;
    return case_.queries == f64 ? x : rounded(case_.queries, x);
  }

  // The result for queries q [N, H, D], without rows that pad the step. For a format with a scale per group
  // it is computed from what the cache holds, so that the error of the kernel is separate from that of the
  // rounding.
  std::vector<double> expected(const std::vector<double>& q, double scale) {
    const int64_t D = case_.head_size, shared = case_.heads / case_.groups;
    std::vector<double> out(static_cast<size_t>(rows() * case_.heads * D));
    int64_t first = 0;
    for (size_t b = 0; b < case_.past.size(); ++b) {
      const int64_t length = case_.past[b] + case_.rows[b];
      for (int64_t h = 0; h < case_.heads; ++h) {
        const std::vector<double> keys = stored(0, static_cast<int64_t>(b), h / shared, length),
                                  values = stored(1, static_cast<int64_t>(b), h / shared, length);
        for (int64_t i = 0; i < case_.rows[b]; ++i) {
          const auto at = static_cast<size_t>(((first + i) * case_.heads + h) * D);
          one_row(out.data() + at, q.data() + at, scale, case_.past[b] + i, length, keys, values);
        }
      }
      first += case_.rows[b];
    }
    return out;
  }

  Memory& keys() { return keys_; }
  Memory& values() { return values_; }
  Memory& key_scales() { return key_scales_; }
  Memory& value_scales() { return value_scales_; }
  const backend::KvRowLayout& layout() const { return layout_; }

  // The key or value of a token as fp8 or i4 says, by the definition: a key of i4 is rotated back.
  std::vector<double> decoded(int which, int64_t b, int64_t token, int64_t g) {
    const Planes& planes = planes_of(which);
    const int64_t D = case_.head_size;
    const size_t row = row_of(b, token, g);
    const double* const codes = planes.codes.data() + row * static_cast<size_t>(layout_.elements);
    const double* const scales = planes.scales.data() + row * static_cast<size_t>(layout_.scales);
    std::vector<double> x;
    for (int64_t d = 0; d < D; ++d) {
      if (case_.format == KvFormat::fp8) {
        x.push_back(of_float8(static_cast<int>(codes[d])) * scales[0]);
      } else {
        const int byte = static_cast<int>(codes[d / 32 * 16 + d % 16]);
        x.push_back(((d % 32 < 16 ? byte % 16 : byte / 16) - 8) * scales[d / 32]);
      }
    }
    return which == 0 && case_.format == KvFormat::i4 ? hadamard(x) : x;
  }
  // True if no kernel has written a row of the memory that belongs to no token of the sequences.
  bool others_untouched() {
    std::vector<bool> held(static_cast<size_t>(pages_ * case_.groups * page_size()));
    for (size_t b = 0; b < case_.past.size(); ++b) {
      for (int64_t token = 0; token < case_.past[b] + case_.rows[b]; ++token) {
        for (int64_t g = 0; g < case_.groups; ++g) held[row_of(static_cast<int64_t>(b), token, g)] = true;
      }
    }
    const auto untouched = [&](const std::vector<double>& x, DType dtype) {
      for (size_t i = 0; i < x.size(); ++i) {
        if (!held[i / (x.size() / held.size())] && !equal_or_nan(x[i], garbage_of(dtype))) return false;
      }
      return true;
    };
    for (const int which : {0, 1}) {
      const Planes& planes = planes_of(which);
      if (!untouched(planes.codes, layout_.dtype) || !untouched(planes.scales, layout_.scale_dtype))
        return false;
    }
    return true;
  }
  // Pages that no sequence has.
  std::vector<int64_t> free_pages() const {
    std::vector<bool> held(static_cast<size_t>(pages_));
    for (const int32_t p : all_pages_) held[static_cast<size_t>(p)] = true;
    std::vector<int64_t> out;
    for (size_t p = 0; p < held.size(); ++p) {
      if (!held[p]) out.push_back(static_cast<int64_t>(p));
    }
    return out;
  }

 private:
  struct Planes {
    std::vector<double> codes, scales;
  };
  // The content of the cache, which is read once.
  const Planes& planes_of(int which) {
    std::optional<Planes>& planes = planes_[which];
    if (!planes) {
      planes.emplace(Planes{(which == 0 ? keys_ : values_).values(),
                            (which == 0 ? key_scales_ : value_scales_).values()});
    }
    return *planes;
  }
  static double rounded(DType dtype, double x) {
    if (dtype == DType::bf16) return static_cast<double>(BFloat16(x));
    if (dtype == DType::f16) return static_cast<double>(Half(x));
    return static_cast<double>(static_cast<float>(x));
  }
  static Memory garbage(DType dtype, const Shape& shape) {
    return Memory::from(dtype, shape,
                        std::vector<double>(static_cast<size_t>(shape.numel()), garbage_of(dtype)));
  }
  static double garbage_of(DType dtype) { return is_floating(dtype) ? NAN : 85; }
  Memory scale_garbage() const {
    return garbage(layout_.scale_dtype,
                   {pages_, case_.groups, page_size(), std::max<int64_t>(layout_.scales, 1)});
  }
  // The row of the pool that has a token.
  size_t row_of(int64_t b, int64_t token, int64_t g) const {
    backend::KvView kv;
    if (case_.kind == KvKind::ring) kv.sinks = case_.sinks, kv.ring = case_.ring;
    const int64_t s = kv.slot(token), page = s / page_size();
    const int64_t p =
        case_.kind == KvKind::paged ? all_pages_[static_cast<size_t>(b * table_width() + page)] : b;
    return static_cast<size_t>((p * case_.groups + g) * page_size() + s % page_size());
  }
  int64_t longest() const {
    int64_t n = 1;
    for (size_t b = 0; b < case_.past.size(); ++b) n = std::max(n, case_.past[b] + case_.rows[b]);
    return n;
  }
  int64_t page_size() const {
    return case_.kind == KvKind::paged  ? case_.page
           : case_.kind == KvKind::ring ? case_.sinks + case_.ring
                                        : longest() + 3;
  }
  int64_t table_width() const { return (longest() + case_.page - 1) / case_.page; }
  int64_t page_count() const {
    return case_.kind == KvKind::paged ? sequences() * table_width() + 3 : sequences();
  }
  // Pages in an order that has nothing to do with that of the tokens.
  std::vector<int32_t> pages_of_all() const {
    std::vector<int32_t> all(static_cast<size_t>(sequences() * table_width()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i) + 1;
    Generator generator(case_.seed + 77);
    for (size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[static_cast<size_t>(generator.uniform(0, static_cast<double>(i)))]);
    return all;
  }
  Memory table() const {
    if (case_.kind != KvKind::paged) return Memory(i32, {1});
    return Memory::from(i32, {sequences(), table_width()},
                        std::vector<double>(all_pages_.begin(), all_pages_.end()));
  }

  template <class Append>
  void step(std::vector<int64_t>& past, const std::vector<int64_t>& count, Append&& append) {
    const int64_t N = std::accumulate(count.begin(), count.end(), case_.padding);
    const Shape shape{N, case_.groups, case_.head_size};
    std::vector<double> kv[2];
    for (int which = 0; which < 2; ++which) {
      for (size_t b = 0; b < past.size(); ++b) {
        for (int64_t i = 0; i < count[b]; ++i) {
          for (int64_t g = 0; g < case_.groups; ++g) {
            for (int64_t d = 0; d < case_.head_size; ++d)
              kv[which].push_back(original(which, static_cast<int64_t>(b), past[b] + i, g, d));
          }
        }
      }
      kv[which].resize(static_cast<size_t>(shape.numel()), 1000);  // of no sequence
    }
    Memory k = Memory::from(case_.queries, shape, kv[0], Layout::gaps),
           v = Memory::from(case_.queries, shape, kv[1]);
    append(view(past, count), k.view(), v.view());
    for (size_t b = 0; b < past.size(); ++b) past[b] += count[b];
  }

  // The rows of the keys or values of one head, as the cache stores them: [tokens, D].
  std::vector<double> stored(int which, int64_t b, int64_t g, int64_t tokens) {
    std::vector<double> rows;
    if (case_.format != KvFormat::of_dtype) {
      for (int64_t t = 0; t < tokens; ++t) {
        const std::vector<double> row = decoded(which, b, t, g);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      return rows;
    }
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t d = 0; d < case_.head_size; ++d) rows.push_back(original(which, b, t, g, d));
    }
    if (case_.dtype != DType::i8)
      return Array::from(case_.dtype, {static_cast<int64_t>(rows.size())}, rows).values();
    const auto D = static_cast<size_t>(case_.head_size);
    for (size_t first = 0; first < rows.size(); first += D) {
      double largest = 0;
      for (size_t d = 0; d < D; ++d) largest = std::max(largest, std::abs(rows[first + d]));
      const auto scale = static_cast<double>(static_cast<float>(largest / 127));
      for (size_t d = 0; d < D; ++d) {
        double& x = rows[first + d];
        x = largest == 0 ? 0 : std::nearbyint(x * (127 / largest)) * scale;
      }
    }
    return rows;
  }
  void one_row(double* out, const double* q, double scale, int64_t position, int64_t length,
               const std::vector<double>& keys, const std::vector<double>& values) const {
    const auto D = static_cast<size_t>(case_.head_size);
    std::vector<std::pair<size_t, double>> seen;  // token and score
    double top = -INFINITY, sum = 0;
    for (int64_t t = 0; t <= position; ++t) {
      if (case_.window > 0 && t <= position - case_.window) continue;
      if (case_.kind == KvKind::ring && t >= case_.sinks && t < length - case_.ring) continue;
      double s = 0;
      for (size_t d = 0; d < D; ++d) s += q[d] * keys[static_cast<size_t>(t) * D + d] * scale;
      seen.emplace_back(static_cast<size_t>(t), s);
      top = std::max(top, s);
    }
    for (const auto& [t, score] : seen) sum += std::exp(score - top);
    for (const auto& [t, score] : seen) {
      for (size_t d = 0; d < D; ++d) out[d] += std::exp(score - top) / sum * values[t * D + d];
    }
  }

  KvCase case_;
  int64_t pages_;
  std::vector<int32_t> all_pages_;  // of a paged cache: [sequences, table_width()]
  backend::KvRowLayout layout_;
  Shape shape_;
  Memory keys_, values_, key_scales_, value_scales_, table_;
  std::unique_ptr<Memory> lengths_, first_row_;  // of the running step
  std::optional<Planes> planes_[2];
};

}  // namespace test
