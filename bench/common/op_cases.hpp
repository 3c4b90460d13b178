// The cases that bench_ops times: the rows of OP in tests/support/cases that have inputs for the benchmark,
// grids of shapes, layers and training. bench/peers/ops_torch.py evaluates what a case says of PyTorch.
#pragma once

#include <fmt/format.h>
#include <common/case.hpp>
#include <common/layer_cases.hpp>
#include <common/training_cases.hpp>
#include <utility>
#include <vector>

namespace bench {

inline std::vector<Case> cases_of_rows() {
  std::vector<Case> all;
  for (const cases::OpCase& op : cases::all_calls()) {
    for (const cases::Timed& t : op.timed) {
      const Operands operands = [names = t.operands](const Inputs& in) {
        tt::Tensors given;
        for (const std::string& name : names) given.push_back(in[name]);
        return given;
      };
      all.push_back(timed(t.name, call_of(op), operands, t.operands, t.backward));
      if (t.operands[0] == "queries") all.back().n = kHeadsSize;
    }
  }
  return all;
}

// Convolutions of ResNet-8 (images of 32 x 32, batch 32) and of ResNet-18 (224 x 224, batch 2), one of each
// kind, and depthwise convolutions of keyword spotters and of MobileNet. Images are channels-first or, with
// "nhwc", channels-last.
struct ConvCase {
  int64_t batch, channels, height, width, filters, kernel, stride;
  bool depthwise = false;

  std::string name(bool nhwc) const {
    const auto s = [](int64_t x) { return std::to_string(x); };
    return "conv2d " + s(batch) + "x" + s(channels) + "x" + s(height) + "x" + s(width) + " to " + s(filters) +
           ", " + s(kernel) + "x" + s(kernel) + " stride " + s(stride) + (depthwise ? " depthwise" : "") +
           (nhwc ? " nhwc" : "");
  }
};
inline std::vector<Case> conv_cases() {
  std::vector<Case> all;
  for (const ConvCase& c : {ConvCase{32, 3, 32, 32, 16, 3, 1},
                            {32, 16, 32, 32, 16, 3, 1},
                            {32, 16, 32, 32, 32, 3, 2},
                            {32, 32, 16, 16, 32, 3, 1},
                            {32, 64, 8, 8, 64, 3, 1},
                            {2, 3, 224, 224, 64, 7, 2},
                            {2, 64, 56, 56, 64, 3, 1},
                            {2, 64, 56, 56, 128, 3, 2},
                            {2, 64, 56, 56, 128, 1, 2},
                            {2, 128, 28, 28, 128, 3, 1},
                            {2, 256, 14, 14, 256, 3, 1},
                            {2, 512, 7, 7, 512, 3, 1},
                            {32, 64, 25, 5, 64, 3, 1, true},
                            {8, 96, 56, 56, 96, 3, 1, true},
                            {8, 96, 56, 56, 96, 3, 2, true},
                            {8, 144, 28, 28, 144, 3, 1, true},
                            {8, 144, 28, 28, 144, 5, 1, true}}) {
    for (const bool nhwc : {false, true}) {
      const tt::Shape filter{c.filters, c.depthwise ? 1 : c.channels, c.kernel, c.kernel};
      const tt::Conv2dOptions o{
          .stride = c.stride, .padding = c.kernel / 2, .groups = c.depthwise ? c.channels : 1};
      const Operands operands = [=](const Inputs& in) -> tt::Tensors {
        const Tensor pixels = in["x"].slice(0, 0, c.batch * c.channels * c.height * c.width);
        return {nhwc ? pixels.reshape({c.batch, c.height, c.width, c.channels}).permute({0, 3, 1, 2})
                     : pixels.reshape({c.batch, c.channels, c.height, c.width}),
                shaped(in["y"], filter)};
      };
      const auto f = [o](const Five& t) { return cases::Outputs(tt::conv2d(t[0], t[1], {}, o)); };
      const Call call{
          fmt::format("F.conv2d(x, y, stride={}, padding={}, groups={})", c.stride, c.kernel / 2, o.groups),
          f, f};
      const std::string images = fmt::format("images(x, {}, {}, {}, {}, nhwc={})", c.batch, c.channels,
                                             c.height, c.width, nhwc ? "True" : "False"),
                        filters = fmt::format("images(y, {}, {}, {}, {}, nhwc={})", filter[0], filter[1],
                                              filter[2], filter[3], nhwc ? "True" : "False");
      for (const bool backward : {false, true})
        all.push_back(timed(c.name(nhwc), call, operands, {images, filters}, backward));
    }
  }
  for (Case& c : all) c.n = int64_t{1} << 22;
  return all;
}

// Row shapes like those of bench_cuda's grid: few long rows, odd lengths, narrow rows, vocabularies. Every
// third pair of a call and a shape is taken.
inline std::vector<Case> row_cases() {
  constexpr std::pair<int64_t, int64_t> kShapes[] = {
      {1, 4'000'003}, {4, 1'000'003}, {7, 100'003},   {3, 262'144},   {30'011, 131},
      {4099, 1001},   {1031, 4001},   {1'000'000, 1}, {1'000'000, 3}, {500'000, 7},
      {100'000, 33},  {65'536, 64},   {16'384, 255},  {32, 128'256},  {64, 50'257}};
  struct RowCall {
    const char *name, *text;
    bool backward;
    std::vector<std::string> parameters;  // vectors beside the rows
  };
  const RowCall kCalls[] = {{"softmax", "softmax(x)", false, {}},
                            {"layer_norm", "layer_norm(x, y, z)", true, {"y", "positive"}},
                            {"sum", "sum(x, {1})", false, {}},
                            {"rms_norm", "rms_norm(x, y)", false, {"y"}},
                            {"log_softmax", "log_softmax(x)", true, {}},
                            {"max", "max(x, {1})", false, {}},
                            {"layer_norm", "layer_norm(x, y, z)", false, {"y", "positive"}},
                            {"softmax", "softmax(x)", true, {}},
                            {"argmax", "argmax(x, 1)", false, {}},
                            {"log_softmax", "log_softmax(x)", false, {}}};
  std::vector<Case> all;
  for (size_t s = 0; s < std::size(kShapes); ++s) {
    for (size_t k = s % 3; k < std::size(kCalls); k += 3) {
      const int64_t rows = kShapes[s].first, cols = kShapes[s].second;
      const RowCall& call = kCalls[k];
      const Operands operands = [rows, cols, parameters = call.parameters](const Inputs& in) {
        tt::Tensors given{shaped(in["x"], {rows, cols})};
        for (const std::string& p : parameters) given.push_back(in[p].slice(0, 0, cols));
        return given;
      };
      std::vector<std::string> in_torch{fmt::format("shaped(x, {}, {})", rows, cols)};
      for (const std::string& p : call.parameters) in_torch.push_back(fmt::format("{}[:{}]", p, cols));
      all.push_back(timed(fmt::format("rows {}x{} {}", rows, cols, call.name), call_of(call.text), operands,
                          in_torch, call.backward));
    }
  }
  for (Case& c : all) c.n = int64_t{1} << 22;
  return all;
}

// Operands whose memory order is transposed against the result ("across"), and rows with a stride larger than
// their length ("far apart").
inline std::vector<Case> layout_cases() {
  std::vector<Case> all;
  const auto add = [&](const char* name, const char* text, Operands operands,
                       std::vector<std::string> in_torch) {
    all.push_back(timed(name, call_of(std::string(text)), std::move(operands), std::move(in_torch)));
    all.back().n = int64_t{1} << 22;
  };
  using In = const Inputs&;
  using T = tt::Tensors;
  add("across 2000x2000 add", "add(x, y)",
      [](In in) {
        return T{shaped(in["x"], {2000, 2000}), shaped(in["y"], {2000, 2000}).t()};
      },
      {"shaped(x, 2000, 2000)", "shaped(y, 2000, 2000).t()"});
  add("across 1031x4001 lt", "lt(x, y)",
      [](In in) {
        return T{shaped(in["x"], {1031, 4001}), shaped(in["y"], {4001, 1031}).t()};
      },
      {"shaped(x, 1031, 4001)", "shaped(y, 4001, 1031).t()"});
  add("across 64x256x250 mul permuted", "mul(x, y)",
      [](In in) {
        return T{shaped(in["x"], {64, 256, 250}), shaped(in["y"], {250, 64, 256}).permute({1, 2, 0})};
      },
      {"shaped(x, 64, 256, 250)", "shaped(y, 250, 64, 256).permute(1, 2, 0)"});
  add("across 2000x2000 add bf16", "add(x, y)",
      [](In in) {
        return T{shaped(in["half"], {2000, 2000}), shaped(in["half"], {2000, 2000}).t()};
      },
      {"shaped(half, 2000, 2000)", "shaped(half, 2000, 2000).t()"});
  add("across 100000x33 sub", "sub(x, y)",
      [](In in) {
        return T{shaped(in["x"], {100'000, 33}), shaped(in["y"], {33, 100'000}).t()};
      },
      {"shaped(x, 100_000, 33)", "shaped(y, 33, 100_000).t()"});
  add("across 250x64x256 contiguous permuted", "contiguous(x)",
      [](In in) {
        return T{shaped(in["x"], {64, 256, 250}).permute({2, 0, 1})};
      },
      {"shaped(x, 64, 256, 250).permute(2, 0, 1)"});
  add("far apart 4000x64 of 1000 add", "add(x, y)",
      [](In in) {
        return T{shaped(in["x"], {4000, 1000}).slice(1, 3, 67),
                 shaped(in["y"], {4000, 1000}).slice(1, 5, 69)};
      },
      {"shaped(x, 4000, 1000)[:, 3:67]", "shaped(y, 4000, 1000)[:, 5:69]"});
  add("far apart 2000x500 of 2000 softmax", "softmax(x)",
      [](In in) {
        return T{shaped(in["x"], {2000, 2000}).slice(1, 1, 501)};
      },
      {"shaped(x, 2000, 2000)[:, 1:501]"});
  add("far apart 2000x500 of 2000 sum", "sum(x, {1})",
      [](In in) {
        return T{shaped(in["x"], {2000, 2000}).slice(1, 1, 501)};
      },
      {"shaped(x, 2000, 2000)[:, 1:501]"});
  return all;
}

inline std::vector<Case> op_cases() {
  std::vector<Case> all;
  for (const auto& list : {cases_of_rows(), conv_cases(), row_cases(), layout_cases(), layer_cases(),
                           recurrent_cases(), attention_layer_cases(), training_cases()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace bench
