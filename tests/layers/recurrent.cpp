#include <tinytorch/layers/recurrent.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <support/errors.hpp>
#include <support/golden_file.hpp>
#include <support/gradients.hpp>
#include <support/hashed.hpp>
#include <support/values.hpp>
#include <tinytorch/layers/recurrent_cell.hpp>
#include <tinytorch/layers/sequential.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using nlohmann::json;

namespace {

tt::Shape shape_of(const json& sizes) {
  tt::Shape shape;
  for (const json& size : sizes) shape.push_back(size.get<int64_t>());
  return shape;
}
void check_equal(const tt::Tensor& got, const json& want, double tolerance) {
  CHECK(got.shape() == shape_of(want["shape"]));
  check_values(got.detach().to_vector<double>(), want["values"], tolerance);
}

tt::Tensor hashed_tensor(uint64_t key, const tt::Shape& shape, double scale, tt::DType dtype) {
  return (tt::from_data(hashed(key, shape.numel()), shape) * scale).to(dtype);
}
// The weights of case() in make_recurrent.py, whose keys are in the order of the names.
void set_weights(tt::Module& module, tt::DType dtype) {
  std::map<std::string, tt::Tensor> sorted;
  for (const tt::NamedTensor& p : module.named_parameters()) sorted.emplace(p.name, p.tensor);
  tt::StateDict weights;
  uint64_t key = 0;
  for (const auto& [name, tensor] : sorted)
    weights.emplace(name, hashed_tensor(key++, tensor.shape(), 0.5, dtype));
  module.load_state_dict(weights);
}
tt::Tensors inputs_of(const json& c, tt::DType dtype) {
  tt::Tensors inputs;
  uint64_t key = 100;
  for (const json& sizes : c["inputs"])
    inputs.push_back(hashed_tensor(key++, shape_of(sizes), 2, dtype).requires_grad_());
  return inputs;
}

// The results of one golden case: x and states -> the output and the states that follow.
tt::Tensors call(tt::Module& module, const json& c, const tt::Tensors& in) {
  const std::string kind = c["kind"];
  const tt::Tensor hidden = in.size() > 1 ? in[1] : tt::Tensor(), cell = in.size() > 2 ? in[2] : tt::Tensor();
  const tt::Tensor lengths =
      c["lengths"].is_null() ? tt::Tensor() : tt::from_data(c["lengths"].get<std::vector<int64_t>>());
  if (kind == "RNNCell") return {static_cast<tt::RNNCell&>(module)(in[0], hidden)};
  if (kind == "GRUCell") return {static_cast<tt::GRUCell&>(module)(in[0], hidden)};
  if (kind == "LSTMCell") {
    const auto [h, next] = static_cast<tt::LSTMCell&>(module)(in[0], {hidden, cell});
    return {h, next};
  }
  if (kind == "LSTM") {
    const auto [y, state] = static_cast<tt::LSTM&>(module)(in[0], {hidden, cell}, lengths);
    return {y, state.hidden, state.cell};
  }
  const auto [y, h] = kind == "RNN" ? static_cast<tt::RNN&>(module)(in[0], hidden, lengths)
                                    : static_cast<tt::GRU&>(module)(in[0], hidden, lengths);
  return {y, h};
}

std::shared_ptr<tt::Module> made(const json& c) {
  const json& o = c["options"];
  const bool bias = o.value("bias", true);
  const auto f = o.value("nonlinearity", "tanh") == "relu" ? tt::Nonlinearity::relu : tt::Nonlinearity::tanh;
  const tt::RecurrentOptions options{.num_layers = o.value("num_layers", 1),
                                     .bias = bias,
                                     .batch_first = o.value("batch_first", false),
                                     .bidirectional = o.value("bidirectional", false),
                                     .nonlinearity = f};
  const std::string kind = c["kind"];
  if (kind == "RNNCell") return std::make_shared<tt::RNNCell>(3, 4, bias, f);
  if (kind == "GRUCell") return std::make_shared<tt::GRUCell>(3, 4, bias);
  if (kind == "LSTMCell") return std::make_shared<tt::LSTMCell>(3, 4, bias);
  if (kind == "RNN") return std::make_shared<tt::RNN>(3, 4, options);
  if (kind == "GRU") return std::make_shared<tt::GRU>(3, 4, options);
  REQUIRE(kind == "LSTM");
  return std::make_shared<tt::LSTM>(3, 4, options);
}

}  // namespace

TEST_CASE("outputs, states and gradients of recurrent layers and cells equal PyTorch's") {
  std::map<std::string, int> seen;
  const json golden = read_golden("recurrent");
  for (const json& c : golden["cases"]) {
    for (const tt::DType dtype : {tt::f64, tt::f32, tt::bf16}) {
      INFO(c["kind"].dump(), " ", c["options"].dump(), " ", tt::name_of(dtype));
      ++seen[c["lengths"].is_null() ? c["kind"].get<std::string>()
                                    : "packed " + c["kind"].get<std::string>()];
      const std::shared_ptr<tt::Module> module = made(c);
      module->to(dtype);
      set_weights(*module, dtype);
      const tt::Tensors inputs = inputs_of(c, dtype);
      const tt::Tensors results = call(*module, c, inputs);
      REQUIRE(results.size() == c["results"].size());
      const double tolerance = dtype == tt::f64 ? 1e-8 : (dtype == tt::f32 ? 2e-5 : 0.1);
      tt::Tensor loss = tt::zeros({}, dtype);
      for (size_t i = 0; i < results.size(); ++i) {
        CHECK(results[i].dtype() == dtype);
        check_equal(results[i], c["results"][i], tolerance);
        std::vector<double> upstream(static_cast<size_t>(results[i].numel()));
        for (size_t k = 0; k < upstream.size(); ++k) upstream[k] = std::cos(static_cast<double>(k));
        loss = loss + tt::sum(results[i] * tt::from_data(upstream).reshape(results[i].shape()).to(dtype));
      }
      loss.backward();
      if (dtype == tt::bf16) continue;
      const double gradient_tolerance = dtype == tt::f64 ? 1e-8 : 1e-4;
      for (size_t i = 0; i < inputs.size(); ++i)
        check_equal(inputs[i].grad(), c["gradients"][i], gradient_tolerance);
      REQUIRE(module->named_parameters().size() == c["weight_gradients"].size());
      for (const tt::NamedTensor& p : module->named_parameters())
        check_equal(p.tensor.grad(), c["weight_gradients"][p.name], gradient_tolerance);
    }
  }
  CHECK(seen.size() == 9);
  for (const char* kind : {"packed RNN", "packed GRU", "packed LSTM"}) CHECK(seen[kind] >= 4 * 3);
}

TEST_CASE("what is behind the length of a sample has no effect, and its outputs are 0") {
  tt::manual_seed(3);
  tt::GRU gru(3, 4, {.batch_first = true, .bidirectional = true});
  const tt::Tensor x = tt::randn({2, 5, 3}), other = tt::cat({x.slice(1, 0, 2), tt::randn({2, 3, 3})}, 1);
  const tt::Tensor lengths = tt::from_data(std::vector<int64_t>{2, 2});
  const auto [y, h] = gru(x, {}, lengths);
  const auto [y2, h2] = gru(other, {}, lengths);
  const auto [y3, h3] = gru(x.slice(1, 0, 2));
  CHECK(y.to_vector() == y2.to_vector());
  CHECK(h.to_vector() == h2.to_vector());
  CHECK(tt::max(tt::abs(y.slice(1, 2))).item() == 0);
  CHECK(y.slice(1, 0, 2).contiguous().to_vector() == y3.contiguous().to_vector());
  CHECK(h.to_vector() == h3.to_vector());
}

TEST_CASE("a sequence in two parts gives the values of the whole; a Sequential gets the outputs alone") {
  tt::manual_seed(4);
  tt::LSTM lstm(3, 4, {.num_layers = 2});
  const tt::Tensor x = tt::randn({6, 2, 3});
  const auto [whole, last] = lstm(x);
  const auto [first, state] = lstm(x.slice(0, 0, 2));
  const auto [second, after] = lstm(x.slice(0, 2), state);
  check_values(tt::cat({first, second}).to_vector<double>(), whole.to_vector<double>(), 1e-6);
  check_values(after.cell.to_vector<double>(), last.cell.to_vector<double>(), 1e-6);
  tt::Sequential net(tt::GRU(3, 4), tt::RNN(4, 2));
  CHECK(net(x).shape() == tt::Shape{6, 2, 2});
  const tt::Tensor strided = tt::randn({2, 3, 6}).permute({2, 0, 1});  // not contiguous
  CHECK(lstm.forward(strided).to_vector() == lstm.forward(strided.contiguous()).to_vector());
  CHECK(lstm.forward(tt::zeros({2, 0, 3})).shape() == tt::Shape{2, 0, 4});
}

TEST_CASE("dropout acts between layers in training alone") {
  tt::manual_seed(5);
  tt::RNN rnn(3, 8, {.num_layers = 2, .dropout = 1});
  const tt::Tensor x = tt::randn({4, 2, 3});
  const auto differs = [&] { return tt::max(tt::abs(rnn.forward(x) - rnn.forward(x * 2))).item() > 0; };
  CHECK(!differs());  // the second layer reads zeros
  rnn.eval();
  CHECK(differs());
}

TEST_CASE("recurrent layers initialize within 1/sqrt(H) and refuse sizes that do not fit") {
  tt::LSTM lstm(3, 16);
  float largest = 0;
  for (const tt::Tensor& p : lstm.parameters()) largest = std::max(largest, tt::max(tt::abs(p)).item());
  CHECK(largest <= 0.25f);
  CHECK(largest > 0.24f);
  using errors::thrown_by;
  CHECK(thrown_by([&] { lstm(tt::zeros({2, 2, 4})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { lstm(tt::zeros({3})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { lstm(tt::zeros({0, 2, 3})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { lstm(tt::zeros({2, 2, 3}), {tt::zeros({1, 3, 16})}); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { lstm(tt::zeros({2, 2, 3}), {}, tt::ones({3}, tt::i64)); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::GRUCell(3, 4)(tt::zeros({2, 2, 3})); }).code == "TT-SHAPE-02");
  CHECK(thrown_by([&] { tt::GRU(0, 4); }).code == "TT-RANGE-08");
  CHECK(thrown_by([&] { tt::GRU(3, 4, {.num_layers = 0}); }).code == "TT-RANGE-08");
}
