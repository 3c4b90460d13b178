// Crossover: from which sparsity on a sparse format is faster than dense storage, measured on this machine.
//
//   const CrossoverTable t = measure_crossover({.rows = 1, .size = 4096});
//   std::puts(t.text().c_str());                   // dense and sparse time, ratio, limit and bytes
//   save_crossover(t, "crossover.json");           // and save_crossover_page(t, "crossover.html")
//   choose_format(weight, t)                       // "bitmap", ..., or "" where dense is faster
//   store_faster(model, t);                        // each linear layer by its own weight
//
// The ratio is the time of the dense product divided by that of the sparse one, the median over rounds in
// which both run. Conversion is not timed: it happens once. The limit is dense bytes / stored bytes, which a
// product that waits for memory cannot exceed. Fewer operations are no time: a format that stores a tenth may
// be slower, and the table says so. A table holds for one number of rows of x, one dtype and one machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <tinytorch/benchmarking/document.hpp>
#include <tinytorch/benchmarking/samples.hpp>
#include <tinytorch/io/file.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/layers/json_lines.hpp>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/nm.hpp>
#include <tinytorch/pruning/sparse_linear.hpp>

namespace tinytorch::inline TT_BUILD {

struct CrossoverOptions {
  int64_t rows = 1;     // of x
  int64_t size = 2048;  // rows and columns of the weight, a multiple of 64
  DType dtype = DType::f32;
  Device device = default_device();
  std::vector<std::string> formats{};  // empty: all that have a kernel on the device
  std::vector<double> sparsities{0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95};
  int64_t rounds = 9;
  double seconds = 5e-3;  // of each measurement, at least
};

struct CrossoverPoint {
  std::string format;
  double sparsity = 0;  // of elements, or of blocks in the formats of blocks
  double dense_seconds = 0, sparse_seconds = 0, ratio = 0;
  int64_t dense_bytes = 0, bytes = 0;
  double limit() const {
    return static_cast<double>(dense_bytes) / static_cast<double>(std::max<int64_t>(1, bytes));
  }
};

struct CrossoverTable {
  int64_t rows = 1, size = 0;
  std::string dtype, device;
  std::vector<CrossoverPoint> points{};  // of a format with ascending sparsity

  std::vector<std::string> formats() const {
    std::vector<std::string> out;
    for (const CrossoverPoint& p : points)
      if (std::find(out.begin(), out.end(), p.format) == out.end()) out.push_back(p.format);
    return out;
  }
  // The ratio of a format at a sparsity. Between two points its logarithm is interpolated; outside, the
  // nearest point counts. A format without points has no ratio.
  std::optional<double> ratio(const std::string& format, double sparsity) const {
    const CrossoverPoint *below = nullptr, *above = nullptr;
    for (const CrossoverPoint& p : points) {
      if (p.format != format) continue;
      if (p.sparsity <= sparsity) below = &p;
      if (p.sparsity >= sparsity && !above) above = &p;
    }
    if (!below && !above) return std::nullopt;
    if (!below || !above || below == above) return (below ? below : above)->ratio;
    const double t = (sparsity - below->sparsity) / (above->sparsity - below->sparsity);
    return std::exp(std::log(below->ratio) * (1 - t) + std::log(above->ratio) * t);
  }
  // The least sparsity from which on the format is faster at all larger points; none if it never is.
  std::optional<double> crossover(const std::string& format) const {
    std::optional<double> from;
    const CrossoverPoint* slower = nullptr;
    for (const CrossoverPoint& p : points) {
      if (p.format != format) continue;
      if (p.ratio <= 1) {
        slower = &p, from = std::nullopt;
      } else if (!from) {
        from = p.sparsity;
        if (slower)
          from = slower->sparsity + (p.sparsity - slower->sparsity) * std::log(1 / slower->ratio) /
                                        std::log(p.ratio / slower->ratio);
      }
    }
    return from;
  }

  std::string text() const { return document::text_table(table()) + summary(); }
  std::string html() const {
    std::vector<svg::Series> lines;
    for (const std::string& f : formats()) {
      svg::Series line{f};
      for (const CrossoverPoint& p : points)
        if (p.format == f) line.x.push_back(p.sparsity), line.y.push_back(p.ratio);
      lines.push_back(std::move(line));
    }
    const std::string chart = svg::line_chart(
        "Dense time / sparse time", {.title = "sparsity"},
        {.title = "ratio; above 1 sparse storage is faster", .scale = svg::Scale::kLog}, lines);
    return document::html_page("Crossover of sparse formats", document::html_list({summary()}) + "<figure>" +
                                                                  chart + "</figure>\n" +
                                                                  document::html_table(table()));
  }
  std::string json() const {
    std::string list;
    for (const CrossoverPoint& p : points) {
      JsonObject row;
      row.add("format", p.format).add("sparsity", p.sparsity).add("ratio", p.ratio).add("limit", p.limit());
      row.add("dense_seconds", p.dense_seconds).add("sparse_seconds", p.sparse_seconds);
      list +=
          (list.empty() ? "" : ",\n  ") + row.add("dense_bytes", p.dense_bytes).add("bytes", p.bytes).str();
    }
    JsonObject head;
    std::string out = head.add("kind", std::string("tinytorch.crossover"))
                          .add("rows", rows)
                          .add("size", size)
                          .add("dtype", dtype)
                          .add("device", device)
                          .str();
    out.insert(out.rfind('}'), ", \"points\": [\n  " + list + "]");
    return out + "\n";
  }

 private:
  std::string summary() const {
    std::string out = fmt::format("{} row{} of x, weight {} x {} of {} on {}.", rows, rows == 1 ? "" : "s",
                                  size, size, dtype, device);
    for (const std::string& f : formats()) {
      const std::optional<double> at = crossover(f);
      out += at ? fmt::format(" {} is faster from a sparsity of {:.2f}.", f, *at)
                : fmt::format(" {} is never faster.", f);
    }
    return out + "\n";
  }
  document::Rows table() const {
    document::Rows out{{"format", "sparsity", "dense", "sparse", "ratio", "limit", "bytes", "of dense"}};
    for (const CrossoverPoint& p : points)
      out.push_back({p.format, fmt::format("{:.2f}", p.sparsity), document::show_seconds(p.dense_seconds),
                     document::show_seconds(p.sparse_seconds), fmt::format("{:.2f}", p.ratio),
                     fmt::format("{:.2f}", p.limit()), document::show_bytes(p.bytes),
                     fmt::format("{:.3f}", 1 / std::max(1e-9, p.limit()))});
    return out;
  }
};

namespace pruning {

// Random numbers [size, size] without a share of the elements or blocks, in the pattern of a format.
inline Tensor crossover_weight(const CrossoverOptions& o, const std::string& format, double sparsity,
                               Generator& generator) {
  const int64_t n = o.size, block = block_of_format(format);
  Tensor mask = block == 0 ? random_mask({n, n}, sparsity, generator)
                           : random_mask({n / block, n / block}, sparsity, generator);
  if (block > 0)
    mask =
        expand(mask.to(DType::u8).reshape({n / block, 1, n / block, 1}), {n / block, block, n / block, block})
            .reshape({n, n})
            .to(DType::boolean);
  const Tensor w = masked(randn({n, n}, DType::f32, cpu, generator), mask);
  return (format == "strips" ? masked(w, nm_mask(w, 2, 4)) : w).to(o.dtype);
}

class CrossoverRun {
 public:
  CrossoverRun(const CrossoverOptions& o, Loc loc) : o_(o), loc_(loc) {
    if (o.rows < 1 || o.size < 64 || o.size % 64 != 0 || o.rounds < 1 || o.sparsities.empty() ||
        !is_floating(o.dtype) || !std::is_sorted(o.sparsities.begin(), o.sparsities.end()))
      fail(
          "TT-PRUNE-02",
          "measure_crossover: needs rows of x, a size that is a multiple of 64, rounds, ascending sparsities "
          "and a floating dtype",
          loc);
    for (const double s : o.sparsities) require_sparsity("measure_crossover", s, loc);
    if (!o_.formats.empty()) return;
    o_.formats = {"bitmap"};
    o_.formats.push_back(o.device.is_cpu() ? "csr" : "gaps");
    if (o.device.is_cpu() || is_16_bit(o.dtype))
      o_.formats.insert(o_.formats.end(), {"bsr16", "bsr32", "bsr64"});
    if (is_16_bit(o.dtype)) o_.formats.push_back("strips");
  }

  CrossoverTable run() {
    const NoGrad no_grad;
    CrossoverTable table{o_.rows, o_.size, name_of(o_.dtype), o_.device.str()};
    x_ = randn({o_.rows, o_.size}, DType::f32, cpu, generator_).to(o_.dtype).to(o_.device);
    dense_ = randn({o_.size, o_.size}, DType::f32, cpu, generator_).to(o_.dtype).to(o_.device);
    for (const std::string& format : o_.formats) {
      // 2:4 has one sparsity.
      const std::vector<double> sweep = format == "strips" ? std::vector<double>{0.5} : o_.sparsities;
      for (const double sparsity : sweep) table.points.push_back(point(format, sparsity));
    }
    return table;
  }

 private:
  CrossoverPoint point(const std::string& format, double sparsity) {
    const Tensor w = crossover_weight(o_, format, format == "strips" ? 0 : sparsity, generator_);
    const SparseWeight stored = sparse_weight(w, format, loc_).to(o_.device, loc_);
    const auto sparse = [&] { (void)sparse_linear(x_, stored, {}, loc_); };
    const auto dense = [&] { (void)linear(x_, dense_, {}, loc_); };
    const int64_t dense_calls = calls_for(dense), sparse_calls = calls_for(sparse);
    std::vector<double> dense_times, sparse_times, ratios;
    for (int64_t round = 0; round < o_.rounds; ++round) {
      dense_times.push_back(seconds_of(dense, dense_calls));
      sparse_times.push_back(seconds_of(sparse, sparse_calls));
      ratios.push_back(dense_times.back() / sparse_times.back());
    }
    return {format,
            sparsity,
            statistics::median(dense_times),
            statistics::median(sparse_times),
            statistics::median(ratios),
            dense_.numel() * static_cast<int64_t>(size_of(o_.dtype)),
            stored.bytes()};
  }
  // A copy of one number waits for the device.
  void wait() const {
    if (!o_.device.is_cpu()) (void)x_.slice(0, 0, 1).slice(1, 0, 1).to(cpu, loc_);
  }
  template <class F>
  double seconds_of(F&& f, int64_t calls) const {
    wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) f();
    wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    return taken.count() / static_cast<double>(calls);
  }
  template <class F>
  int64_t calls_for(F&& f) const {
    (void)seconds_of(f, 1);  // the first call allocates
    return std::clamp<int64_t>(std::llround(o_.seconds / std::max(1e-9, seconds_of(f, 1))), 1, 10'000);
  }

  CrossoverOptions o_;
  Loc loc_;
  Generator generator_{31};
  Tensor x_, dense_;
};

// Reads what json() wrote.
inline CrossoverTable parse_crossover(const Json& tree, const io::Source& source) {
  const auto text = [&](const Json& from, const char* key) {
    const Json* const found = from.find(key);
    if (!found || !found->string()) source.reject(std::string("a text '") + key + "'", "none");
    return *found->string();
  };
  const auto number = [&](const Json& from, const char* key, double least) {
    const Json* const found = from.find(key);
    if (!found || !found->number() || !(found->number()->real >= least))
      source.reject(std::string("a number '") + key + "'", found ? found->kind() : "none");
    return found->number()->real;
  };
  if (!tree.object() || text(tree, "kind") != "tinytorch.crossover")
    source.reject("\"kind\": \"tinytorch.crossover\"", "another kind", "TT-IO-04");
  const Json* const points = tree.find("points");
  if (!points || !points->array()) source.reject("a list 'points'", "none");
  CrossoverTable t{static_cast<int64_t>(number(tree, "rows", 1)),
                   static_cast<int64_t>(number(tree, "size", 1)), text(tree, "dtype"), text(tree, "device")};
  for (const Json& p : *points->array()) {
    t.points.push_back({text(p, "format"), number(p, "sparsity", 0), number(p, "dense_seconds", 1e-12),
                        number(p, "sparse_seconds", 1e-12), number(p, "ratio", 1e-12),
                        static_cast<int64_t>(number(p, "dense_bytes", 0)),
                        static_cast<int64_t>(number(p, "bytes", 0))});
  }
  return t;
}

// The share of the blocks of w [N, K] that are all zeros; a part of a block at the edge is a block.
inline double block_sparsity(const Tensor& w, int64_t block) {
  const KeptElements from("block_sparsity", w, Loc::current());
  const int64_t rows = ceil_div(from.N, block), columns = ceil_div(from.K, block);
  if (rows * columns == 0) return 0;
  std::vector<char> used(static_cast<size_t>(rows * columns), 0);
  for (int64_t n = 0; n < from.N; ++n)
    for (int64_t k = 0; k < from.K; ++k)
      if (from.at(n, k)) used[static_cast<size_t>(n / block * columns + k / block)] = 1;
  return 1 -
         static_cast<double>(std::count(used.begin(), used.end(), 1)) / static_cast<double>(rows * columns);
}

}  // namespace pruning

// Measures each format at each sparsity. Throws TT-PRUNE-02 for options out of range, and TT-PRUNE-01 and
// TT-PRUNE-06 for formats that are unknown or have no kernel there.
inline CrossoverTable measure_crossover(const CrossoverOptions& o = {}, TT_LOC) {
  return pruning::CrossoverRun(o, loc).run();
}
inline void save_crossover(const CrossoverTable& t, const std::string& path, TT_LOC) {
  write_file(path, t.json(), loc);
}
inline void save_crossover_page(const CrossoverTable& t, const std::string& path, TT_LOC) {
  write_file(path, t.html(), loc);
}
// Throws TT-IO-01 if the file cannot be read, TT-IO-03 if it is damaged, and TT-IO-04 if it is of another
// kind.
inline CrossoverTable load_crossover(const std::string& path, TT_LOC) {
  const io::Source source{path, "a crossover table", loc};
  const auto text = read_file(path, uint64_t{1} << 24, loc);
  return pruning::parse_crossover(parse_json(text, source), source);
}

// The format of the table with the largest ratio at the sparsity of w [N, K], which must be at least `gain`;
// "" where dense storage is faster. Formats that cannot store w are left out.
inline std::string choose_format(const Tensor& w, const CrossoverTable& t, double gain = 1.05, TT_LOC) {
  const NoGrad no_grad;
  require_defined("choose_format", loc, w);
  if (w.rank() != 2) fail("TT-SHAPE-02", "choose_format: needs a matrix [N, K], got " + w.describe(), loc);
  std::string best;
  double most = gain;
  const double elements = sparsity_of(w, loc);
  for (const std::string& format : t.formats()) {
    if (!pruning::can_store(w, format)) continue;
    const int64_t block = pruning::block_of_format(format);
    const double ratio = *t.ratio(format, block == 0 ? elements : pruning::block_sparsity(w, block));
    if (ratio >= most) best = format, most = ratio;
  }
  return best;
}
// Stores each linear layer of a model in its fastest format, if that is faster than dense. Returns how many
// became sparse.
inline int64_t store_faster(Module& model, const CrossoverTable& t, double gain = 1.05, TT_LOC) {
  const NoGrad no_grad;
  std::vector<std::pair<Linear*, std::string>> planned;
  model.for_each_module([&](const std::string&, Module& m) {
    auto* const layer = dynamic_cast<Linear*>(&m);
    if (!layer || !layer->weight.defined()) return;
    const std::string format = choose_format(layer->weight, t, gain, loc);
    if (!format.empty()) planned.emplace_back(layer, format);
  });
  if (!planned.empty()) quantization::separate_mlps(model);
  for (auto& [layer, format] : planned) store_sparse(*layer, format, loc);
  return static_cast<int64_t>(planned.size());
}

}  // namespace tinytorch::inline TT_BUILD
