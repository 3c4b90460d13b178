// Summary of a model: a row for each module, with the shape of its output, its parameters and its work.
//
//   std::cout << profiling::summary(net, {32, 1, 28, 28}).str();
//
//   module  type        output     parameters  MFLOPs
//   (all)   Sequential  [32, 10]      101 770    6.51
//   0       Flatten     [32, 784]           0    0.00
//   1       Linear      [32, 128]     100 480    6.42
//   2       ReLU        [32, 128]           0    0.00
//   3       Linear      [32, 10]        1 290    0.08
//   101 770 parameters, 101 770 of them trainable; 0.41 MB with buffers; 6.51 MFLOPs
//
// The numbers come from one forward pass, in evaluation mode and without gradients. The output of a module is
// the result of the last operation inside its call.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <tinytorch/autograd/grad_mode.hpp>
#include <tinytorch/core/type_name.hpp>
#include <tinytorch/layers/eval_mode.hpp>
#include <tinytorch/tensor/observer.hpp>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::profiling {

struct SummaryRow {
  std::string path;        // "blocks.0.attention"; "" for the model
  std::string type;        // "Linear"
  int depth = 0;           // 0 for the model
  int64_t parameters = 0;  // of this module and those below it; tied ones count once
  int64_t calls = 0;       // in the forward pass
  Shape output;            // of the last call
  Cost cost;               // of all calls
};

struct Summary {
  std::vector<SummaryRow> rows;                        // in order of registration, parents first
  int64_t parameters = 0, trainable = 0, buffers = 0;  // numbers of elements
  int64_t bytes = 0;                                   // of parameters and buffers
  Cost cost;                                           // of the forward pass

  std::string str() const;  // a table
};

// Fills in the rows of the modules whose scopes are entered.
class SummaryObserver final : public OpObserver {
 public:
  SummaryObserver(Summary& to, std::unordered_map<const void*, size_t> rows)
      : to_(to), rows_(std::move(rows)) {}
  void before(const PrimitiveBase&, const Tensors&) override { ++depth_; }
  void after(const PrimitiveBase&, const Tensors&, const Tensors& outputs, Cost cost) override {
    if (!outputs.empty() && outputs[0].defined()) last_ = outputs[0].shape();
    end(cost);
  }
  void begin_work(const char*, Device) override { ++depth_; }
  void end_work(Cost cost) override { end(cost); }
  void failed(const PrimitiveBase&) override { --depth_; }
  void enter(const char*, const void* owner) override {
    const auto found = rows_.find(owner);
    open_.push_back(found == rows_.end() ? nullptr : &to_.rows[found->second]);
  }
  void leave() override {
    if (SummaryRow* const row = open_.back()) {
      row->calls += 1;
      row->output = last_;
    }
    open_.pop_back();
  }

 private:
  // An operation or work has ended; what ran inside of another one is part of its cost.
  void end(Cost cost) {
    if (--depth_ > 0) return;
    to_.cost.flops += cost.flops, to_.cost.bytes += cost.bytes;
    for (SummaryRow* const row : open_) {
      if (row) row->cost.flops += cost.flops, row->cost.bytes += cost.bytes;
    }
  }

  Summary& to_;
  std::unordered_map<const void*, size_t> rows_;
  std::vector<SummaryRow*> open_;
  Shape last_;
  int depth_ = 0;
};

// Calls net(x) once.
inline Summary summary(Module& net, const Tensor& x, TT_LOC) {
  Summary out;
  std::unordered_map<const void*, size_t> rows;
  net.for_each_module([&](const std::string& path, Module& m) {
    rows.emplace(&m, out.rows.size());  // a module that is registered twice has its numbers in the first row
    SummaryRow row;
    row.path = path;
    row.type = type_name(typeid(m).name());
    row.depth = path.empty() ? 0 : 1 + static_cast<int>(std::count(path.begin(), path.end(), '.'));
    row.parameters = m.parameter_count();
    out.rows.push_back(std::move(row));
  });
  const auto count = [&](const Tensor& t) {
    out.bytes += t.numel() * static_cast<int64_t>(size_of(t.dtype()));
    return t.numel();
  };
  for (const NamedTensor& p : net.named_parameters()) {
    const int64_t n = count(p.tensor);
    out.parameters += n;
    if (p.tensor.requires_grad()) out.trainable += n;
  }
  for (const NamedTensor& b : net.named_buffers()) out.buffers += count(b.tensor);
  const EvalMode eval(net);
  const NoGrad no_grad;
  SummaryObserver observer(out, std::move(rows));
  const Observing observing(observer);
  net(x, loc);
  return out;
}

// Calls net(zeros of this shape and dtype) on the model's device. Models of indices take an integer dtype:
// summary(gpt, {1, 64}, i64).
inline Summary summary(Module& net, const Shape& shape, DType dtype = DType::f32, TT_LOC) {
  return summary(net, zeros(shape, dtype, net.device(), loc), loc);
}

// 12345678 as "12 345 678".
inline std::string in_groups(int64_t n) {
  std::string digits = std::to_string(n);
  for (int64_t at = std::ssize(digits) - 3; at > (n < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), " ");
  return digits;
}

inline std::string Summary::str() const {
  std::vector<std::vector<std::string>> cells{{"module", "type", "output", "parameters", "MFLOPs"}};
  for (const SummaryRow& row : rows) {
    char flops[32];
    std::snprintf(flops, sizeof flops, "%.2f", row.cost.flops * 1e-6);
    cells.push_back({row.path.empty() ? "(all)" : row.path, row.type,
                     row.calls == 0 ? "not called" : row.output.str(), in_groups(row.parameters),
                     row.calls == 0 ? "" : flops});
  }
  std::vector<size_t> widths(cells[0].size(), 0);
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - line[i].size(), ' ');
      const bool number = i >= 3;
      text += number ? space + line[i] : line[i] + (i + 1 < line.size() ? space : "");
      text += i + 1 < line.size() ? "  " : "\n";
    }
  }
  char totals[160];
  std::snprintf(totals, sizeof totals,
                "%s parameters, %s of them trainable; %.2f MB with buffers; %.2f MFLOPs\n",
                in_groups(parameters).c_str(), in_groups(trainable).c_str(),
                static_cast<double>(bytes) * 1e-6, cost.flops * 1e-6);
  return text + totals;
}

}  // namespace tinytorch::inline TT_BUILD::profiling
