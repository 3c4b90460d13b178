// Cases of layers and functions beyond the grids: convolutions of sequences and volumes, transposed ones,
// resizing, Einstein's sums, masks, statistics, losses of composed functions, attention as a layer, and
// recurrent layers.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <common/case.hpp>
#include <memory>
#include <tinytorch/layers/multihead_attention.hpp>
#include <tinytorch/layers/recurrent.hpp>
#include <tinytorch/tensor/indexing.hpp>
#include <tinytorch/tensor/ops/composed_losses.hpp>
#include <tinytorch/tensor/ops/conv_transpose.hpp>
#include <tinytorch/tensor/ops/difference_loss.hpp>
#include <tinytorch/tensor/ops/interpolate.hpp>
#include <tinytorch/tensor/ops/sampling.hpp>
#include <tinytorch/tensor/ops/statistics.hpp>
#include <tinytorch/tensor/ops/volume.hpp>
#include <vector>

namespace bench {

inline constexpr int64_t kLayersSize = int64_t{1} << 22;

// The elements of an operand: those of the inputs of this name, in this shape.
struct Part {
  const char* name;
  tt::Shape shape;
  Tensor of(const Inputs& in) const { return shaped(in[name], shape); }
  std::string torch() const { return fmt::format("shaped({}, {})", name, fmt::join(shape, ", ")); }
};

// A function of operands, without gradients or (with_grad) also with them.
template <class F>
void add_function(std::vector<Case>& all, const std::string& name, const std::string& torch,
                  const std::vector<Part>& parts, F f, bool with_grad = false) {
  const auto call = [f](const Five& t) { return cases::Outputs(f(t)); };
  const Operands operands = [parts](const Inputs& in) {
    tt::Tensors given;
    for (const Part& p : parts) given.push_back(p.of(in));
    return given;
  };
  std::vector<std::string> in_torch;
  for (const Part& p : parts) in_torch.push_back(p.torch());
  for (const bool backward : {false, true}) {
    if (backward && !with_grad) continue;
    all.push_back(timed(name, Call{torch, call, call}, operands, in_torch, backward));
    all.back().n = kLayersSize;
  }
}

inline std::vector<Case> layer_cases() {
  std::vector<Case> all;
  const auto add = [&]<class F>(const std::string& name, const std::string& torch,
                                const std::vector<Part>& parts, F f, bool with_grad = false) {
    add_function(all, name, torch, parts, f, with_grad);
  };
  using In = const Five&;
  add(
      "conv1d 16x64x1024 to 128, 3", "F.conv1d(x, y, padding=1)",
      {{"x", {16, 64, 1024}}, {"y", {128, 64, 3}}},
      [](In t) { return tt::conv1d(t[0], t[1], {}, {.padding = 1}); }, true);
  add(
      "conv3d 2x16x16x32x32 to 32, 3", "F.conv3d(x, y, padding=1)",
      {{"x", {2, 16, 16, 32, 32}}, {"y", {32, 16, 3, 3, 3}}},
      [](In t) { return tt::conv3d(t[0], t[1], {}, {.padding = 1}); }, true);
  add(
      "conv_transpose2d 8x64x32x32 to 32, 4 stride 2", "F.conv_transpose2d(x, y, stride=2, padding=1)",
      {{"x", {8, 64, 32, 32}}, {"y", {64, 32, 4, 4}}},
      [](In t) { return tt::conv_transpose2d(t[0], t[1], {}, {.stride = 2, .padding = 1}); }, true);
  add(
      "conv_transpose1d 16x64x512 to 32, 4 stride 2", "F.conv_transpose1d(x, y, stride=2, padding=1)",
      {{"x", {16, 64, 512}}, {"y", {64, 32, 4}}},
      [](In t) { return tt::conv_transpose1d(t[0], t[1], {}, {.stride = 2, .padding = 1}); }, true);
  add(
      "interpolate nearest 8x16x64x64 by 2", "F.interpolate(x, scale_factor=2)", {{"x", {8, 16, 64, 64}}},
      [](In t) { return tt::interpolate(t[0], {.scale_factor = 2}); }, true);
  add(
      "interpolate bilinear 8x16x64x64 by 2", "F.interpolate(x, scale_factor=2, mode='bilinear')",
      {{"x", {8, 16, 64, 64}}},
      [](In t) { return tt::interpolate(t[0], {.scale_factor = 2, .mode = tt::Interpolation::bilinear}); },
      true);
  add(
      "einsum bij,bjk->bik 32x128x128", "torch.einsum('bij,bjk->bik', x, y)",
      {{"x", {32, 128, 128}}, {"y", {32, 128, 128}}},
      [](In t) {
        return tt::einsum("bij,bjk->bik", {t[0], t[1]});
      },
      true);
  add(
      "einsum bqhd,bkhd->bhqk 4x128x8x64", "torch.einsum('bqhd,bkhd->bhqk', x, y)",
      {{"x", {4, 128, 8, 64}}, {"y", {4, 128, 8, 64}}},
      [](In t) {
        return tt::einsum("bqhd,bkhd->bhqk", {t[0], t[1]});
      },
      true);
  add("einsum ij,ij->i 4096x512", "torch.einsum('ij,ij->i', x, y)", {{"x", {4096, 512}}, {"y", {4096, 512}}},
      [](In t) {
        return tt::einsum("ij,ij->i", {t[0], t[1]});
      });
  add("masked_fill 2048x2048", "x.masked_fill(y > 0, 0.0)", {{"x", {2048, 2048}}, {"y", {2048, 2048}}},
      [](In t) { return tt::masked_fill(t[0], t[1] > 0, 0.0); });
  add("masked_select 2048x2048", "x.masked_select(y > 0)", {{"x", {2048, 2048}}, {"y", {2048, 2048}}},
      [](In t) { return tt::masked_select(t[0], t[1] > 0); });
  add("nonzero of a mask 2048x2048", "(x > 0).nonzero()", {{"x", {2048, 2048}}},
      [](In t) { return tt::nonzero(t[0] > 0); });
  add("rows of a mask 8192x512", "x[y > 0]", {{"x", {8192, 512}}, {"y", {8192}}},
      [](In t) { return Tensor(t[0][t[1] > 0]); });
  add("repeat 512x512 by 2x4", "x.repeat(2, 4)", {{"x", {512, 512}}}, [](In t) {
    return tt::repeat(t[0], {2, 4});
  });
  add("roll 2048x2048 by 3, 5", "x.roll((3, 5), (0, 1))", {{"x", {2048, 2048}}}, [](In t) {
    return tt::roll(t[0], {3, 5}, {0, 1});
  });
  add("median 4096x512", "x.median(1).values", {{"x", {4096, 512}}},
      [](In t) { return tt::median(t[0], 1).values; });
  add("quantile 4096x512", "x.quantile(0.3, 1)", {{"x", {4096, 512}}},
      [](In t) { return tt::quantile(t[0], 0.3, 1); });
  add("unique of 1M integers", "(x * 1000).to(i64).unique()", {{"x", {1'000'000}}},
      [](In t) { return tt::unique((t[0] * 1000).to(tt::i64)).values; });
  add("histc 4M", "x.histc(100, -3, 3)", {{"x", {4'000'000}}},
      [](In t) { return tt::histc(t[0], 100, -3, 3); });
  add("multinomial 1024x1024, 64", "torch.multinomial(x, 64)", {{"positive", {1024, 1024}}},
      [](In t) { return tt::multinomial(t[0], 64); });
  add("cdist 1024x64, 2048x64", "torch.cdist(x, y)", {{"x", {1024, 64}}, {"y", {2048, 64}}},
      [](In t) { return tt::cdist(t[0], t[1]); });
  add("cov 256x8192", "x.cov()", {{"x", {256, 8192}}}, [](In t) { return tt::cov(t[0]); });
  add(
      "huber_loss 4M", "F.huber_loss(x, y)", {{"x", {4'000'000}}, {"y", {4'000'000}}},
      [](In t) { return tt::huber_loss(t[0], t[1]); }, true);
  add("kl_div 4096x1024", "F.kl_div(x, y, reduction='batchmean')",
      {{"x", {4096, 1024}}, {"positive", {4096, 1024}}},
      [](In t) { return tt::kl_div(t[0], t[1], {.batch_mean = true}); });
  add(
      "bce_with_logits 4M", "F.binary_cross_entropy_with_logits(x, y)",
      {{"x", {4'000'000}}, {"positive", {4'000'000}}},
      [](In t) { return tt::binary_cross_entropy_with_logits(t[0], t[1]); }, true);
  add(
      "triplet_margin_loss 4096x256", "F.triplet_margin_loss(x, y, z)",
      {{"x", {4096, 256}}, {"y", {4096, 256}}, {"positive", {4096, 256}}},
      [](In t) { return tt::triplet_margin_loss(t[0], t[1], t[2]); }, true);
  return all;
}

// A call of a layer without gradients; or its forward and backward pass.
template <class Layer, class Forward>
Work forward_or_both(const std::shared_ptr<Layer>& net, Forward forward, bool backward) {
  return [=] {
    if (!backward) {
      const tt::NoGrad quiet;
      forward();
      return;
    }
    net->zero_grad();
    forward().sum().backward();
  };
}

// A recurrent layer: T steps of B sequences with I features, H of the state; one call, or forward and
// backward. With lengths, sequence b has T - b % (T / 2) steps.
struct RecurrentCase {
  const char* layer;
  int64_t steps, sequences, inputs, features, layers = 1;
  bool bidirectional = false, lengths = false;
};
template <class Layer>
Work recurrent_work(const RecurrentCase& c, bool backward, const Inputs& in) {
  const auto net = std::make_shared<Layer>(
      c.inputs, c.features, tt::RecurrentOptions{.num_layers = c.layers, .bidirectional = c.bidirectional});
  const Tensor x = shaped(in["x"], {c.steps, c.sequences, c.inputs});
  const Tensor lengths = c.lengths ? c.steps - tt::remainder(tt::arange(c.sequences), c.steps / 2) : Tensor();
  return forward_or_both(
      net, [=] { return (*net)(x, {}, lengths).output; }, backward);
}
inline std::vector<Case> recurrent_cases() {
  std::vector<Case> all;
  for (const RecurrentCase& c : {RecurrentCase{"LSTM", 35, 20, 200, 200, 2},
                                 {"LSTM", 100, 1, 256, 256},
                                 {"LSTM", 50, 32, 64, 128, 1, true},
                                 {"LSTM", 50, 32, 64, 128, 1, false, true},
                                 {"GRU", 100, 32, 64, 128},
                                 {"RNN", 50, 64, 128, 256}}) {
    for (const bool backward : {false, true}) {
      const std::string kind = c.layer;
      all.push_back({.name = fmt::format("{} {}x{}x{} to {}{}{}{}{}", kind, c.steps, c.sequences, c.inputs,
                                         c.features, c.layers > 1 ? fmt::format(", {} layers", c.layers) : "",
                                         c.bidirectional ? ", both directions" : "",
                                         c.lengths ? ", lengths" : "", backward ? "+grad" : ""),
                     .prepare =
                         [=](const Inputs& in) {
                           return kind == "LSTM"  ? recurrent_work<tt::LSTM>(c, backward, in)
                                  : kind == "GRU" ? recurrent_work<tt::GRU>(c, backward, in)
                                                  : recurrent_work<tt::RNN>(c, backward, in);
                         },
                     .n = kLayersSize,
                     .torch = fmt::format(
                         "recurrent(nn.{}({}, {}, {}, bidirectional={}), shaped(x, {}, {}, {}), {}, {})",
                         kind, c.inputs, c.features, c.layers, c.bidirectional ? "True" : "False", c.steps,
                         c.sequences, c.inputs, c.lengths ? "True" : "False", backward ? "True" : "False")});
    }
  }
  return all;
}

// Attention as a layer on B sequences of T elements with C features, without gradients and with them.
inline std::vector<Case> attention_layer_cases() {
  std::vector<Case> all;
  static constexpr int64_t B = 8, T = 128, C = 256, H = 8;
  for (const bool backward : {false, true}) {
    all.push_back({.name = std::string("MultiheadAttention 8x128x256, 8 heads") + (backward ? "+grad" : ""),
                   .prepare = [backward](const Inputs& in) -> Work {
                     const auto net = std::make_shared<tt::MultiheadAttention>(
                         C, H, tt::MultiheadAttentionOptions{.batch_first = true});
                     const Tensor x = shaped(in["x"], {B, T, C});
                     return forward_or_both(
                         net, [=] { return (*net)(x); }, backward);
                   },
                   .n = kLayersSize,
                   .torch = fmt::format("attention_layer({}, {}, shaped(x, {}, {}, {}), {})", C, H, B, T, C,
                                        backward ? "True" : "False")});
  }
  return all;
}

}  // namespace bench
