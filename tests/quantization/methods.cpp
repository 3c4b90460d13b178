#include <tinytorch/quantization/methods.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;
namespace q = tinytorch::quantization;

namespace {

struct Net : tt::Module {
  tt::Linear first{64, 96}, second{96, 64};
  Net() { add("first", first), add("second", second); }
  tt::Tensor forward(const tt::Tensor& x) override { return second(tt::relu(first(x))); }
};
tt::Gpt2 small_gpt2(tt::Activation fn = tt::Activation::gelu_tanh) {
  tt::manual_seed(3);
  tt::Gpt2 model({.vocabulary = 48,
                  .context = 32,
                  .features = 32,
                  .layers = 2,
                  .heads = 4,
                  .activation = fn,
                  .deviation = 0.2});
  // Channels of very different size, so that the scales are not 1.
  for (auto* const norm : {&model.blocks[0].attention_norm, &model.blocks[1].mlp_norm, &model.final_norm})
    norm->weight.copy_(tt::exp(tt::randn({32})));
  return model;
}
tt::Llama small_llama(int64_t groups) {
  tt::manual_seed(4);
  tt::Llama model({.vocabulary = 48,
                   .context = 32,
                   .features = 32,
                   .layers = 2,
                   .heads = 4,
                   .groups = groups,
                   .hidden = 64,
                   .deviation = 0.2});
  model.blocks[1].attention_norm.weight.copy_(tt::exp(tt::randn({32})));
  return model;
}
// Calibration data may be on the CPU while the model is on another device. What a test calls itself may not.
tt::Tensor on_device(const tt::Tensor& x) { return x.to(tt::default_device()); }
// Token ids [2, 12] of batch i, on the CPU.
tt::Tensor ids(int64_t i) {
  tt::Generator g(static_cast<uint64_t>(100 + i));
  return tt::randint(0, 48, {2, 12}, tt::i64, tt::cpu, g);
}
tt::Tensor rows(int64_t count, uint64_t seed) {
  tt::Generator g(seed);
  const tt::Tensor mix = tt::randn({64, 64}, tt::f32, tt::cpu, g);
  return tt::matmul(tt::randn({count, 64}, tt::f32, tt::cpu, g), mix) * 0.125;
}
double relative_error(const tt::Tensor& got, const tt::Tensor& want) {
  const tt::Tensor d = got.to(tt::f64) - want.to(tt::f64), w = want.to(tt::f64);
  return std::sqrt(tt::sum(d * d).item<double>() / tt::sum(w * w).item<double>());
}
// All bytes of a model's buffers and parameters.
std::vector<std::vector<double>> bits_of(tt::Module& model) {
  std::vector<std::vector<double>> out;
  for (const auto& [name, t] : model.state_dict()) out.push_back(t.to_vector<double>());
  return out;
}
const std::vector<std::string> kMethods = {"mse",      "gptq",     "awq",           "smooth",
                                           "hadamard", "awq+gptq", "hadamard+gptq", "smooth+mse"};

}  // namespace

TEST_CASE("names of methods: one for channels, one for rounding, or both") {
  CHECK(q::method_of("nearest").rounding == q::Rounding::nearest);
  CHECK(q::method_of("awq+gptq").channels == q::Channels::awq);
  CHECK(q::method_of("gptq+awq").rounding == q::Rounding::gptq);
  CHECK(q::method_of("smooth").needs_calibration());
  CHECK_FALSE(q::method_of("hadamard+mse").needs_calibration());
  for (const char* const wrong : {"", "GPTQ", "awq+smooth", "mse+gptq", "gptq+", "awq+gptq+mse", "awq gptq"})
    CHECK(errors::thrown_by([&] { q::method_of(wrong); }).code == "TT-QUANT-08");
}

TEST_CASE("scales of channels do not change the function of a model; who takes them over follows the tree") {
  const tt::NoGrad no_grad;
  const auto check = [](auto model, const char* method, const std::map<std::string, std::string>& expected) {
    model.eval();
    const tt::Tensor before = model(on_device(ids(7)));
    const tt::QuantizationConfig config{.head = "Q8_0", .method = method, .calibration = {ids(0), ids(1)}};
    std::vector<q::Work> work = q::plan_layers(model, config, tt::Loc::current());
    const std::vector<q::Work*> chosen = q::chosen(work);
    const q::InputMakers makers = q::input_makers(model);
    const q::LayerInputs inputs = q::observe(model, chosen, config.calibration, tt::Loc::current());
    q::scale_channels(chosen, inputs, makers, q::method_of(method), config, tt::Loc::current());
    CHECK(relative_error(model(on_device(ids(7))), before) <
          1e-5);  // layers with scales of their own still have W
    bool changed = false;
    for (const q::Work& w : work) {
      CAPTURE(w.place.path);
      const std::string name = w.place.path.substr(w.place.path.rfind('.') + 1);
      CHECK(w.row.inputs == expected.at(name));
      const tt::Tensor s = w.transform.scale;
      CHECK(s.defined() == (w.row.inputs == "scaled"));
      if (s.defined()) changed = changed || tt::max(s).item<double>() > 1.5 * tt::min(s).item<double>();
      const tt::Tensor x = tt::randn({3, w.place.layer->weight.size(1)});
      const tt::Tensor weight = on_device(w.transform.weight(w.place.layer->weight));
      CHECK(relative_error(tt::linear(w.transform.inputs(x), weight), tt::linear(x, w.place.layer->weight)) <
            1e-5);
    }
    return changed;
  };
  const std::map<std::string, std::string> gpt2{
      {"qkv", "folded"}, {"projection", "folded"}, {"up", "folded"}, {"down", "scaled"}, {"head", "folded"}};
  auto relu_net = gpt2, llama = gpt2, grouped = gpt2;
  relu_net["down"] = "folded";
  llama["gate_up"] = "folded", llama["down"] = "folded";
  grouped = llama, grouped["projection"] = "scaled";
  for (const char* const method : {"awq", "smooth"}) {
    CAPTURE(method);
    CHECK(check(small_gpt2(), method, gpt2));
    check(small_gpt2(tt::Activation::relu), method, relu_net);
    check(small_llama(4), method, llama);
    check(small_llama(2), method, grouped);
  }
}

TEST_CASE("each method keeps a model close to the float one, with the head and with a tied embedding") {
  const tt::NoGrad no_grad;
  std::map<std::string, double> plain;  // the error of rounding to nearest, by type of model
  std::vector<std::string> methods{"nearest"};
  methods.insert(methods.end(), kMethods.begin(), kMethods.end());
  for (const std::string& method : methods) {
    CAPTURE(method);
    const auto check = [&](auto model) {
      model.eval();
      const tt::Tensor before = model(on_device(ids(7))), embedding = model.token_embedding.weight.clone();
      const tt::QuantizationReport report = tt::quantize(model, {.format = "Q8_0",
                                                                 .head = "Q8_0",
                                                                 .activations = tt::Activations::floats,
                                                                 .method = method,
                                                                 .calibration = {ids(0), ids(1)},
                                                                 .seed = 5});
      const double error = relative_error(model(on_device(ids(7))), before);
      double& rounding = plain[typeid(model).name()];
      if (method == "nearest") rounding = error;
      CHECK(error < 0.06);
      CHECK(error < 1.5 * rounding + 1e-9);
      CHECK(same_numbers(model.token_embedding.weight, embedding));
      CHECK(report.bytes == q::bytes_of(model));
      CHECK(report.method == method);
      CHECK(model.training() == false);
    };
    check(small_gpt2());
    check(small_llama(2));
  }
}

TEST_CASE("equal weights, calibration data and seed give equal bytes, for any threads and batches") {
  const tt::NoGrad no_grad;
  const int threads = tt::thread_count();
  for (const std::string method : {"mse", "awq+gptq", "smooth", "hadamard+gptq"}) {
    CAPTURE(method);
    const auto packed = [&](int count, const tt::Calibration& calibration, uint64_t seed = 9) {
      tt::set_thread_count(count);
      tt::Gpt2 model = small_gpt2();
      tt::quantize(
          model,
          {.format = "Q4_0", .head = "Q8_0", .method = method, .calibration = calibration, .seed = seed});
      tt::set_thread_count(threads);
      return bits_of(model);
    };
    const tt::Tensor all = tt::cat({ids(0), ids(1)}, 0);
    const auto once = packed(2, {ids(0), ids(1)});
    CHECK(packed(1, {ids(0), ids(1)}) == once);
    const auto whole = packed(3, tt::Calibration([&](int64_t i) { return i == 0 ? all : tt::Tensor(); }));
    // On a GPU, the number of rows of a product decides in which order it adds.
    if (tt::default_device().is_cpu()) CHECK(whole == once);
    CHECK((packed(2, {ids(0), ids(1)}, 10) == once) == (method.find("hadamard") == std::string::npos));
    CHECK(packed(2, {on_device(ids(0)), on_device(ids(1))}) == once);
    CHECK(packed(2, {ids(2)}) != once);
  }
}

TEST_CASE("GPTQ sees the inputs that come from the layers quantized before") {
  const tt::NoGrad no_grad;
  tt::manual_seed(6);
  Net net;
  const tt::Tensor w1 = net.first.weight.clone(), b1 = net.first.bias.clone(), w2 = net.second.weight.clone(),
                   x = on_device(rows(200, 1));
  tt::quantize(net, {.format = "Q4_0", .method = "gptq", .calibration = {x}});
  const tt::BlockFormat& f = tt::block_format("Q4_0");
  const auto seen = [](const tt::Tensor& inputs) {
    tt::InputStatistics s(inputs.size(-1));
    s.observe(inputs);
    return s;
  };
  const tt::backend::cpu::ProductsByRows by_rows;
  const tt::QuantizedTensor first = tt::gptq_pack(w1, seen(x), f);
  const tt::Tensor hidden = tt::relu(tt::linear(x, first, b1)), exact = tt::relu(tt::linear(x, w1, b1));
  CHECK(same_numbers(net.state_dict().at("first.weight"), first.blocks()));
  CHECK(same_numbers(net.state_dict().at("second.weight"), tt::gptq_pack(w2, seen(hidden), f).blocks()));
  CHECK_FALSE(same_numbers(net.state_dict().at("second.weight"), tt::gptq_pack(w2, seen(exact), f).blocks()));
}

TEST_CASE("each method answers the inputs that it is made for") {
  const tt::NoGrad no_grad;
  const auto error = [](const Layer& layer, const std::string& method, const char* format,
                        tt::Activations a) {
    tt::Linear net(256, 64, false);
    net.weight.copy_(layer.w);
    tt::quantize(net, {.format = format, .activations = a, .method = method, .calibration = {layer.x}});
    // A GPU rounds the activations of few rows to 8 bits, and multiplies those of more as they are.
    tt::Tensors outputs;
    for (int64_t m = 0; m < layer.x.size(0); m += 16)
      outputs.push_back(net(on_device(tt::slice(layer.x, 0, m, m + 16))).to(tt::cpu));
    return tt::sqnr_db(tt::matmul(layer.x.to(tt::f64), layer.w.to(tt::f64).t()), tt::cat(outputs, 0));
  };
  Layer plain = planted_layer(false), outliers = planted_layer(true);
  for (Layer* const l : {&plain, &outliers}) l->w = l->w.slice(0, 0, 64).contiguous();
  const auto of = [&](const Layer& layer, const std::string& method) {
    return error(layer, method, "Q4_0", tt::Activations::floats);
  };
  const double nearest = of(plain, "nearest"), with_outliers = of(outliers, "nearest");
  MESSAGE("nearest ", nearest, " dB; with outliers ", with_outliers);
  CHECK(of(plain, "gptq") > nearest + 1.5);
  CHECK(of(plain, "mse") > nearest);
  CHECK(of(outliers, "awq") > with_outliers + 5);
  CHECK(of(outliers, "awq+gptq") > of(outliers, "awq"));
  // Activations of 8 bits whose groups have an outlier.
  const auto rounded = [&](const std::string& m) {
    return error(outliers, m, "Q8_0", tt::Activations::int8);
  };
  MESSAGE("int8: nearest ", rounded("nearest"), " smooth ", rounded("smooth"), " hadamard ",
          rounded("hadamard"));
  CHECK(rounded("smooth") > rounded("nearest") + 3);
}

TEST_CASE("layers may be of bf16, kept by path, or packed before") {
  const tt::NoGrad no_grad;
  tt::Gpt2 model = small_gpt2();
  model.to(tt::bf16), model.eval();
  const tt::Tensor before = model(on_device(ids(7))).to(tt::f32);
  const auto choose = [](const std::string& path) {
    return std::string(path.ends_with("qkv") ? "" : "Q8_0");
  };
  tt::quantize(model, {.choose = choose, .method = "awq", .calibration = {ids(0)}});
  CHECK(relative_error(model(on_device(ids(7))).to(tt::f32), before) < 0.05);
  // The layers that were kept are packed by a second call, whose folding finds packed neighbours.
  const tt::QuantizationReport second =
      tt::quantize(model, {.head = "Q8_0", .method = "smooth", .calibration = {ids(0)}});
  CHECK(second.layers.size() == 3);
  CHECK(relative_error(model(on_device(ids(7))).to(tt::f32), before) < 0.07);
}

TEST_CASE("calibration that is missing, empty or not finite is an error, and the model stays as it was") {
  const tt::NoGrad no_grad;
  const auto code = [](tt::Module& m, const tt::QuantizationConfig& c) {
    return errors::thrown_by([&] { tt::quantize(m, c); });
  };
  Net net;
  const tt::Tensor x = rows(8, 2), before = net(on_device(x));
  CHECK(code(net, {.method = "gptq"}).code == "TT-CALIB-02");
  CHECK(code(net, {.measure = true}).code == "TT-CALIB-02");
  CHECK(code(net, {.method = "awq", .calibration = {tt::zeros({0, 64})}}).code == "TT-CALIB-02");
  CHECK(code(net, {.method = "awq", .calibration = [](int64_t) { return tt::Tensor(); }}).code ==
        "TT-CALIB-02");
  const tt::Tensor bad = x.clone();
  bad.data<float>()[77] = INFINITY;
  const errors::Thrown t = code(net, {.method = "gptq", .calibration = {x, bad}});
  CHECK(t.code == "TT-CALIB-01");
  CHECK(t.text.find("batch 1") != std::string::npos);
  CHECK(code(net, {.method = "rounding"}).code == "TT-QUANT-08");
  CHECK(code(net, {.method = "smooth", .calibration = {x}, .alpha = 2}).code == "TT-CALIB-03");
  net.eval();
  CHECK(relative_error(net(on_device(x)), before) < 1e-6);
  CHECK(net.state_dict().at("first.weight").dtype() == tt::f32);
  // A layer that makes an infinity, and one that is never called.
  net.first.bias.slice(0, 3, 4).copy_(tt::full({1}, INFINITY));
  const errors::Thrown inner = code(net, {.method = "awq", .calibration = {x}});
  CHECK(inner.code == "TT-CALIB-01");
  CHECK(inner.text.find("'second'") != std::string::npos);
  struct Idle : Net {
    tt::Linear idle{64, 64};
    Idle() { add("idle", idle); }
  } with_idle;
  const errors::Thrown never = code(with_idle, {.method = "gptq", .calibration = {x}});
  CHECK(never.code == "TT-CALIB-02");
  CHECK(never.text.find("'idle'") != std::string::npos);
  CHECK(with_idle.training());
  const auto keep_idle = [](const std::string& path) { return std::string(path == "idle" ? "" : "Q4_0"); };
  CHECK(code(with_idle, {.choose = keep_idle, .method = "gptq", .calibration = {x}}).code.empty());
}
