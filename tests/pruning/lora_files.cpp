#include <tinytorch/pruning/lora_files.hpp>

#include <io/files.hpp>
#include <pruning/formats.hpp>
#include <tree/source_folder.hpp>

using namespace test;

namespace {

std::string golden(const std::string& name) {
  return tinytorch_tree::kSourceFolder + std::string("/tests/golden/") + name;
}
double largest_difference(const tt::Tensor& a, const tt::Tensor& b) {
  return tt::max(tt::abs(a.detach().to(tt::cpu).to(tt::f64) - b.detach().to(tt::cpu).to(tt::f64)))
      .item<double>();
}
struct Case {
  const char* name;
  const char* base;
};
const std::vector<Case> kCases{{"lora/llama_qv", "transformers/llama_grouped"},
                               {"lora/gpt2_all", "transformers/gpt2_untied_odd"}};

}  // namespace

TEST_CASE("logits and gradients of an adapter of PEFT match PEFT, merged too, and files come back") {
  const files::TempFolder folder;
  for (const Case& c : kCases) {
    INFO(c.name);
    const auto model = tt::load_language_model(golden(c.base));
    const tt::TensorMap expected = tt::load_safetensors(golden(c.name) + "/expected.safetensors");
    const tt::Tensor tokens = expected.at("tokens").to(tt::default_device()), &wanted = expected.at("logits");
    const int64_t adapters = tt::load_lora(*model, golden(c.name));
    CHECK(adapters > 0);
    const tt::Tensor logits = model->forward(tokens);
    const double size = tt::max(tt::abs(wanted)).item<double>();
    CHECK(largest_difference(logits, wanted) < 2e-5 * size);
    const tt::Tensor angles = tt::arange(logits.numel()).to(tt::f32).to(logits.device());
    tt::sum(logits * tt::cos(angles).reshape(logits.shape())).backward();
    int64_t compared = 0;
    for (const tt::LoraLinear* const layer : tt::pruning::lora_layers(*model)) {
      for (const tt::LoraPart& p : layer->parts()) {
        for (const auto& [factor, end] : {std::pair{p.A, ".lora_A.weight"}, {p.B, ".lora_B.weight"}}) {
          const tt::Tensor& gradient = expected.at("base_model.model." + p.name + end);
          const double limit = 1e-4 * tt::max(tt::abs(gradient)).item<double>() + 1e-7;
          CHECK(largest_difference(factor.grad(), gradient) < limit);
          ++compared;
        }
      }
    }
    CHECK(compared == 2 * adapters);
    CHECK(compared + 2 == static_cast<int64_t>(expected.size()));
    tt::save_lora(*model, folder / "again");
    const auto second = tt::load_language_model(golden(c.base));
    CHECK(tt::load_lora(*second, folder / "again") == adapters);
    CHECK(largest_difference(second->forward(tokens), logits) < 1e-6 * size);
    tt::merge_lora(*model);
    CHECK(largest_difference(model->forward(tokens), wanted) < 2e-5 * size);
  }
}

TEST_CASE("adapters of other kinds and other models, and damaged files, are refused; the model stays") {
  const files::TempFolder folder;
  const auto model = tt::load_language_model(golden(kCases[0].base));
  const std::string good = golden(kCases[0].name), bad = folder / "bad";
  std::filesystem::create_directories(bad);
  const std::string config = tt::load_text(good + "/adapter_config.json");
  const tt::TensorMap tensors = tt::load_safetensors(good + "/adapter_model.safetensors");
  const auto code_of = [&](const std::string& from, const std::string& to, const tt::TensorMap& t) {
    std::string text = config;
    if (const size_t at = text.find(from); !from.empty()) {
      REQUIRE(at != std::string::npos);
      text.replace(at, from.size(), to);
    }
    tt::write_file(bad + "/adapter_config.json", text);
    tt::save_safetensors(bad + "/adapter_model.safetensors", t);
    const std::string code = errors::thrown_by([&] { tt::load_lora(*model, bad); }).code;
    CHECK(tt::pruning::lora_layers(*model).empty());
    return code;
  };
  CHECK(code_of("\"LORA\"", "\"IA3\"", tensors) == "TT-IO-04");
  CHECK(code_of("\"use_dora\": false", "\"use_dora\": true", tensors) == "TT-IO-04");
  CHECK(code_of("\"bias\": \"none\"", "\"bias\": \"all\"", tensors) == "TT-IO-04");
  CHECK(code_of("\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]", tensors) == "TT-IO-04");
  CHECK(code_of("\"alpha_pattern\": {}", "\"alpha_pattern\": {\"^x\": 1}", tensors) == "TT-IO-04");
  CHECK(code_of("\"lora_alpha\": 5", "\"lora_alpha\": \"5\"", tensors) == "TT-IO-03");
  CHECK(code_of("\"r\": 3", "\"r\": 0", tensors) == "TT-IO-03");
  tt::TensorMap changed = tensors;
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  changed.erase(q + "A.weight");
  CHECK(code_of("", "", changed) == "TT-NN-04");
  changed = tensors;
  changed[q + "B.weight"] = tt::ones({2, 3});
  CHECK(code_of("", "", changed) == "TT-NN-04");
  changed = tensors;
  changed["base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight"] = tt::ones({2, 3});
  CHECK(code_of("", "", changed) == "TT-NN-04");
  CHECK(code_of("", "", {}) == "TT-NN-04");
  CHECK(errors::thrown_by([&] { tt::load_lora(*model, folder / "none"); }).code == "TT-IO-01");
  CHECK(errors::thrown_by([&] { tt::save_lora(*model, folder / "x"); }).code == "TT-PRUNE-09");
  CHECK(tt::load_lora(*model, good) > 0);
  CHECK(errors::thrown_by([&] { tt::load_lora(*model, good); }).code == "TT-PRUNE-09");
}
