// Weights of GPTQ and AWQ against the numbers of golden/make_int4.py, and files that lie.
#include <doctest/doctest.h>

#include <io/files.hpp>
#include <nlohmann/json.hpp>
#include <support/device.hpp>
#include <support/fresh.hpp>
#include <support/golden_file.hpp>
#include <tinytorch/quantization/files.hpp>
#include <tinytorch/quantization/int4_import.hpp>

using namespace tinytorch;
using files::refusal_of;
using nlohmann::json;

namespace {

Tensor words(const json& values, const Shape& shape) {
  return from_data(values.get<std::vector<int32_t>>(), shape, cpu);
}
// The tensors of a case under "layer".
TensorMap file_of(const json& c) {
  const auto N = c.at("N").get<int64_t>(), K = c.at("K").get<int64_t>();
  const int64_t groups = K / c.at("config").at("group_size").get<int64_t>();
  const bool awq = c.at("config").at("quant_method") == "awq";
  std::vector<float> scales;
  for (const json& bits : c.at("scales")) scales.push_back(f16_bits_to_float(bits.get<uint16_t>()));
  TensorMap out{{"layer.qweight", words(c.at("qweight"), awq ? Shape{K, N / 8} : Shape{K / 8, N})},
                {"layer.qzeros", words(c.at("qzeros"), {groups, N / 8})},
                {"layer.scales", from_data(scales, {groups, N}, cpu).to(DType::f16)}};
  if (c.contains("g_idx")) out["layer.g_idx"] = words(c.at("g_idx"), {K});
  return out;
}
Int4Config config_of(const json& c) {
  const std::string text = c.at("config").dump();
  return parse_int4_config(as_bytes(text));
}
// The numbers [N, K] of a case.
Tensor numbers_of(const json& c) {
  const std::string hex = c.at("numbers").get<std::string>();
  std::vector<float> out;
  for (size_t i = 0; i < hex.size(); i += 8) {
    uint32_t word = 0;
    for (size_t b = 0; b < 4; ++b)
      word |= static_cast<uint32_t>(std::stoul(hex.substr(i + 2 * b, 2), nullptr, 16)) << 8 * b;
    out.push_back(std::bit_cast<float>(word));
  }
  return from_data(out, {c.at("N").get<int64_t>(), c.at("K").get<int64_t>()}, cpu);
}
const json& case_named(const json& cases, const std::string& name) {
  for (const json& c : cases)
    if (c.at("name") == name) return c;
  FAIL("no such case");
  return cases;
}

}  // namespace

TEST_CASE("weights are the numbers that the published layouts stand for") {
  const json cases = read_golden("int4");
  CHECK(cases.size() == 6);
  for (const json& c : cases) {
    const std::string name = c.at("name").get<std::string>();
    CAPTURE(name);
    const Int4Weight w = read_int4(file_of(c), "layer", config_of(c));
    Tensor want = numbers_of(c);
    if (w.input_order.defined()) want = index_select(want, -1, w.input_order);
    CHECK(w.input_order.defined() == c.at("config").value("desc_act", false));
    const Tensor got = w.weight.dequantize();
    const bool all_eight =
        c.at("config").value("sym", false) || name.find("zero points of 8") != std::string::npos;
    CHECK(std::string(w.weight.format().name) == (all_eight ? "Q4_0" : "Q4_1"));
    CHECK(w.exact == equal(got, want));
    if (all_eight) CHECK(w.exact);
    // The offset s z has a rounding error of f16 at most: s is below 0.06, and z at most 15.
    CHECK(max(abs(got - want)).item<float>() <= 0.06f * 15 / 2048);
  }
}

TEST_CASE("zero points whose product with the scale has 11 bits are exact") {
  const json cases = read_golden("int4");
  TensorMap file = file_of(case_named(cases, "awq"));
  const Int4Config config = config_of(case_named(cases, "awq"));
  CHECK(!read_int4(file, "layer", config).exact);
  for (const uint32_t z : {0u, 1u, 2u, 4u}) {
    file["layer.qzeros"] =
        full(file["layer.qzeros"].shape(), static_cast<double>(z * 0x11111111u), DType::i32, cpu);
    CHECK(read_int4(file, "layer", config).exact);
  }
}

TEST_CASE("a layer that was imported computes with the weights of the file, in the order of its inputs") {
  const NoGrad no_grad;
  const json cases = read_golden("int4");
  for (const json& c : cases) {
    CAPTURE(c.at("name").get<std::string>());
    TensorMap file = file_of(c);
    file["layer.bias"] = arange(0, 8).to(DType::f32).to(cpu);
    Linear layer(128, 8);
    const auto packed = import_int4(layer, file, "layer", config_of(c), Activations::floats);
    const Tensor x = randn({3, 5, 128});
    const Tensor want = linear(x.to(cpu), numbers_of(c), file["layer.bias"]);
    CHECK(max(abs(layer(x).to(cpu) - want)).item<float>() < 0.06f * 15 / 2048 * 128);
    // The layer is the same after a file of this library was written and read.
    const files::TempFolder folder;
    save_packed(layer, folder / "layer");
    Linear fresh(128, 8), other(128, 8);
    load_packed(fresh, folder / "layer");
    CHECK(equal(fresh(x), layer(x)));
    import_int4(other, file, "layer", config_of(c));
    load_packed(other, folder / "layer");
    CHECK(equal(other(x), layer(x)));
    // In a module that moves to another dtype, the order stays.
    layer.to(DType::bf16);
    CHECK(layer(x.to(DType::bf16)).dtype() == DType::bf16);
  }
  Linear narrow(64, 8), without(128, 8, false);
  const json& c = cases[0];
  CHECK(refusal_of([&] { import_int4(narrow, file_of(c), "layer", config_of(c)); }).code == "TT-NN-04");
  CHECK(refusal_of([&] { import_int4(narrow, file_of(c), "layer", config_of(c)); }).code == "TT-NN-04");
  CHECK(narrow.weight.defined());
  (void)import_int4(without, file_of(c), "layer", config_of(c));
}

TEST_CASE("settings: names of both programs, and what cannot be read") {
  const auto parse = [](const std::string& text) { return parse_int4_config(as_bytes(text)); };
  Int4Config c = parse(R"({"w_bit": 4, "q_group_size": 64, "zero_point": true, "version": "GEMM"})");
  CHECK(c.layout == Int4Layout::awq);
  CHECK(c.group == 64);
  c = parse(R"({"model_type": "llama", "quantization_config": {"bits": 4, "group_size": -1, "sym": true}})");
  CHECK(c.layout == Int4Layout::gptq);
  CHECK(c.group == -1);
  CHECK(c.symmetric);
  c = parse(R"({"bits": 4, "group_size": 32, "quant_method": "gptq", "checkpoint_format": "gptq_v2"})");
  CHECK(c.layout == Int4Layout::gptq_v2);
  const auto refused = [&](const std::string& text, const char* code, const char* word) {
    const files::Refusal r = refusal_of([&] { parse(text); });
    CAPTURE(r.text);
    CHECK(r.code == code);
    CHECK(files::contains(r.text, word));
  };
  refused(R"({"bits": 3, "group_size": 128})", "TT-IO-04", "3 bits");
  refused(R"({"bits": 4, "group_size": 16})", "TT-IO-04", "group_size 16");
  refused(R"({"bits": 4, "group_size": 100})", "TT-IO-04", "group_size 100");
  refused(R"({"bits": 4, "group_size": 128, "checkpoint_format": "marlin"})", "TT-IO-04", "marlin");
  refused(R"({"bits": 4, "group_size": 128, "quant_method": "hqq"})", "TT-IO-04", "hqq");
  refused(R"({"w_bit": 4, "q_group_size": 128, "version": "gemv"})", "TT-IO-04", "gemv");
  refused(R"({"w_bit": 4, "q_group_size": 128, "zero_point": false})", "TT-IO-04", "zero_point");
  refused(R"({"group_size": 128})", "TT-IO-03", "bits");
  refused(R"({"bits": "4", "group_size": 128})", "TT-IO-03", "bits");
  refused(R"({"bits": 4, "group_size": 128, "sym": 1})", "TT-IO-03", "sym");
  refused(R"([4])", "TT-IO-03", "object");
}

TEST_CASE("tensors that do not fit the settings or each other are refused with the reason") {
  const json cases = read_golden("int4");
  const json &symmetric = case_named(cases, "symmetric"), &awq = case_named(cases, "awq"),
             &sorted = case_named(cases, "act-order"), &zeros = case_named(cases, "zero points");
  const auto refused = [](const TensorMap& file, const Int4Config& config, const char* code,
                          const char* word) {
    const files::Refusal r = refusal_of([&] { (void)read_int4(file, "layer", config); });
    CAPTURE(r.text);
    CHECK(r.code == code);
    CHECK(files::contains(r.text, word));
  };
  // Another group size, layout, version or symmetry.
  refused(file_of(symmetric), {Int4Layout::gptq, 32, true}, "TT-IO-03", "groups of 32");
  refused(file_of(symmetric), {Int4Layout::gptq, 128, true}, "TT-IO-03", "groups of 128");
  refused(file_of(symmetric), {Int4Layout::gptq, 48, true}, "TT-IO-04", "multiple of 32");
  refused(file_of(symmetric), {Int4Layout::gptq_v2, 64, true}, "TT-IO-03", "stored as in gptq:");
  refused(file_of(zeros), {Int4Layout::gptq, 128, true}, "TT-IO-03", "sym");
  refused(file_of(awq), {Int4Layout::gptq, 64, false}, "TT-IO-04", "whole groups");
  refused(file_of(symmetric), {Int4Layout::awq, 64, false}, "TT-IO-04", "whole groups");
  const auto change = [&](const json& c, const char* name, const Tensor& t, const char* code,
                          const char* word) {
    TensorMap file = file_of(c);
    if (t.defined())
      file[name] = t;
    else
      file.erase(name);
    refused(file, config_of(c), code, word);
  };
  for (const char* name : {"layer.qweight", "layer.qzeros", "layer.scales"})
    change(symmetric, name, {}, "TT-IO-03", name);
  change(symmetric, "layer.qweight", zeros_like(file_of(symmetric)["layer.qweight"]).to(DType::i64),
         "TT-IO-03", "i64");
  change(symmetric, "layer.scales", ones({2, 8}, DType::f32, cpu), "TT-IO-03", "f32");
  change(symmetric, "layer.scales", ones({3, 8}, DType::f16, cpu), "TT-IO-03", "scales");
  change(symmetric, "layer.scales", full({2, 8}, INFINITY, DType::f16, cpu), "TT-IO-03", "finite");
  change(symmetric, "layer.qweight", tinytorch::zeros({0, 8}, DType::i32, cpu), "TT-IO-04", "whole groups");
  change(zeros, "layer.qzeros", full({1, 1}, -1.0, DType::i32, cpu), "TT-IO-04", "16");
  change(zeros, "layer.scales", full({1, 8}, 60000, DType::f16, cpu), "TT-IO-04", "within f16");
  change(sorted, "layer.g_idx", tinytorch::zeros({128}, DType::i32, cpu), "TT-IO-03", "group 0");
  change(sorted, "layer.g_idx", full({128}, 77, DType::i32, cpu), "TT-IO-03", "group 77");
  change(sorted, "layer.g_idx", full({128}, -1, DType::i32, cpu), "TT-IO-03", "group -1");
  change(sorted, "layer.g_idx", arange(0, 64).to(DType::i32).to(cpu), "TT-IO-03", "g_idx");
}

TEST_CASE("a damaged file is refused, or read without an access out of bounds") {
  const json cases = read_golden("int4");
  for (const char* name : {"act-order", "awq"}) {
    const json& c = case_named(cases, name);
    const Int4Config config = config_of(c);
    const std::vector<std::byte> valid = to_safetensors(file_of(c));
    const auto read = [&](Bytes bytes) {
      const TensorMap file = parse_safetensors(bytes, "int4");
      (void)read_int4(file, "layer", config);
    };
    for (size_t n = 0; n < valid.size(); n += 13)
      CHECK(refusal_of([&] { read(Bytes(valid).first(n)); }).code.starts_with("TT-IO-"));
    CHECK(files::check_damaged_files(valid, read) > 300);
  }
}
