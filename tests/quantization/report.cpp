#include <tinytorch/quantization/report.hpp>

#include <doctest/doctest.h>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace q = tinytorch::quantization;

namespace {

struct Net : tt::Module {
  tt::Linear wide{64, 96}, narrow{96, 40}, last{40, 5};
  Net() { add("wide", wide), add("narrow", narrow), add("last", last); }
  tt::Tensor forward(const tt::Tensor& x) override { return last(tt::relu(narrow(tt::relu(wide(x))))); }
};
tt::Tensor rows(int64_t count) {
  tt::Generator g(6);
  return tt::randn({count, 64}, tt::f32, tt::cpu, g);
}
tt::Json parsed(const std::string& text) {
  return tt::parse_json(tt::Bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

}  // namespace

TEST_CASE("the measured error of a layer is that of the model with this layer alone") {
  const tt::NoGrad no_grad;
  const tt::Tensor x = rows(50);
  const auto choose = [](const std::string& only) {
    return
        [only](const std::string& path) { return std::string(path == only || only.empty() ? "Q4_0" : ""); };
  };
  const auto measured = [&](const std::string& only, bool measure) {
    tt::manual_seed(1);
    Net net;
    const tt::Tensor exact = net(x);
    const auto report =
        tt::quantize(net, {.choose = choose(only), .method = "mse", .calibration = {x}, .measure = measure});
    return std::pair(report, q::relative_error({exact}, {net(x)}));
  };
  const auto [report, all] = measured("", true);
  REQUIRE(report.layers.size() == 3);
  CHECK(report.measured());
  CHECK(report.output_error == doctest::Approx(all).epsilon(1e-3));
  for (const tt::QuantizedLayer& l : report.layers) {
    CAPTURE(l.path);
    if (l.path == "last") {  // 40 is no multiple of 32
      CHECK(l.format.empty());
      CHECK(std::isnan(l.output_error));
      continue;
    }
    const auto [alone, error] = measured(l.path, false);
    CHECK_FALSE(alone.measured());
    CHECK(l.output_error == doctest::Approx(error).epsilon(1e-3));
    CHECK(l.divergence > 0);
    CHECK(l.seconds > 0);
    CHECK(l.seconds_before > 0);
    CHECK(l.clipped < 0.2);
    CHECK(l.sqnr > 15);
  }
}

TEST_CASE("measuring leaves no float weight, and the same bytes as without") {
  const tt::NoGrad no_grad;
  const tt::Tensor x = rows(50);
  const auto state = [&](bool measure) {
    tt::manual_seed(1);
    Net net;
    const auto report =
        tt::quantize(net, {.format = "Q4_0", .method = "awq+gptq", .calibration = {x}, .measure = measure});
    CHECK(report.bytes == q::bytes_of(net));
    CHECK_FALSE(net.wide.weight.defined());
    CHECK(net.last.weight.defined());
    std::vector<std::vector<double>> out;
    for (const auto& [name, t] : net.state_dict()) out.push_back(t.to_vector<double>());
    return out;
  };
  CHECK(state(true) == state(false));
}

TEST_CASE("text and JSON say the same") {
  const tt::NoGrad no_grad;
  for (const bool measure : {false, true}) {
    tt::manual_seed(1);
    Net net;
    const tt::QuantizationReport r = tt::quantize(
        net, {.format = "Q4_0", .method = "smooth", .calibration = {rows(9)}, .measure = measure});
    const tt::Json json = parsed(r.json());
    CHECK(*json.find("method")->string() == "smooth");
    CHECK(json.find("bytes")->integer() == r.bytes);
    CHECK(json.find("divergence")->is_null() == !measure);
    REQUIRE(json.find("layers")->array()->size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      const tt::Json& row = (*json.find("layers")->array())[i];
      CHECK(*row.find("path")->string() == r.layers[i].path);
      CHECK(row.find("bytes")->integer() == r.layers[i].bytes);
      CHECK(row.find("seconds")->is_null() == (!measure || r.layers[i].format.empty()));
      CHECK(r.text().find(r.layers[i].path) != std::string::npos);
    }
    CHECK((r.text().find("KL") != std::string::npos) == measure);
    CHECK(r.text().find("no multiple of 32") != std::string::npos);
    CHECK(r.text().find("scaled") != std::string::npos);
    CHECK(r.text().find("nan") == std::string::npos);
  }
  CHECK(parsed(tt::QuantizationReport().json()).find("layers")->array()->empty());
}
