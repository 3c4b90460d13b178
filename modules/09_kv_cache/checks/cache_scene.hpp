// A cache that holds known tokens, in one piece, in a ring or in pages, and attention to them by the
// definition, in double.
//
// The scene places the tokens by rules of its own. Everything else in the memory is NaN: rows behind the last
// token, and pages that no sequence has. A kernel that reads them gives NaN.
#pragma once

#include <support/check.hpp>
#include <tinytorch/backend/kv_view.hpp>

namespace course {

enum class Kind { piece, ring, pages };

struct CacheCase {
  Kind kind = Kind::piece;
  std::vector<int64_t> past{4}, rows{1};  // tokens of each sequence before the step, and of the step
  int64_t heads = 1, groups = 1, head_size = 4;
  int64_t page = 4;
  int64_t sinks = 0, ring = 0;
  int64_t window = 0;
  DType cached = f32, queries = f32;
  double size = 1;  // magnitude of queries
  Layout layout = Layout::contiguous;

  int64_t sequences() const { return std::ssize(past); }
  int64_t length(int64_t b) const { return past[static_cast<size_t>(b)] + rows[static_cast<size_t>(b)]; }
  int64_t first(int64_t b) const { return std::accumulate(rows.begin(), rows.begin() + b, int64_t{0}); }
  int64_t steps() const { return first(sequences()); }
  int64_t longest() const {
    int64_t n = 1;
    for (int64_t b = 0; b < sequences(); ++b) n = std::max(n, length(b));
    return n;
  }
  std::string text() const {
    std::string s = kind == Kind::piece ? "one piece" : kind == Kind::ring ? "a ring" : "pages";
    if (kind == Kind::ring) s += " of " + shown(sinks) + " sinks and " + shown(ring) + " slots";
    if (kind == Kind::pages) s += " of " + shown(page) + " tokens";
    s += ", " + shown(heads) + " heads, " + shown(groups) + " of keys, of " + shown(head_size) +
         ", new tokens ";
    return s + shown(rows) + " behind " + shown(past) + (window > 0 ? ", window " + shown(window) : "") +
           ", " + name_of(queries) + " queries, " + name_of(cached) + " cache, " + name_of_layout(layout);
  }
};

inline Values placed(Values values) {
#if TINYTORCH_WITH_CUDA
  return std::move(values).on_device();
#else
  return values;
#endif
}

class CacheScene {
 public:
  // filled: the tokens are in the cache. Else its memory has none of the step's tokens, which `new_rows` has.
  explicit CacheScene(const CacheCase& given, bool filled = true) : c(given) {
    shuffle_pages();
    const Shape shape{pages_, c.groups, page(), c.head_size}, scales{pages_, c.groups, page()};
    for (int which = 0; which < 2; ++which) {
      draw(which);
      const auto poison = static_cast<size_t>(shape.numel());
      pool_numbers[which] = Numbers(poison, c.cached == i8 ? 85 : NAN);
      scale_numbers[which] = Numbers(static_cast<size_t>(scales.numel()), NAN);
      for (int64_t b = 0; b < c.sequences(); ++b) {
        const int64_t count = filled ? c.length(b) : c.past[static_cast<size_t>(b)];
        for (int64_t t = 0; t < count; ++t) put(which, b, t);
      }
      pool[which] = std::make_unique<Values>(placed(Values::of(c.cached, shape, pool_numbers[which])));
      scale[which] = std::make_unique<Values>(placed(Values::of(f32, scales, scale_numbers[which])));
    }
    Numbers lengths, first;
    for (int64_t b = 0; b < c.sequences(); ++b) lengths.push_back(static_cast<double>(c.length(b)));
    for (int64_t b = 0; b <= c.sequences(); ++b) first.push_back(static_cast<double>(c.first(b)));
    lengths_ = std::make_unique<Values>(placed(Values::of(i64, {c.sequences()}, lengths)));
    first_ = std::make_unique<Values>(placed(Values::of(i64, {c.sequences() + 1}, first)));
    table_ = std::make_unique<Values>(
        placed(Values::of(i32, {std::ssize(table)}, Numbers(table.begin(), table.end()))));
  }

  backend::KvView view() {
    backend::KvView kv;
    kv.keys = pool[0]->view().data, kv.values = pool[1]->view().data, kv.dtype = c.cached;
    if (c.cached == i8)
      kv.key_scales = scale[0]->view().as<float>(), kv.value_scales = scale[1]->view().as<float>();
    kv.batch = c.sequences(), kv.groups = c.groups, kv.head_size = c.head_size, kv.page = page();
    if (c.kind == Kind::pages) kv.table = table_->view().as<const int32_t>(), kv.table_width = width_;
    if (c.kind == Kind::ring) kv.sinks = c.sinks, kv.ring = c.ring;
    kv.lengths = lengths_->view().as<const int64_t>(), kv.first_row = first_->view().as<const int64_t>();
    kv.longest = c.longest(), kv.most_rows = *std::max_element(c.rows.begin(), c.rows.end());
    return kv;
  }
  // The keys (0) or values (1) of the step's tokens, [N, G, D], as a model passes them.
  Values new_rows(int which) const {
    Numbers rows;
    for (int64_t b = 0; b < c.sequences(); ++b) {
      for (int64_t t = c.past[static_cast<size_t>(b)]; t < c.length(b); ++t) {
        for (int64_t i = 0; i < c.groups * c.head_size; ++i)
          rows.push_back(
              original[which][static_cast<size_t>(b)][static_cast<size_t>(t * c.groups * c.head_size + i)]);
      }
    }
    return placed(Values::of(c.queries, {c.steps(), c.groups, c.head_size}, rows, c.layout));
  }
  // The row of a token's head in the pool.
  int64_t row_of(int64_t b, int64_t t, int64_t g) const {
    int64_t slot = t, number = b;
    if (c.kind == Kind::ring) {
      slot = 0;
      for (int64_t i = 0; i < t; ++i) slot = slot + 1 == c.sinks + c.ring ? c.sinks : slot + 1;
    }
    if (c.kind == Kind::pages)
      number = table[static_cast<size_t>(b * width_ + t / c.page)], slot = t % c.page;
    return (number * c.groups + g) * page() + slot;
  }
  // A token that a later one of the sequence has overwritten.
  bool gone(int64_t b, int64_t t) const {
    return c.kind == Kind::ring && t >= c.sinks && t < c.length(b) - c.ring;
  }
  // Writes a token into the numbers of the pool, in place of the one that was there.
  void put(int which, int64_t b, int64_t t) {
    for (int64_t g = 0; g < c.groups; ++g) {
      const int64_t row = row_of(b, t, g);
      const Numbers& x = stored[which][static_cast<size_t>(b)];
      const auto from = static_cast<size_t>((t * c.groups + g) * c.head_size);
      for (int64_t d = 0; d < c.head_size; ++d)
        pool_numbers[which][static_cast<size_t>(row * c.head_size + d)] = x[from + static_cast<size_t>(d)];
      scale_numbers[which][static_cast<size_t>(row)] =
          scales_of[which][static_cast<size_t>(b)][static_cast<size_t>(t * c.groups + g)];
    }
  }

  // Attention of queries q [N, H, D].
  Numbers want(const Numbers& q, double factor) const {
    const int64_t D = c.head_size;
    Numbers out(q.size());
    for (int64_t b = 0; b < c.sequences(); ++b) {
      for (int64_t i = 0; i < c.rows[static_cast<size_t>(b)]; ++i) {
        for (int64_t h = 0; h < c.heads; ++h) {
          const auto at = static_cast<size_t>(((c.first(b) + i) * c.heads + h) * D);
          one_query(out.data() + at, q.data() + at, b, c.past[static_cast<size_t>(b)] + i,
                    h / (c.heads / c.groups), factor);
        }
      }
    }
    return out;
  }

  CacheCase c;
  std::vector<int32_t> table;  // [sequences, width]
  // Each member has an entry for keys and one for values. original and stored have [tokens, G, D] for each
  // sequence, as passed and as in the cache. Integers have a scale for each row, in scales_of.
  std::vector<Numbers> original[2], stored[2], scales_of[2];
  Numbers pool_numbers[2], scale_numbers[2];
  std::unique_ptr<Values> pool[2], scale[2];

 private:
  int64_t page() const {
    return c.kind == Kind::piece ? c.longest() + 3 : c.kind == Kind::ring ? c.sinks + c.ring : c.page;
  }
  void shuffle_pages() {
    width_ = (c.longest() + c.page - 1) / c.page;
    for (int64_t p = 0; p < c.sequences() * width_; ++p) table.push_back(static_cast<int32_t>(p) + 1);
    std::shuffle(table.begin(), table.end(), random_source());
    pages_ = c.kind == Kind::pages ? c.sequences() * width_ + 2 : c.sequences();
  }
  // The numbers of all tokens: as they are passed, and as they are stored, rounded to the cache's dtype or
  // divided by the scale of the row, its largest magnitude / 127.
  void draw(int which) {
    const int64_t D = c.head_size;
    for (int64_t b = 0; b < c.sequences(); ++b) {
      const int64_t lines = c.length(b) * c.groups;
      Numbers x = Values::random(c.queries, {lines, D}, Layout::contiguous, -2, 2).numbers(), scales;
      original[which].push_back(x);
      if (c.cached == i8) {
        for (int64_t line = 0; line < lines; ++line) {
          double largest = 0;
          const auto row = x.begin() + line * D;
          for (int64_t d = 0; d < D; ++d) largest = std::max(largest, std::abs(row[d]));
          for (int64_t d = 0; d < D; ++d) row[d] = largest > 0 ? std::nearbyint(row[d] * (127 / largest)) : 0;
          scales.push_back(static_cast<double>(static_cast<float>(largest) / 127));
        }
      } else {
        x = Values::of(c.cached, {lines, D}, x).numbers();
        scales.assign(static_cast<size_t>(lines), 1);
      }
      stored[which].push_back(x);
      scales_of[which].push_back(scales);
    }
  }
  double element(int which, int64_t b, int64_t t, int64_t g, int64_t d) const {
    const auto line = static_cast<size_t>(t * c.groups + g), at = static_cast<size_t>(b);
    return stored[which][at][line * static_cast<size_t>(c.head_size) + static_cast<size_t>(d)] *
           scales_of[which][at][line];
  }
  void one_query(double* out, const double* q, int64_t b, int64_t position, int64_t g, double factor) const {
    std::vector<std::pair<int64_t, double>> seen;
    double largest = -INFINITY, sum = 0;
    for (int64_t t = 0; t <= position; ++t) {
      if (gone(b, t) || (c.window > 0 && position - t >= c.window)) continue;
      double score = 0;
      for (int64_t d = 0; d < c.head_size; ++d) score += factor * q[d] * element(0, b, t, g, d);
      seen.emplace_back(t, score);
      largest = std::max(largest, score);
    }
    for (const auto& [t, score] : seen) sum += std::exp(score - largest);
    for (const auto& [t, score] : seen) {
      for (int64_t d = 0; d < c.head_size; ++d)
        out[d] += std::exp(score - largest) / sum * element(1, b, t, g, d);
    }
  }

  int64_t width_ = 0, pages_ = 0;
  std::unique_ptr<Values> lengths_, first_, table_;
};

// attend(out, q, kv, scale, window) of a case must give what the definition gives.
template <class Attend>
void check_attention(const CacheCase& c, Attend&& attend) {
  CacheScene scene(c);
  const Shape shape{c.steps(), c.heads, c.head_size};
  Values q = placed(Values::random(c.queries, shape, c.layout, -c.size, c.size)),
         out = placed(Values(c.queries, shape, c.layout));
  const double factor = 1 / std::sqrt(static_cast<double>(c.head_size));
  attend(out.view(), q.view(), scene.view(), factor, c.window);
  const double roundings = 64 + 16 * (1 + c.size * c.size) * static_cast<double>(c.head_size);
  expect_close("attention: " + c.text(), out, scene.want(q.numbers(), factor),
               {.roundings = roundings, .scale = 2});
}

}  // namespace course
