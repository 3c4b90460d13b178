// Every family and every scaling of rotary frequencies against transformers: logits, greedy text with and
// without a cache, save and load, packed weights, and the settings that are refused.
#include <support/errors.hpp>
#include <support/few.hpp>
#include <tinytorch/transformer/families.hpp>

#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/quantization/model.hpp>
#include <tinytorch/serving/engine.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/hugging_face.hpp>
#include <tree/source_folder.hpp>

#include <io/files.hpp>
#include <support/values.hpp>

namespace tt = tinytorch;
using files::contains;
using files::refusal_of;

namespace {

const std::vector<std::string> kNames = {"qwen2",      "qwen2_window",   "qwen2_yarn",   "qwen3",
                                         "qwen3_yarn", "mistral_window", "mistral_full", "phi3",
                                         "phi3_long",  "phi3_short",     "gemma",        "gemma2",
                                         "gemma3",     "llama_linear",   "llama_dynamic"};

std::string folder_of(const std::string& name) {
  return tinytorch_tree::kSourceFolder + std::string("/tests/golden/transformers/families/") + name;
}
tt::TensorMap expected_of(const std::string& name) {
  return tt::load_safetensors(folder_of(name) + "/expected.safetensors");
}
double relative_difference(const tt::Tensor& got, const tt::Tensor& expected) {
  const tt::Tensor want = expected.to(tt::default_device()).to(tt::f64);
  return tt::max(tt::abs(got.detach().to(tt::f64) - want)).item<double>() /
         tt::max(tt::abs(want)).item<double>();
}
std::vector<int32_t> row(const tt::Tensor& tokens, int64_t b) {
  const std::vector<int64_t> ids = tokens.select(0, b).to_vector<int64_t>();
  return {ids.begin(), ids.end()};
}
// The tokens of the greedy text after the prompt.
std::vector<int32_t> greedy(tt::LanguageModel& model, const std::vector<int32_t>& prompt, int64_t count,
                            bool cache) {
  return tt::generate(model, prompt, {.max_tokens = count, .sampling = {.temperature = 0}, .cache = cache})
      .tokens;
}
std::vector<std::byte> bytes_of(const std::string& path) { return tt::read_file(path); }

}  // namespace

TEST_CASE("logits match transformers" * test::long_on_emulator()) {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const tt::TensorMap expected = expected_of(name);
    const auto model = tt::load_language_model(folder_of(name));
    const tt::Tensor tokens = expected.at("tokens").to(tt::default_device());
    CHECK(relative_difference(model->forward(tokens), expected.at("logits")) <= 1e-5);
    const auto exact = tt::load_language_model(folder_of(name), {.dtype = tt::f64});
    CHECK(relative_difference(exact->forward(tokens), expected.at("logits")) <= 1e-6);
    const auto half = tt::load_language_model(folder_of(name), {.dtype = tt::bf16});
    CHECK(relative_difference(half->forward(tokens), expected.at("logits")) <= 0.2);
  }
}

TEST_CASE("greedy text equals that of transformers, with and without a cache" * test::long_on_emulator()) {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const tt::TensorMap expected = expected_of(name);
    const auto model = tt::load_language_model(folder_of(name));
    for (int64_t b = 0; b < expected.at("tokens").size(0); ++b) {
      const std::vector<int32_t> prompt = row(expected.at("tokens"), b), text = row(expected.at("text"), b);
      CHECK(greedy(*model, prompt, std::ssize(text), false) == text);
      // Cached keys of a dynamic rotation keep the frequencies of their own step, so their text may differ.
      const std::vector<int32_t> cached = row(expected.at("cached_text"), b);
      if (name != "llama_dynamic") CHECK(cached == text);
      CHECK(greedy(*model, prompt, std::ssize(text), true) == cached);
    }
  }
}

TEST_CASE("a step of several tokens to a cache gives the logits of the whole text" *
          test::long_on_emulator()) {
  for (const std::string& name : kNames) {
    if (name == "llama_dynamic") continue;
    CAPTURE(name);
    const auto model = tt::load_language_model(folder_of(name));
    const tt::NoGrad no_grad;
    const tt::Tensor tokens = expected_of(name).at("tokens").to(tt::default_device());
    const int64_t B = tokens.size(0), T = tokens.size(1);
    if (name == "phi3_long") continue;  // its first step would be a short text
    tt::ContiguousCache cache(model->kv_shape(), {.sequences = B, .capacity = T});
    const tt::Tensor whole = model->forward(tokens);
    int64_t at = 0;
    for (const int64_t n : {int64_t{4}, int64_t{1}, T - 7, int64_t{2}}) {
      const tt::Tensor y = model->forward(tokens.slice(1, at, at + n), &cache);
      CHECK(relative_difference(y, whole.slice(1, at, at + n)) <= 1e-5);
      at += n;
    }
  }
}

TEST_CASE("a saved model is read back identically and its files do not change" * test::long_on_emulator()) {
  const files::TempFolder temporary;
  const char* keep = std::getenv("TINYTORCH_SAVED_MODELS");  // for make_transformers.py --check
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const auto model = tt::load_language_model(folder_of(name));
    const std::string folder = keep ? keep + ("/families/" + name) : temporary / name;
    tt::save_hugging_face(*model, folder);
    const auto again = tt::load_language_model(folder);
    const tt::Tensor tokens = expected_of(name).at("tokens").to(tt::default_device());
    CHECK(model->forward(tokens).to_vector() == again->forward(tokens).to_vector());
    const tt::TensorMap given = tt::load_safetensors(folder_of(name) + "/model.safetensors"),
                        saved = tt::load_safetensors(folder + "/model.safetensors");
    REQUIRE(given.size() == saved.size());
    for (const auto& item : given) CHECK(files::same(item.second.to(tt::f32), saved.at(item.first)));
    const std::vector<std::byte> config = bytes_of(folder + "/config.json"),
                                 weights = bytes_of(folder + "/model.safetensors");
    tt::save_hugging_face(*again, folder);
    CHECK(bytes_of(folder + "/config.json") == config);
    CHECK(bytes_of(folder + "/model.safetensors") == weights);
  }
}

TEST_CASE("every parameter of every family has a gradient" * test::long_on_emulator()) {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const auto model = tt::load_language_model(folder_of(name));
    model->train();
    const tt::Tensor tokens = expected_of(name).at("tokens").to(tt::default_device());
    model->loss(tokens, tokens).backward();
    for (const tt::NamedTensor& p : model->named_parameters()) {
      CAPTURE(p.name);
      REQUIRE(p.tensor.grad().defined());
      CHECK(tt::max(tt::abs(p.tensor.grad())).item() > 0);
    }
  }
}

TEST_CASE("an engine writes the text of each family" * test::long_on_emulator()) {
  for (const std::string& name : kNames) {
    if (name == "llama_dynamic") continue;
    CAPTURE(name);
    const tt::TensorMap expected = expected_of(name);
    const auto model = tt::load_language_model(folder_of(name));
    if (name == "phi3_long") continue;  // texts of different lengths in one step
    const int64_t B = expected.at("tokens").size(0), T = expected.at("tokens").size(1);
    tt::serving::Engine engine(*model,
                               {.scheduler = {.budget = 4 * T, .sequences = 2, .pages = 40, .page = 8}});
    std::map<int64_t, int64_t> requests;
    for (int64_t b = 0; b < B; ++b)
      requests[engine.submit({row(expected.at("tokens"), b),
                              {.max_tokens = expected.at("text").size(1), .sampling = {.temperature = 0}}})] =
          b;
    int64_t ended = 0;
    while (!engine.idle()) {
      for (const tt::serving::Ended& e : engine.step()) {
        CHECK(e.text.tokens == row(expected.at("text"), requests.at(e.id)));
        ++ended;
      }
    }
    CHECK(ended == B);
  }
}

TEST_CASE("a graph's step refuses models whose steps depend on the lengths of the texts") {
  for (const std::string& name : kNames) {
    CAPTURE(name);
    const auto model = tt::load_language_model(folder_of(name));
    const bool depends =
        name == "phi3_long" || name == "phi3_short" || name == "gemma2" || name == "llama_dynamic";
    CHECK(model->steps_fit_graphs() == !depends);
    tt::ContiguousCache cache(model->kv_shape(), {.sequences = 1, .capacity = 8});
    if (depends)
      CHECK(errors::thrown_by([&] { tt::GraphDecode(*model, cache); }).code == "TT-KV-04");
    else
      CHECK_NOTHROW(tt::GraphDecode(*model, cache));
  }
}

TEST_CASE("the layers and the head of a family are packed" * test::long_on_emulator()) {
  for (const std::string name : {"phi3_long", "gemma2", "qwen3"}) {
    CAPTURE(name);
    tt::manual_seed(3);
    tt::DecoderConfig config;
    const auto given = tt::load_language_model(folder_of(name));
    config = dynamic_cast<tt::Decoder&>(*given).config;
    config.features = 64, config.heads = 4, config.groups = 2, config.head_size = 16, config.hidden = 96;
    config.vocabulary = 50, config.rotary = {}, config.sliding_rotary = std::nullopt, config.deviation = 0.2;
    for (const std::string method : {"nearest", "awq", "smooth"}) {
      CAPTURE(method);
      tt::Decoder model(config);
      model.eval();
      const tt::Tensor tokens = tt::randint(0, 50, {2, 9}, tt::i64, tt::default_device());
      const tt::Tensor before = model(tokens).detach();
      const auto report =
          tt::quantize(model, {.format = "Q8_0", .head = "Q8_0", .method = method, .calibration = {tokens}});
      CHECK(report.layers.size() == static_cast<size_t>(4 * config.layers + 1));
      for (const auto& layer : report.layers) CHECK(layer.format == "Q8_0");
      CHECK(relative_difference(model(tokens), before) <= 0.1);
    }
  }
}
