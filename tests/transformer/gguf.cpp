// Models in GGUF: files of llama.cpp's converter, round trips bit by bit, types of blocks through the
// options, invalid files.
#include <support/few.hpp>
#include <tinytorch/transformer/gguf.hpp>

#include <io/gguf_files.hpp>
#include <random>
#include <tinytorch/transformer/hugging_face.hpp>
#include <transformer/model_cases.hpp>

namespace tt = tinytorch;
using files::contains;
using files::refusal_of;
using gguf_files::golden;

namespace {

const std::vector<std::string> kCases = {"gpt2_untied_odd", "llama_heads", "llama_grouped", "llama_scaled"};

std::string folder_of(const std::string& name) {
  return tinytorch_tree::kSourceFolder + std::string("/tests/golden/transformers/") + name;
}
void check_same_weights(const tt::LanguageModel& a, const tt::LanguageModel& b) {
  const tt::StateDict one = a.state_dict(), other = b.state_dict();
  REQUIRE(one.size() == other.size());
  for (const auto& item : one) {
    CAPTURE(item.first);
    CHECK(files::same(item.second.to(tt::cpu), other.at(item.first).to(tt::cpu)));
  }
}
void check_same_logits(tt::LanguageModel& a, tt::LanguageModel& b) {
  a.eval(), b.eval();
  const tt::Tensor tokens = model_cases::tokens_of(a, 2, 9);
  CHECK(files::bits_of(a(tokens).detach().to(tt::cpu)) == files::bits_of(b(tokens).detach().to(tt::cpu)));
}

const tt::Gpt2Config kGpt2{.vocabulary = 19,
                           .context = 12,
                           .features = 12,
                           .layers = 2,
                           .heads = 3,
                           .hidden = 20,
                           .start_token = 1,
                           .end_tokens = {2}};
const tt::LlamaConfig kLlama{.vocabulary = 19,
                             .context = 40,
                             .features = 10,
                             .layers = 2,
                             .heads = 4,
                             .groups = 2,
                             .head_size = 6,
                             .hidden = 14,
                             .eps = 1e-5,
                             .end_tokens = {3, 5, 4}};

template <class Model, class Config>
std::unique_ptr<Model> random_model(const Config& config) {
  tt::manual_seed(11);
  auto model = std::make_unique<Model>(config);
  for (const tt::NamedTensor& p : model->named_parameters()) {  // also norms and biases differ from 1 and 0
    tt::NoGrad no_grad;
    tt::Tensor values = p.tensor;
    values.copy_(tt::randn(p.tensor.shape(), tt::f32, p.tensor.device()) * 0.3);
  }
  return model;
}

// Saves a model in each dtype, loads it, and compares weights, logits, and the bytes of a second file.
// Returns the last one.
template <class Model, class Config>
std::unique_ptr<tt::LanguageModel> check_round_trip(const Config& config) {
  const files::TempFolder folder;
  std::unique_ptr<tt::LanguageModel> loaded;
  for (const tt::DType dtype : {tt::f64, tt::bf16, tt::f16, tt::f32}) {
    const std::string type = tt::name_of(dtype);
    CAPTURE(type);
    const auto model = random_model<Model>(config);
    model->to(dtype);
    tt::save_gguf(*model, folder / "a.gguf");
    loaded = tt::load_gguf(folder / "a.gguf", {.dtype = dtype});
    CHECK(!loaded->training());
    check_same_weights(*model, *loaded);
    check_same_logits(*model, *loaded);
    tt::save_gguf(*loaded, folder / "b.gguf");
    CHECK(tt::read_file(folder / "a.gguf") == tt::read_file(folder / "b.gguf"));
    for (const tt::GgufTensorInfo& t : tt::open_gguf(folder / "a.gguf").tensors) {
      const bool widened = tt::is_16_bit(dtype) && (t.shape.size() == 1 || t.name == "position_embd.weight");
      CHECK(*t.type == *tt::ggml_type_of(widened || t.name == "rope_freqs.weight" ? tt::f32 : dtype));
    }
  }
  CHECK(folder.count() == 2);
  return loaded;
}

}  // namespace

TEST_CASE("files of llama.cpp's converter give the models of which they were made" *
          test::long_on_emulator()) {
  const files::TempFolder temporary;
  const char* keep = std::getenv("TINYTORCH_SAVED_GGUF");  // for make_gguf.py --check
  for (const std::string& name : kCases) {
    CAPTURE(name);
    const auto expected = tt::load_language_model(folder_of(name));
    const auto loaded = tt::load_gguf(golden(name + ".gguf"));
    check_same_weights(*expected, *loaded);
    check_same_logits(*expected, *loaded);
    const tt::TensorMap values = tt::load_safetensors(folder_of(name) + "/expected.safetensors");
    const tt::Tensor logits = (*loaded)(values.at("tokens").to(tt::default_device())).detach().to(tt::cpu);
    CHECK(tt::max(tt::abs(logits - values.at("logits"))).item() <= 1e-4);
    CHECK(loaded->context() == expected->context());
    CHECK(loaded->end_tokens() == expected->end_tokens());
    CHECK(loaded->kv_shape().head_size == expected->kv_shape().head_size);
    // In the dtype of the file, it is written with the same tensors.
    const tt::GgufFile file = tt::open_gguf(golden(name + ".gguf"));
    const tt::DType dtype = *tt::plain_dtype(*file.find("token_embd.weight")->type);
    const std::string path = (keep ? keep + std::string("/") : temporary / "") + name + ".gguf";
    tt::save_gguf(*tt::load_gguf(golden(name + ".gguf"), {.dtype = dtype}), path);
    const tt::GgufFile again = tt::open_gguf(path);
    CHECK(again.tensors.size() == file.tensors.size());
    for (const tt::GgufTensorInfo& t : file.tensors) {
      CAPTURE(t.name);
      REQUIRE(again.find(t.name));
      CHECK(*again.find(t.name)->type == *t.type);
      CHECK(again.find(t.name)->shape == t.shape);
      if (t.name != "rope_freqs.weight") CHECK(again.bytes(*again.find(t.name)) == file.bytes(t));
    }
    for (const auto& [key, value] : file.metadata) {
      CAPTURE(key);
      REQUIRE(again.metadata.find(key));
      CHECK(*again.metadata.find(key) == value);
    }
  }
}

TEST_CASE("gpt2: round trips, tied and with its own head" * test::long_on_emulator()) {
  for (const bool tied : {true, false}) {
    tt::Gpt2Config config = kGpt2;
    config.tied = tied;
    const auto loaded = check_round_trip<tt::Gpt2>(config);
    const tt::Gpt2Config& got = dynamic_cast<tt::Gpt2&>(*loaded).config;
    CHECK(got.tied == tied);
    CHECK(got.vocabulary == config.vocabulary);
    CHECK(got.hidden == config.hidden);
    CHECK(got.eps == config.eps);
    CHECK(got.start_token == 1);
    CHECK(got.end_tokens == config.end_tokens);
  }
}

TEST_CASE("llama: round trips with groups, biases, scaling, tied" * test::long_on_emulator()) {
  const auto check = [](auto change) {
    tt::LlamaConfig config = kLlama;
    change(config);
    const auto loaded = check_round_trip<tt::Llama>(config);
    const tt::LlamaConfig& got = dynamic_cast<tt::Llama&>(*loaded).config;
    CHECK(got.tied == config.tied);
    CHECK(got.eps == config.eps);
    CHECK(got.rotary.theta == config.rotary.theta);
    CHECK(got.rotary.scaling == config.rotary.scaling);
    CHECK(got.attention_bias == config.attention_bias);
    CHECK(got.mlp_bias == config.mlp_bias);
    CHECK(got.start_token == config.start_token);
    CHECK(got.end_tokens == config.end_tokens);
  };
  check([](tt::LlamaConfig&) {});
  check([](tt::LlamaConfig& c) {
    c.attention_bias = true, c.tied = true, c.start_token = 0, c.end_tokens = {};
  });
  check([](tt::LlamaConfig& c) { c.mlp_bias = true, c.groups = 0, c.rotary.theta = 500000; });
  check([](tt::LlamaConfig& c) {
    c.head_size = 16, c.rotary = {.theta = 2000, .scaling = tt::Llama3Scaling{8, 1, 4, 100}};
  });
}

TEST_CASE("types of blocks pass through the options; without them they are refused by name") {
  const files::TempFolder folder;
  tt::LlamaConfig config = kLlama;
  config.features = 32, config.hidden = 64, config.heads = 4, config.groups = 2, config.head_size = 8;
  const auto model = random_model<tt::Llama>(config);
  const tt::GgmlType& q8 = *tt::find_ggml_type("Q8_0");
  // A block of Q8_0 is an f16 scale and 32 signed bytes. The scale here is a power of two, and values are
  // small integers, so that nothing is rounded.
  const auto is_packed = [](const tt::Tensor& t) { return t.rank() == 2; };
  const auto encode = [&](const std::string& name, const tt::Tensor& t) {
    if (!is_packed(t)) return tt::gguf_tensor(name, t);
    std::vector<std::byte> blocks;
    const std::vector<float> values = t.to_vector<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % 32 == 0) tt::io::append(blocks, tt::float_to_f16_bits(0.125f), std::endian::little);
      blocks.push_back(static_cast<std::byte>(static_cast<int8_t>(values[i] * 8)));
    }
    return tt::gguf_tensor(name, q8, t.shape(), blocks);
  };
  const auto decode = [&](const tt::GgufFile& file, const tt::GgufTensorInfo& t) {
    if (!(*t.type == q8)) return file.tensor(t);
    const std::vector<std::byte> blocks = file.bytes(t);
    std::vector<float> values;
    for (size_t at = 0; at < blocks.size(); at += 34) {
      const float scale = tt::f16_bits_to_float(tt::io::load<uint16_t>(blocks, at, std::endian::little));
      for (size_t i = 2; i < 34; ++i) values.push_back(scale * static_cast<int8_t>(blocks[at + i]));
    }
    return tt::from_data(values, t.shape, tt::cpu);
  };
  std::mt19937 random(5);
  for (const tt::NamedTensor& p : model->named_parameters()) {
    std::vector<float> values(static_cast<size_t>(p.tensor.numel()));
    for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 255) - 127) / 8;
    tt::NoGrad no_grad;
    tt::Tensor target = p.tensor;
    target.copy_(tt::from_data(values, p.tensor.shape(), tt::cpu).to(target.device()));
  }
  tt::GgufMetadata extra;
  extra.set("general.name", "packed"), extra.set("general.file_type", uint32_t{7});
  tt::save_gguf(*model, folder / "q.gguf", {.tensor = encode, .metadata = extra});
  const tt::GgufFile file = tt::open_gguf(folder / "q.gguf");
  CHECK(*file.metadata.find("general.name")->text() == "packed");
  CHECK(file.metadata.find("general.quantization_version")->describe() == "u32 2");
  CHECK(*file.find("blk.1.attn_k.weight")->type == q8);
  const auto loaded = tt::load_gguf(folder / "q.gguf", {.values = decode});
  check_same_weights(*model, *loaded);
  const auto refusal = refusal_of([&] { tt::load_gguf(folder / "q.gguf"); });
  CHECK(refusal.code == "TT-IO-04");
  CHECK(contains(refusal.text, "token_embd.weight Q8_0 [19, 32]"));
}

TEST_CASE("a head that is a copy of the embedding is tied, as in old files of GPT-2") {
  const files::TempFolder folder;
  tt::save_gguf(*random_model<tt::Gpt2>(kGpt2), folder / "tied.gguf");
  const tt::GgufFile file = tt::open_gguf(folder / "tied.gguf");
  for (const bool is_copy : {true, false}) {
    tt::GgufContent content = gguf_files::content_of(file);
    const tt::GgufTensorInfo& embedding = *file.find("token_embd.weight");
    std::vector<std::byte> head = file.bytes(embedding);
    if (!is_copy) head[2] ^= std::byte{1};
    content.tensors.push_back(tt::gguf_tensor("output.weight", *embedding.type, embedding.shape, head));
    tt::write_gguf(folder / "head.gguf", content);
    const auto model = tt::load_gguf(folder / "head.gguf");
    CHECK(dynamic_cast<tt::Gpt2&>(*model).config.tied == is_copy);
  }
}

TEST_CASE("models and settings that GGUF cannot express are not saved") {
  struct Own : tt::LanguageModel {
    int64_t vocabulary() const override { return 8; }
    int64_t context() const override { return 4; }
    tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache*) override { return tokens; }
    tt::Tensor head(const tt::Tensor& features) override { return features; }
  };
  const files::TempFolder folder;
  const auto code = [&](const auto& model) {
    return refusal_of([&] { tt::save_gguf(model, folder / "f.gguf"); }).code;
  };
  CHECK(code(Own()) == "TT-NN-24");
  tt::Gpt2Config gpt2 = kGpt2;
  gpt2.activation = tt::Activation::gelu;
  CHECK(code(tt::Gpt2(gpt2)) == "TT-IO-02");
  tt::LlamaConfig llama = kLlama;
  llama.end_tokens = {1, 2, 3, 4};
  CHECK(code(tt::Llama(llama)) == "TT-IO-02");
  llama.end_tokens = {};
  llama.head_size = 16, llama.rotary = {.theta = 2000, .scaling = tt::Llama3Scaling{8, 1, 3, 100}};
  CHECK(code(tt::Llama(llama)) == "TT-IO-02");
  CHECK(refusal_of([&] { tt::save_gguf(tt::Llama(kLlama), folder / "no/f.gguf"); }).code == "TT-IO-02");
  CHECK(folder.count() == 0);
}

TEST_CASE("files that describe no model of ours, or another than their tensors") {
  const files::TempFolder folder;
  tt::save_gguf(*random_model<tt::Llama>(kLlama), folder / "good.gguf");
  const tt::GgufFile good = tt::open_gguf(folder / "good.gguf");
  const auto refusal = [&](auto change) {
    tt::GgufContent content = gguf_files::content_of(good);
    change(content);
    tt::write_gguf(folder / "bad.gguf", content);
    return refusal_of([&] { tt::load_gguf(folder / "bad.gguf"); });
  };
  const auto with = [&](const char* key, const tt::GgufValue& value) {
    return refusal([&](tt::GgufContent& c) { c.metadata.set(key, value); });
  };
  CHECK(with("llama.expert_count", uint32_t{0}).code == "");
  CHECK(with("general.architecture", "qwen2").code == "TT-IO-04");
  CHECK(with("general.architecture", 7).code == "TT-IO-04");
  CHECK(with("general.architecture", "gpt2").code == "TT-IO-03");
  CHECK(with("split.count", uint16_t{1}).code == "");
  CHECK(contains(with("split.count", uint16_t{3}).text, "one of 3 parts"));
  const auto renamed = [&](const char* from, const char* to) {
    return refusal([&](tt::GgufContent& c) {
      for (tt::GgufTensorData& t : c.tensors)
        if (t.name == from) t.name = to;
    });
  };
  const auto norm = renamed("blk.1.attn_norm.weight", "blk.2.attn_norm.weight");
  CHECK(norm.code == "TT-NN-04");
  CHECK(contains(norm.text, "missing: blk.1.attn_norm.weight\n"));
  CHECK(contains(norm.text, "unexpected: 'blk.2.attn_norm.weight'"));
  CHECK(renamed("token_embd.weight", "embd").code == "TT-IO-03");
  CHECK(renamed("blk.1.ffn_up.weight", "up").code == "TT-IO-03");
  CHECK(renamed("output.weight", "head").code == "TT-NN-04");
  const auto turned = refusal([&](tt::GgufContent& c) {
    for (tt::GgufTensorData& t : c.tensors)
      if (t.name == "blk.0.attn_v.weight") std::swap(t.shape[0], t.shape[1]);
  });
  CHECK(turned.code == "TT-NN-04");
  CHECK(contains(turned.text, "wrong shape: blk.0.attn_v.weight is [10, 12], expected [12, 10]"));
  CHECK(refusal([](tt::GgufContent& c) {
          c.tensors.push_back(tt::gguf_tensor("ids", tt::zeros({2}, tt::i32, tt::cpu)));
        }).code == "TT-IO-04");
  CHECK(refusal_of([&] { tt::load_gguf(folder / "none.gguf"); }).code == "TT-IO-01");
}

TEST_CASE("wrong sizes in the metadata are errors before a model of that size is built") {
  const files::TempFolder folder;
  for (const std::string name : {"gpt2", "llama"}) {
    if (name == "gpt2")
      tt::save_gguf(*random_model<tt::Gpt2>(kGpt2), folder / "good.gguf");
    else
      tt::save_gguf(*random_model<tt::Llama>(kLlama), folder / "good.gguf");
    const tt::GgufFile good = tt::open_gguf(folder / "good.gguf");
    tt::reset_peak();
    const size_t before = tt::allocator_stats().peak;
    for (const auto& [key, value] : good.metadata) {
      if (!key.starts_with(name) || value.type() != tt::GgufValueType::u32) continue;
      if (key.ends_with("vocab_size") || (key == "llama.context_length")) continue;  // they size nothing
      CAPTURE(key);
      for (const uint32_t n : {0u, 1u, 5u, 4096u, 1u << 31, UINT32_MAX}) {
        CAPTURE(n);
        if (value.integer() == n) continue;
        tt::GgufContent content = gguf_files::content_of(good);
        content.metadata.set(key, n);
        tt::write_gguf(folder / "bad.gguf", content);
        const std::string code = refusal_of([&] { tt::load_gguf(folder / "bad.gguf"); }).code;
        // One head of GPT-2, or another number of groups that fits the rows of k, are possible.
        CHECK(
            (code == "TT-IO-03" || code == "TT-IO-04" || code == "TT-NN-04" || key.ends_with("head_count")));
      }
    }
    CHECK(tt::allocator_stats().peak - before < 100000);
  }
}

TEST_CASE("damaged files of models throw errors or load" * test::long_on_emulator()) {
  const files::TempFolder folder;
  tt::Gpt2Config config = kGpt2;
  config.layers = 1;
  tt::save_gguf(*random_model<tt::Gpt2>(config), folder / "good.gguf");
  const std::vector<std::byte> good = tt::read_file(folder / "good.gguf");
  const size_t header = static_cast<size_t>(tt::open_gguf(folder / "good.gguf").tensors[0].offset);
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<std::byte> bad = good;
    bad[random() % header] ^= static_cast<std::byte>(1 + random() % 255);
    tt::write_file(folder / "bad.gguf", bad);
    const std::string code = refusal_of([&] { tt::load_gguf(folder / "bad.gguf"); }).code;
    if (!code.empty()) ++refused;
  }
  CHECK(refused > 300);
}
