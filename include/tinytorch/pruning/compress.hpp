// compress(model, bytes, task): channels are removed, the rest learns from the model as it was, and its
// linear layers are packed, so that all parameters fit a budget of bytes with the least loss.
//
//   const CompressionReport r = compress(net, net_bytes / 4,
//                                        {.build = [] { return std::make_unique<Net>(); },
//                                         .distill = [&](Module& student, Module& teacher) { ... train ... },
//                                         .loss = [&](Module& m) { return loss_on(validation, m); },
//                                         .input = x});
//   std::puts(r.text().c_str());
//
// Sparsity and bits share one budget of bytes: 4 bits of many channels, or 8 bits of fewer. For each format
// the least sparsity that fits the budget is trained and measured, and the model with the least loss wins.
// The report has the loss, the bytes and the time of a call of each of these models, of the model before, and
// of the chosen one with each step left out. The last row sets the removed channels to 0 in place: it is
// called "mask only", because neither bytes nor time fall.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <tinytorch/benchmarking/samples.hpp>
#include <tinytorch/pruning/report.hpp>
#include <tinytorch/pruning/shrink.hpp>
#include <tinytorch/quantization/model.hpp>

namespace tinytorch::inline TT_BUILD {

struct CompressionTask {
  std::function<std::unique_ptr<Module>()> build;                 // the same layers, with any values
  std::function<void(Module& student, Module& teacher)> distill;  // trains the student
  std::function<double(Module&)> loss;                            // on data that nobody trains on
  Tensor input;                                                   // a batch: for shapes and times
};

struct CompressionOptions {
  std::vector<double> sparsities{0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875};  // of channels, ascending
  std::vector<std::string> formats{"", "Q8_0", "Q4_0"};  // of linear layers; "" keeps them
  int64_t multiple = 8;                                  // as in ShrinkOptions
  std::function<bool(const std::set<std::string>&)> choose{};
  bool ablation = true;
  int64_t rounds = 9;  // of the times
};

// A model that was tried.
struct CompressionRow {
  std::string name;     // "before", "candidate", "chosen", "without ...", "mask only"
  std::string verdict;  // "dense", "fits", "over budget" or "mask only"
  double sparsity = 0;  // of channels
  std::string format{};
  double loss = 0;
  int64_t bytes = 0;
  double seconds = 0;  // a call with the batch of the task, in eval mode
};

struct CompressionReport {
  int64_t budget = 0;
  std::vector<CompressionRow> rows{};

  // The first row of this name; null if there is none.
  const CompressionRow* find(const std::string& name) const {
    for (const CompressionRow& r : rows)
      if (r.name == name) return &r;
    return nullptr;
  }
  const CompressionRow& chosen() const { return *find("chosen"); }

  std::string text() const {
    std::string out =
        "model             pruned  format         loss       bytes  of before    a call  verdict\n";
    char line[240];
    for (const CompressionRow& r : rows) {
      std::snprintf(line, sizeof line, "%-16s %6.1f%%  %-6s %12.5g %11lld %10.3f %7.3f ms  %s\n",
                    r.name.c_str(), 100 * r.sparsity, r.format.empty() ? "float" : r.format.c_str(), r.loss,
                    static_cast<long long>(r.bytes),
                    static_cast<double>(r.bytes) / static_cast<double>(std::max<int64_t>(1, rows[0].bytes)),
                    1e3 * r.seconds, r.verdict.c_str());
      out += line;
    }
    std::snprintf(line, sizeof line, "budget: %lld bytes\n", static_cast<long long>(budget));
    return out + line;
  }
  std::string json() const {
    std::string list;
    for (const CompressionRow& r : rows) {
      JsonObject row;
      row.add("name", r.name).add("verdict", r.verdict).add("sparsity", r.sparsity).add("format", r.format);
      row.add("loss", r.loss).add("bytes", r.bytes).add("seconds", r.seconds);
      list += (list.empty() ? "" : ", ") + row.str();
    }
    return "{\"budget\": " + std::to_string(budget) + ", \"rows\": [" + list + "]}";
  }
};

namespace pruning {

class Compression {
 public:
  Compression(Module& model, int64_t budget, const CompressionTask& task, const CompressionOptions& o,
              Loc loc)
      : model_(model), budget_(budget), task_(task), o_(o), loc_(loc) {
    if (!task.build || !task.distill || !task.loss || !task.input.defined() || o.formats.empty() ||
        o.sparsities.empty() || o.rounds < 1)
      fail("TT-PRUNE-10", "compress: the task has no build, distill, loss or input, or there is no choice",
           loc);
    for (const double s : o.sparsities) require_sparsity("compress", s, loc);
    for (const std::string& f : o.formats)
      if (!f.empty()) (void)block_format(f, loc);
  }

  CompressionReport run() {
    add("before", 0, false, "");
    const size_t best = search();
    const double sparsity = trials_[best].row.sparsity;
    const std::string format = trials_[best].row.format;
    trials_[best].row.name = "chosen";
    if (o_.ablation) {
      if (sparsity > 0) add("without pruning", 0, true, format);
      add("without distill", sparsity, false, format);
      if (!format.empty()) add("without packing", sparsity, true, "");
      if (sparsity > 0) add("mask only", sparsity, false, "", true);
    }
    measure_times();
    CompressionReport report{budget_};
    for (Trial& t : trials_) report.rows.push_back(t.row);
    apply(trials_[best]);
    return report;
  }

 private:
  struct Trial {
    std::unique_ptr<Module> model;
    ShrinkPlan plan;
    StateDict floats;  // after training, before packing
    CompressionRow row;
  };

  std::unique_ptr<Module> copy() const {
    const init::WithoutInitialization values_are_copied;
    std::unique_ptr<Module> m = task_.build();
    const Tensors own = model_.parameters();
    if (!own.empty()) m->to(own[0].dtype(), loc_);
    m->to(model_.device(), loc_);
    m->load_state_dict(model_.state_dict(), loc_);
    return m;
  }
  ShrinkPlan plan_of(Module& m, double sparsity) const {
    return plan_shrink(m, task_.input,
                       {.sparsity = sparsity, .multiple = o_.multiple, .choose = o_.choose, .scores = {}},
                       loc_);
  }
  void pack(Module& m, const std::string& format) const {
    if (!format.empty()) (void)quantize(m, {.format = format}, loc_);
  }
  // The bytes of the model with this sparsity and format; none if a layer would lose all channels.
  std::optional<int64_t> bytes_with(double sparsity, const std::string& format) const {
    const std::unique_ptr<Module> m = copy();
    try {
      if (sparsity > 0) shrink(*m, plan_of(*m, sparsity), nullptr, loc_);
    } catch (const Error& e) {
      if (e.code() != "TT-PRUNE-04") throw;
      return std::nullopt;
    }
    pack(*m, format);
    return quantization::bytes_of(*m);
  }

  // Trains the least sparsity that fits for each format. Returns the place of the least loss.
  size_t search() {
    std::optional<size_t> best;
    int64_t least = INT64_MAX;
    for (const std::string& format : o_.formats) {
      for (const double sparsity : o_.sparsities) {
        const std::optional<int64_t> bytes = bytes_with(sparsity, format);
        if (!bytes) break;
        least = std::min(least, *bytes);
        if (*bytes > budget_) continue;
        add("candidate", sparsity, true, format);
        const double loss = trials_.back().row.loss;
        // A loss that is no number never wins over one that is.
        if (!best || loss < trials_[*best].row.loss || std::isnan(trials_[*best].row.loss))
          best = trials_.size() - 1;
        break;
      }
    }
    if (!best) {
      fail("TT-PRUNE-10",
           "compress: no choice fits " + std::to_string(budget_) + " bytes; the smallest needs " +
               std::to_string(least) + "\n  hint: allow more bytes, more sparsity, or a format of fewer bits",
           loc_);
    }
    return *best;
  }

  void add(const std::string& name, double sparsity, bool train, const std::string& format,
           bool mask = false) {
    Trial t{copy(), {}, {}, {name, "dense", sparsity, format, 0, 0, 0}};
    if (sparsity > 0) {
      t.plan = plan_of(*t.model, sparsity);
      mask ? mask_channels(*t.model, t.plan) : shrink(*t.model, t.plan, nullptr, loc_);
    }
    if (train) task_.distill(*t.model, model_);
    for (const auto& [key, tensor] : t.model->state_dict()) t.floats.emplace(key, tensor.clone());
    pack(*t.model, format);
    t.row.bytes = quantization::bytes_of(*t.model);
    const bool smaller = trials_.empty() || t.row.bytes < trials_[0].row.bytes;
    if (!trials_.empty())
      t.row.verdict = mask || (sparsity > 0 && !smaller) ? "mask only"
                      : t.row.bytes <= budget_           ? "fits"
                                                         : "over budget";
    const NoGrad no_grad;
    const EvalMode eval(*t.model);
    t.row.loss = task_.loss(*t.model);
    trials_.push_back(std::move(t));
  }

  // One call of each model in each round, so that all meet the same disturbances.
  void measure_times() {
    const NoGrad no_grad;
    std::vector<std::vector<double>> seconds(trials_.size());
    for (int64_t round = -1; round < o_.rounds; ++round) {  // the first is not counted
      for (size_t i = 0; i < trials_.size(); ++i) {
        const EvalMode eval(*trials_[i].model);
        const auto begin = std::chrono::steady_clock::now();
        (void)(*trials_[i].model)(task_.input, loc_).to(cpu, loc_);  // waits for a device
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        if (round >= 0) seconds[i].push_back(taken.count());
      }
    }
    for (size_t i = 0; i < trials_.size(); ++i) trials_[i].row.seconds = statistics::median(seconds[i]);
  }

  // The model becomes the chosen one.
  void apply(const Trial& t) {
    shrink(model_, t.plan, nullptr, loc_);
    model_.load_state_dict(t.floats, loc_);
    pack(model_, t.row.format);
  }

  Module& model_;
  int64_t budget_;
  const CompressionTask& task_;
  const CompressionOptions& o_;
  Loc loc_;
  std::vector<Trial> trials_;
};

}  // namespace pruning

// Makes `model` fit `bytes`, the sum of all its parameters and buffers. It is the teacher until the end, and
// changes only then. Make optimizers after this call. Throws TT-PRUNE-10 if no choice fits, or for an
// incomplete task, and the errors of plan_shrink and quantize.
inline CompressionReport compress(Module& model, int64_t bytes, const CompressionTask& task,
                                  const CompressionOptions& o = {}, TT_LOC) {
  return pruning::Compression(model, bytes, task, o, loc).run();
}

}  // namespace tinytorch::inline TT_BUILD
