#include <tinytorch/layers/multihead_attention.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/golden_calls.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;
using nlohmann::json;

namespace {

tt::Tensor mask_of(const json& rows, tt::DType dtype) {
  std::vector<double> values;
  bool numbers = false;
  for (const json& row : rows) {
    for (const json& value : row) {
      numbers = numbers || value.is_number();
      values.push_back(value.is_number() ? value.get<double>() : (value.get<bool>() ? 1.0 : 0.0));
    }
  }
  const tt::Tensor mask = tt::from_data(values).reshape(
      {static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())});
  return (numbers ? mask.to(dtype) : mask.to(tt::boolean)).to(tt::default_device());
}

}  // namespace

TEST_CASE("outputs, weights and gradients of MultiheadAttention equal PyTorch's, with and without masks") {
  const auto call = [](const json& o, const tt::Tensors& in) -> tt::Tensors {
    const bool bias = in.size() == 7;
    tt::MultiheadAttention layer(6, o["heads"], {.bias = bias, .batch_first = o["batch_first"]});
    // The golden weights themselves take the place of the parameters, so that they get the gradients.
    layer.in_proj_weight = in[3], layer.out_proj.weight = in[4];
    if (bias) layer.in_proj_bias = in[5], layer.out_proj.bias = in[6];
    tt::AttentionMasks masks{.need_weights = true};
    const tt::DType dtype = in[0].dtype();
    if (o["masks"].contains("attn_mask")) masks.attn_mask = mask_of(o["masks"]["attn_mask"], dtype);
    if (o["masks"].contains("key_padding_mask"))
      masks.key_padding_mask = mask_of(o["masks"]["key_padding_mask"], dtype);
    const auto [y, weights] = layer(in[0], in[1], in[2], masks);
    masks.need_weights = false;
    const double tolerance = dtype == tt::f64 ? 1e-9 : (dtype == tt::f32 ? 1e-5 : 0.2);
    const auto [without, none] = layer(in[0], in[1], in[2], masks);
    CHECK(!none.defined());
    check_values(without.detach().to_vector<double>(), y.detach().to_vector<double>(), tolerance);
    return {y, weights};
  };
  CHECK(golden::check_calls("multihead_attention", call) == 10);
}

TEST_CASE("a mask for each head, names of parameters, and dropout in training alone") {
  tt::manual_seed(6);
  tt::MultiheadAttention layer(4, 2, {.dropout = 1, .batch_first = true});
  CHECK(layer.named_parameters()[0].name == "in_proj_weight");
  CHECK(layer.named_parameters()[1].name == "in_proj_bias");
  CHECK(layer.named_parameters()[2].name == "out_proj.weight");
  const tt::Tensor x = tt::randn({3, 5, 4});
  CHECK(tt::max(tt::abs(layer(x))).item() == 0);  // all weights are dropped, and the biases are 0
  layer.eval();
  const tt::Tensor open = tt::zeros({6, 5, 5}, tt::boolean);
  const tt::Tensor y = layer(x);
  CHECK(tt::max(tt::abs(y)).item() > 0);
  check_values(layer(x, x, x, {.attn_mask = open}).output.to_vector<double>(), y.to_vector<double>(), 1e-6);
  // Head 0 of sample 1 must not look at key 2: the other samples stay the same.
  const tt::Tensor sample = (tt::arange(0, 6) == 2).reshape({6, 1, 1}), key = (tt::arange(0, 5) == 2);
  const tt::Tensor closed = tt::logical_and(sample.expand({6, 5, 5}), key.expand({6, 5, 5}));
  const tt::Tensor difference = tt::abs(layer(x, x, x, {.attn_mask = closed}).output - y);
  CHECK(tt::max(difference.select(0, 0)).item() < 1e-6f);
  CHECK(tt::max(difference.select(0, 1)).item() > 1e-4f);
  CHECK(tt::max(difference.select(0, 2)).item() < 1e-6f);
}

TEST_CASE("MultiheadAttention refuses sizes and masks that do not fit") {
  tt::MultiheadAttention layer(4, 2);
  const tt::Tensor x = tt::zeros({5, 3, 4});
  CHECK(thrown_by([&] { tt::MultiheadAttention(4, 3); }).code == "TT-NN-22");
  CHECK(thrown_by([&] { tt::MultiheadAttention(4, 2, {.dropout = 2}); }).code == "TT-RANGE-02");
  CHECK(thrown_by([&] { layer(tt::zeros({5, 3, 6})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { layer(x, x, x.slice(0, 1)); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { layer(x, x, x, {.attn_mask = tt::zeros({5, 4})}); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { layer(x, x, x, {.key_padding_mask = tt::zeros({3, 5})}); }).code == "TT-SHAPE-02");
}
