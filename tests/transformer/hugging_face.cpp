// Models saved by transformers are compared with its logits, loss and gradients; models are saved; invalid
// folders throw.
#include <support/few.hpp>
#include <tinytorch/transformer/hugging_face.hpp>

#include <algorithm>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tree/source_folder.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::contains;
using files::refusal_of;

namespace {

const std::vector<std::string> kCases = {"gpt2_tied",   "gpt2_untied_odd", "gpt2_long",   "gpt2_bare",
                                         "llama_heads", "llama_grouped",   "llama_scaled"};

std::string folder_of(const std::string& name) {
  return tinytorch_tree::kSourceFolder + std::string("/tests/golden/transformers/") + name;
}
tt::TensorMap expected_of(const std::string& name) {
  tt::TensorMap all = tt::load_safetensors(folder_of(name) + "/expected.safetensors");
  for (auto& [key, tensor] : all) tensor = tensor.to(tt::default_device());
  return all;
}

std::vector<int32_t> tokens_of(const tt::Tensor& ids) {
  const std::vector<int64_t> wide = ids.to_vector<int64_t>();
  return {wide.begin(), wide.end()};
}

double largest_difference(const tt::Tensor& a, const tt::Tensor& b) {
  return tt::max(tt::abs(a.detach().to(tt::f64) - b.to(tt::f64))).item<double>();
}
// The largest error relative to the largest expected value.
double relative_difference(const tt::Tensor& got, const tt::Tensor& expected) {
  return largest_difference(got, expected) / tt::max(tt::abs(expected.to(tt::f64))).item<double>();
}

// Calls f(model) for a Gpt2 or a Llama.
template <class F>
auto visit(tt::LanguageModel& model, F&& f) {
  if (auto* gpt2 = dynamic_cast<tt::Gpt2*>(&model)) return f(*gpt2);
  return f(dynamic_cast<tt::Llama&>(model));
}
// The tensors of a model under the names and in the layout of the file.
tt::TensorMap file_tensors(tt::LanguageModel& model) {
  return visit(model, [](auto& m) { return tt::hugging_face::copy_out(tt::hugging_face::layout_of(m)); });
}
// The gradients in the same layout: they are put into the parameters of a second model of the same kind.
tt::TensorMap file_gradients(tt::LanguageModel& model) {
  return visit(model, [](auto& m) {
    using Model = std::remove_reference_t<decltype(m)>;
    Model carrier(m.config);
    tt::StateDict gradients;
    for (const tt::NamedTensor& p : m.named_parameters()) {
      REQUIRE_MESSAGE(p.tensor.grad().defined(), p.name, " has no gradient");
      gradients.emplace(p.name, p.tensor.grad().to(tt::f32));
    }
    carrier.load_state_dict(gradients);
    return tt::hugging_face::copy_out(tt::hugging_face::layout_of(carrier));
  });
}

void copy_folder(const std::string& from, const std::string& to) {
  std::filesystem::create_directories(to);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive);
}

}  // namespace

TEST_CASE("logits, loss and every gradient match transformers" * test::long_on_emulator()) {
  for (const std::string& name : kCases) {
    CAPTURE(name);
    const tt::TensorMap expected = expected_of(name);
    const auto model = tt::load_language_model(folder_of(name));
    const tt::Tensor &tokens = expected.at("tokens"), &targets = expected.at("targets");
    const double of_logits = largest_difference(model->forward(tokens), expected.at("logits"));
    CHECK(of_logits <= 1e-4);

    const tt::Tensor loss = model->loss(tokens, targets);
    const double of_loss = relative_difference(loss, expected.at("loss"));
    CHECK(of_loss <= 1e-5);
    loss.backward();
    double worst = 0;
    size_t compared = 0;
    for (const auto& item : file_gradients(*model)) {
      const std::string& key = item.first;
      CAPTURE(key);
      REQUIRE(expected.contains("grad." + key));
      const double difference =
          relative_difference(item.second.to(tt::default_device()), expected.at("grad." + key));
      CHECK(difference <= 1e-3);
      worst = std::max(worst, difference), ++compared;
    }
    CHECK(compared + 6 == expected.size());  // tokens, targets, logits, loss, two errors of bf16
    MESSAGE(name << ": logits " << of_logits << ", loss " << of_loss << ", worst gradient " << worst);
  }
}

TEST_CASE("greedy text equals that of transformers, with and without a cache" * test::long_on_emulator()) {
  int ended = 0;
  for (const std::string& name : kCases) {
    CAPTURE(name);
    const auto model = tt::load_language_model(folder_of(name));
    const tt::TensorMap golden = tt::load_safetensors(folder_of(name) + "/text.safetensors");
    const std::vector<int64_t> end_tokens = model->end_tokens();
    REQUIRE(golden.size() == 4);
    for (const std::string number : {"0", "1"}) {
      const std::vector<int32_t> prompt = tokens_of(golden.at("prompt" + number));
      std::vector<int32_t> text = tokens_of(golden.at("text" + number));
      // transformers keeps the end token.
      const bool ends = std::ranges::count(end_tokens, text.back()) > 0;
      if (ends) text.pop_back(), ++ended;
      for (const bool cache : {false, true}) {
        const tt::Generated got =
            tt::generate(*model, prompt,
                         {.max_tokens = std::min(int64_t{16}, model->context() - std::ssize(prompt)),
                          .sampling = {.temperature = 0},
                          .cache = cache});
        CHECK(got.tokens == text);
        CHECK(got.reason == (ends ? tt::FinishReason::end_token : tt::FinishReason::max_tokens));
      }
    }
  }
  CHECK(ended == 1);
}

TEST_CASE("in bf16 the error of logits and gradients is about as small as PyTorch's in bf16" *
          test::long_on_emulator()) {
  constexpr double kAllowed = 1.5;
  const auto square = [](const tt::Tensor& x) { return tt::sum(tt::square(x.to(tt::f64))).item<double>(); };
  for (const std::string& name : kCases) {
    CAPTURE(name);
    const tt::TensorMap expected = expected_of(name);
    const auto model = tt::load_language_model(folder_of(name), {.dtype = tt::bf16});
    const tt::Tensor &tokens = expected.at("tokens"), &exact = expected.at("logits");
    const tt::Tensor logits = model->forward(tokens).detach().to(tt::f64);
    const double of_logits = std::sqrt(square(logits - exact.to(tt::f64)) / square(exact));
    CHECK(of_logits <= kAllowed * expected.at("bf16.logits").item<double>());

    model->loss(tokens, expected.at("targets")).backward();
    double difference = 0, whole = 0;
    for (const auto& item : file_gradients(*model)) {
      const tt::Tensor want = expected.at("grad." + item.first).to(tt::f64);
      difference += square(item.second.to(tt::default_device()).to(tt::f64) - want), whole += square(want);
    }
    const double of_gradients = std::sqrt(difference / whole);
    CHECK(of_gradients <= kAllowed * expected.at("bf16.gradients").item<double>());
    MESSAGE(name << ": bf16 logits " << of_logits << " (PyTorch " << expected.at("bf16.logits").item<double>()
                 << "), gradients " << of_gradients << " (PyTorch "
                 << expected.at("bf16.gradients").item<double>() << ")");
  }
}

TEST_CASE("a saved model is read back identically, and has the tensor names of transformers" *
          test::long_on_emulator()) {
  const files::TempFolder temporary;
  const char* keep = std::getenv("TINYTORCH_SAVED_MODELS");  // for make_transformers.py --check
  for (const std::string& name : kCases) {
    CAPTURE(name);
    const auto model = tt::load_language_model(folder_of(name));
    const std::string folder = keep ? keep + ("/" + name) : temporary / name;
    tt::save_hugging_face(*model, folder);
    const auto again = tt::load_language_model(folder);
    const tt::TensorMap before = file_tensors(*model), after = file_tensors(*again);
    REQUIRE(before.size() == after.size());
    for (const auto& item : before) {
      const std::string& key = item.first;
      CAPTURE(key);
      CHECK(files::same(item.second, after.at(key)));
      CHECK(expected_of(name).contains("grad." + key));
    }
    const tt::Tensor tokens = expected_of(name).at("tokens");
    CHECK(model->forward(tokens).to_vector() == again->forward(tokens).to_vector());
    const auto text = [&](const char* file) { return tt::read_file(folder + "/" + file); };
    const std::vector<std::byte> config = text("config.json"), weights = text("model.safetensors");
    tt::save_hugging_face(*again, folder);
    CHECK(text("config.json") == config);
    CHECK(text("model.safetensors") == weights);
  }
}

TEST_CASE("a model has the requested dtype, whatever the dtype of the file") {
  const auto f32 = tt::load_llama_model(folder_of("llama_heads"));  // stored in bf16
  const auto bf16 = tt::load_llama_model(folder_of("llama_heads"), {.dtype = tt::bf16});
  const auto f64 = tt::load_llama_model(folder_of("llama_heads"), {.dtype = tt::f64});
  CHECK(f32->token_embedding.weight.dtype() == tt::f32);
  CHECK(bf16->token_embedding.weight.dtype() == tt::bf16);
  CHECK(bf16->token_embedding.weight.to_vector() == f32->token_embedding.weight.to_vector());
  const tt::TensorMap expected = expected_of("llama_heads");
  CHECK(largest_difference(f64->forward(expected.at("tokens")), expected.at("logits")) <= 2e-5);
  CHECK(largest_difference(bf16->forward(expected.at("tokens")), expected.at("logits")) <= 0.5);
  const files::TempFolder folder;
  tt::save_hugging_face(*bf16, folder / "m");
  CHECK(tt::load_safetensors(folder / "m/model.safetensors").at("model.norm.weight").dtype() == tt::bf16);
  CHECK_FALSE(f32->training());
}

TEST_CASE("shards are read once each, and all must be in the folder") {
  const files::TempFolder folder;
  copy_folder(folder_of("llama_scaled"), folder / "m");
  const auto whole = tt::load_llama_model(folder / "m");
  CHECK(whole->config.rotary.scaling);
  // The same shards in bf16.
  copy_folder(folder_of("llama_scaled"), folder / "b");
  for (const char* const name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    tt::TensorMap shard = tt::load_safetensors(folder / "b/" + name);
    for (auto& entry : shard) entry.second = entry.second.to(tt::bf16);
    tt::save_safetensors(folder / "b/" + name, shard);
  }
  const auto narrow = tt::load_llama_model(folder / "b");
  for (const auto& [name, parameter] : whole->named_parameters()) {
    const tt::Tensor got = narrow->state_dict().at(name);
    CHECK(tt::equal(got.to(tt::f32), parameter.detach().to(tt::bf16).to(tt::f32)));
  }
  std::filesystem::remove(folder / "m/model-00002-of-00002.safetensors");
  const auto missing = refusal_of([&] { tt::load_llama_model(folder / "m"); });
  CHECK(missing.code == "TT-IO-01");
  CHECK(contains(missing.text, "names shards that are not in its folder: model-00002-of-00002.safetensors"));
  CHECK(contains(missing.text, "hint: fetch all 2 of them"));
  const std::string first = folder / "m/model-00001-of-00002.safetensors",
                    second = folder / "m/model-00002-of-00002.safetensors";
  std::filesystem::copy(first, second);
  const auto other = refusal_of([&] { tt::load_llama_model(folder / "m"); });
  CHECK(other.code == "TT-IO-03");
  CHECK(contains(other.text, ", which the index says is here"));
  tt::TensorMap both = tt::load_safetensors(first);
  for (const auto& [name, tensor] :
       tt::load_safetensors(folder_of("llama_scaled") + "/model-00002-of-00002.safetensors"))
    both.emplace(name, tensor);
  tt::save_safetensors(second, both);
  CHECK(contains(refusal_of([&] { tt::load_llama_model(folder / "m"); }).text, "a second time"));
  const auto index = [](const char* text) {
    return refusal_of([&] { tt::hugging_face::parse_shard_index(tt::as_bytes(text), "index"); }).code;
  };
  CHECK(index(R"({"weight_map": {"a": "x.safetensors", "b": "x.safetensors"}})") == "");
  CHECK(index("\xef\xbb\xbf{\"weight_map\": {\"a\": \"x.safetensors\"}}") == "");
  CHECK(index(R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})") == "TT-IO-03");
  for (const char* bad :
       {R"({})", R"({"weight_map": []})", R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": ""}})",
        R"({"weight_map": {"a": "../x"}})", R"({"weight_map": {"a": "/etc/x"}})"}) {
    CHECK(index(bad) == "TT-IO-03");
  }
}

TEST_CASE("one message lists all differences, and the model is not changed") {
  const auto model = tt::load_gpt2_model(folder_of("gpt2_bare"));
  const auto layout = tt::hugging_face::layout_of(*model);
  tt::TensorMap file = tt::load_safetensors(folder_of("gpt2_bare") + "/model.safetensors");
  const std::vector<float> before = model->token_embedding.weight.to_vector();
  file["wte.weight"] = tt::zeros({29, 16}, tt::f32, tt::cpu);
  file.erase("h.0.ln_1.bias"), file.erase("ln_f.weight");
  file["h.1.ln_1.bias"] = tt::zeros({16}, tt::f32, tt::cpu);
  file["h.0.attn.c_attn.weight"] = tt::zeros({48, 16}, tt::f32, tt::cpu);
  file["h.0.mlp.c_fc.bias"] = tt::zeros({64}, tt::i64, tt::cpu);
  const auto refusal = refusal_of([&] { tt::hugging_face::copy_in(layout, file, "weights"); });
  CHECK(refusal.code == "TT-NN-04");
  CHECK(contains(refusal.text, "missing (2): h.0.ln_1.bias, ln_f.weight"));
  CHECK(contains(refusal.text, "unexpected (1): h.1.ln_1.bias"));
  CHECK(contains(refusal.text,
                 "wrong shape (2): h.0.attn.c_attn.weight is f32 [48, 16], expected f32 [16, 48], "
                 "h.0.mlp.c_fc.bias is i64 [64], expected f32 [64]"));
  CHECK(model->token_embedding.weight.to_vector() == before);
}

TEST_CASE("a head that config.json ties is tied if it equals the embedding, else loaded from the file" *
          test::long_on_emulator()) {
  const files::TempFolder folder;
  for (const std::string name : {"gpt2_tied", "llama_grouped"}) {
    CAPTURE(name);
    copy_folder(folder_of(name), folder / name);
    const auto plain = tt::load_language_model(folder_of(name));
    const bool is_gpt2 = name == "gpt2_tied";
    const auto is_tied = [](tt::LanguageModel& model) {
      return visit(model, [](auto& m) { return m.config.tied; });
    };
    if (!is_tied(*plain)) {  // this file with a config.json that ties the head
      std::string config = tt::load_text(folder / (name + "/config.json"));
      const std::string key = "\"tie_word_embeddings\": false";
      REQUIRE(contains(config, key));
      tt::write_file(folder / (name + "/config.json"),
                     config.replace(config.find(key), key.size(), "\"tie_word_embeddings\": true"));
    }
    tt::TensorMap file = tt::load_safetensors(folder_of(name) + "/model.safetensors");
    const std::string weights = folder / (name + "/model.safetensors");
    const tt::Tensor embedding = file.at(is_gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight");
    const tt::Tensor tokens = expected_of(name).at("tokens");
    const auto load = [&](const tt::Tensor& head) {
      file["lm_head.weight"] = head;
      tt::save_safetensors(weights, file);
      return tt::load_language_model(folder / name);
    };
    const auto same = load(embedding.clone());
    CHECK(is_tied(*same));
    if (is_gpt2) CHECK(same->forward(tokens).to_vector() == plain->forward(tokens).to_vector());

    const auto own = load(embedding * 2);  // doubled logits
    CHECK_FALSE(is_tied(*own));
    CHECK(largest_difference(own->forward(tokens), same->forward(tokens) * 2) <= 1e-4);
    tt::save_hugging_face(*own, folder / "again");
    const auto again = tt::load_language_model(folder / "again");
    CHECK_FALSE(is_tied(*again));
    CHECK(again->forward(tokens).to_vector() == own->forward(tokens).to_vector());
    CHECK(refusal_of([&] { load(tt::zeros({3, 2}, tt::f32, tt::cpu)); }).code == "TT-NN-04");
  }
}

TEST_CASE("end tokens are loaded and saved with the model") {
  const files::TempFolder folder;
  using Ends = std::vector<int64_t>;
  copy_folder(folder_of("gpt2_bare"), folder / "m");
  tt::write_file(folder / "m/generation_config.json", R"({"eos_token_id": [3, 5]})");
  const auto model = tt::load_language_model(folder / "m");
  CHECK(model->end_tokens() == Ends{3, 5});
  tt::save_hugging_face(*model, folder / "saved");
  CHECK(tt::load_gpt2_model(folder / "saved")->end_tokens() == Ends{3, 5});
  std::filesystem::remove(folder / "saved/generation_config.json");
  CHECK(tt::load_gpt2_model(folder / "saved")->end_tokens() == Ends{3, 5});  // config.json has them too
  tt::write_file(folder / "m/generation_config.json", "version https://git-lfs.github.com/spec/v1\n");
  CHECK(contains(refusal_of([&] { tt::load_gpt2_model(folder / "m"); }).text, "git lfs pull"));
}

TEST_CASE("weights in other formats throw, with the format and a way to convert them") {
  const files::TempFolder folder;
  const auto refused = [&](const std::string& name, const std::string& content) {
    std::filesystem::remove_all(folder / "m");
    std::filesystem::create_directories(folder / "m");
    std::filesystem::copy(folder_of("gpt2_bare") + "/config.json", folder / "m/config.json");
    tt::write_file(folder / ("m/" + name), content);
    return refusal_of([&] { tt::load_gpt2_model(folder / "m"); });
  };
  const std::string archive = "PK\x03\x04" + std::string(26, 'x') + "archive/data.pkl";
  for (const auto& [file, content, part] :
       {std::tuple("pytorch_model.bin", archive, "as written by torch.save"),
        std::tuple("model.pt", archive, "save_pretrained('new') writes safetensors"),
        std::tuple("pytorch_model.bin", std::string("\x80\x02\x8a\x0al\xfc\x9c"), "a Python pickle"),
        std::tuple("q4.gguf", std::string("GGUF\x03"), "a GGUF file"),
        std::tuple("model.safetensors", std::string("version https://git-lfs.github.com/spec/v1\n"),
                   "git lfs pull"),
        std::tuple("model.safetensors", std::string("<!DOCTYPE html><html>"), "a web page"),
        std::tuple("pytorch_model.bin", std::string("version https://git-lfs.github.com/spec/v1\n"),
                   "a git-lfs pointer"),
        std::tuple("model.safetensors", archive, "as written by torch.save")}) {
    const std::string name = file;  // clang 14 lets no lambda, as in CAPTURE, take a binding
    CAPTURE(name);
    const auto r = refused(name, content);
    INFO(r.text);
    CHECK(r.code == "TT-IO-03");
    CHECK(contains(r.text, name));
    CHECK(contains(r.text, part));
  }
  const auto shard = refused("model-00001-of-00002.safetensors", "");
  CHECK(shard.code == "TT-IO-04");
  CHECK(contains(shard.text, "expected: model.safetensors, or model.safetensors.index.json with its shards"));
  CHECK(refused("training_args.bin", archive).code == "TT-IO-01");  // no weights at all
}

TEST_CASE("the wrong kind of model and folders without a model throw") {
  CHECK(refusal_of([] { tt::load_gpt2_model(folder_of("llama_heads")); }).code == "TT-IO-04");
  CHECK(refusal_of([] { tt::load_llama_model(folder_of("gpt2_tied")); }).code == "TT-IO-04");
  CHECK(refusal_of([] { tt::load_language_model(folder_of("none")); }).code == "TT-IO-01");
}

TEST_CASE("a folder that cannot be created throws") {
  const files::TempFolder folder;
  tt::write_file(folder / "file", "not a folder");
  const auto model = tt::load_gpt2_model(folder_of("gpt2_bare"));
  CHECK(refusal_of([&] { tt::save_hugging_face(*model, folder / "file/model"); }).code == "TT-IO-02");
  CHECK(refusal_of([&] { tt::load_gpt2_model(folder / "file/model"); }).code == "TT-IO-01");
}
