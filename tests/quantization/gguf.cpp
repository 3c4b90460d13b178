#include <doctest/doctest.h>

#include <io/files.hpp>
#include <support/device.hpp>
#include <support/few.hpp>
#include <support/fresh.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>
#include <tinytorch/quantization/files.hpp>
#include <tinytorch/quantization/gguf.hpp>
#include <tinytorch/transformer/generate.hpp>

using namespace tinytorch;
using files::refusal_of;

namespace {

const Gpt2Config kGpt2{
    .vocabulary = 40, .context = 24, .features = 64, .layers = 2, .heads = 4, .deviation = 0.2};
const LlamaConfig kLlama{.vocabulary = 40,
                         .context = 24,
                         .features = 64,
                         .layers = 2,
                         .heads = 4,
                         .groups = 2,
                         .hidden = 96,
                         .deviation = 0.2};

// Biases and norms differ from 0 and 1, so that each must be in its place.
template <class Model, class Config>
std::unique_ptr<Model> random_model(const Config& config) {
  static test::Fresh fresh;
  manual_seed(fresh.next());
  auto model = std::make_unique<Model>(config);
  const NoGrad no_grad;
  for (const NamedTensor& p : model->named_parameters()) {
    Tensor values = p.tensor;
    values.copy_(randn(p.tensor.shape(), DType::f32, p.tensor.device()) * 0.3);
  }
  model->eval();
  return model;
}
std::vector<std::byte> logits_of(LanguageModel& model) {
  const NoGrad no_grad;
  return files::bits_of(model(arange(0, 18).reshape({2, 9})).to(cpu));
}
std::map<std::string, Tensor> packed_of(Module& model) {
  std::map<std::string, Tensor> out;
  model.for_each_module([&](const std::string& path, Module& m) {
    if (auto* const layer = dynamic_cast<QuantizedLinear*>(&m)) out[path] = layer->weight().blocks().to(cpu);
  });
  return out;
}
std::vector<std::byte> bytes_of(const QuantizedTensor& w) { return files::bits_of(w.blocks().to(cpu)); }

// Writes a file like those of llama-quantize: `choose` returns the type of each matrix by its name; "" keeps
// it.
template <class Model>
void save_as(const Model& model, const std::string& path,
             const std::function<std::string(const std::string&)>& choose) {
  GgufSaveOptions options;
  options.tensor = [&](const std::string& name, const Tensor& t) {
    const std::string type = t.rank() == 2 ? choose(name) : "";
    if (type == "F16") return gguf_tensor(name, t.to(DType::f16));
    if (type.empty()) return gguf_tensor(name, t);
    return gguf_tensor(name, *find_ggml_type(type), t.shape(), bytes_of(quantize(t, type)));
  };
  save_gguf(model, path, options);
}

}  // namespace

TEST_CASE("a packed model comes back from GGUF with its blocks, its logits and its texts" *
          test::long_on_emulator()) {
  const NoGrad no_grad;
  const files::TempFolder folder;
  const auto check = [&]<class Model>(auto config) {
    for (const bool tied : {true, false}) {
      for (const char* format : {"Q8_0", "Q4_0", "Q4_1"}) {
        for (const Activations a : {Activations::int8, Activations::floats}) {
          CAPTURE(std::string(format));
          config.tied = tied;
          const auto model = random_model<Model>(config);
          quantize(*model, {.format = format, .head = "Q8_0", .activations = a});
          save_packed_gguf(*model, folder / "a.gguf");
          const auto loaded = load_packed_gguf(folder / "a.gguf", {.activations = a});
          CHECK(!loaded->training());
          const auto want = packed_of(*model), got = packed_of(*loaded);
          CHECK(got.size() == 9);
          for (const auto& [path, blocks] : want) {
            CAPTURE(path);
            REQUIRE(got.count(path));
            CHECK(files::same(got.at(path), blocks));
          }
          CHECK(logits_of(*loaded) == logits_of(*model));
          const std::vector<int32_t> prompt{1, 5, 9};
          const GenerateOptions options{.max_tokens = 12, .seed = 5};
          CHECK(generate(*loaded, prompt, options).tokens == generate(*model, prompt, options).tokens);
          save_packed_gguf(*loaded, folder / "b.gguf");
          CHECK(read_file(folder / "a.gguf") == read_file(folder / "b.gguf"));
        }
      }
    }
  };
  check.operator()<Gpt2>(kGpt2);
  check.operator()<Llama>(kLlama);
}

TEST_CASE("a file of packed weights gives what quantize gives, in the bytes that the formats say" *
          test::long_on_emulator()) {
  const NoGrad no_grad;
  const files::TempFolder folder;
  LlamaConfig biased = kLlama;
  biased.attention_bias = biased.mlp_bias = true, biased.tied = true;
  const auto model = random_model<Llama>(biased);
  save_as(*model, folder / "q.gguf", [](const std::string&) { return std::string("Q4_0"); });
  const int64_t nothing = static_cast<int64_t>(allocator_stats().current);
  const auto loaded = load_packed_gguf(folder / "q.gguf");
  const int64_t held = static_cast<int64_t>(allocator_stats().current) - nothing;
  if (default_device().is_cpu())
    CHECK(static_cast<double>(held) <= 1.02 * static_cast<double>(quantization::bytes_of(*loaded)) + 64 * 80);
  // The embedding is packed in the file, and looked up in floats; the tied head keeps its blocks.
  Tensor& embedding = model->token_embedding.weight;
  quantize(*model, {.format = "Q4_0", .head = "Q4_0"});
  embedding.copy_(quantize(embedding, "Q4_0").dequantize());
  CHECK(logits_of(*loaded) == logits_of(*model));
  // The head can have float weights.
  const auto with_head = load_packed_gguf(folder / "q.gguf", {.head = false});
  CHECK(packed_of(*with_head).size() == 8);
  CHECK(!dynamic_cast<Llama&>(*with_head).own_head);
  const auto in_16_bits = load_packed_gguf(folder / "q.gguf", {.dtype = DType::bf16});
  CHECK((*in_16_bits)(zeros({1, 3}, DType::i64)).dtype() == DType::bf16);
}

TEST_CASE("types of 256 numbers, as in files of llama-quantize") {
  const NoGrad no_grad;
  const files::TempFolder folder;
  if (!default_device().is_cpu()) return;  // on a GPU, tests/backend/cuda/kernels/block_linear.cpp has them
  Gpt2Config config = kGpt2;
  config.features = 256, config.layers = 1;
  const auto model = random_model<Gpt2>(config);
  save_as(*model, folder / "k.gguf", [](const std::string& name) {
    return std::string(name == "token_embd.weight" ? "Q6_K" : name == "position_embd.weight" ? "" : "Q4_K");
  });
  const auto loaded = load_packed_gguf(folder / "k.gguf");
  // In this order, because the numbers of a block, packed again, may be other codes with another scale.
  Tensor& embedding = model->token_embedding.weight;
  quantize(*model, {.format = "Q4_K", .head = "Q6_K"});
  embedding.copy_(quantize(embedding, "Q6_K").dequantize());
  CHECK(logits_of(*loaded) == logits_of(*model));
}

TEST_CASE("parts of one layer may have different formats" * test::long_on_emulator()) {
  const NoGrad no_grad;
  const files::TempFolder folder;
  LlamaConfig config = kLlama;
  config.attention_bias = true;
  for (const char* k_type : {"Q8_0", "F16", "Q4_0"}) {
    CAPTURE(std::string(k_type));
    const auto model = random_model<Llama>(config);
    save_as(*model, folder / "m.gguf", [&](const std::string& name) {
      if (name.find("attn_k") != std::string::npos) return std::string(k_type);
      if (name.find("attn_v") != std::string::npos) return std::string("Q8_0");
      if (name.find("ffn_up") != std::string::npos) return std::string("");
      return std::string(name.find("blk") == 0 ? "Q4_0" : "");
    });
    const auto loaded = load_packed_gguf(folder / "m.gguf", {.activations = Activations::floats});
    // This model has the decoded weights.
    GgufLoadOptions decode;
    decode.values = [](const GgufFile& file, const GgufTensorInfo& t) {
      return gguf::decoded(file, t, Loc::current());
    };
    const auto want = load_gguf(folder / "m.gguf", decode);
    const Tensor tokens = arange(0, 18).reshape({2, 9});
    const Tensor difference = (*loaded)(tokens) - (*want)(tokens);
    CHECK(max(abs(difference)).item<float>() < 1e-4f * max(abs((*want)(tokens))).item<float>());
    // Files of this library have no entry for such a layer.
    CHECK(refusal_of([&] { save_packed(*loaded, folder / "own"); }).code == "TT-IO-02");
    // A file of the loaded model has the same types and blocks; floats are written in their own dtype.
    save_packed_gguf(*loaded, folder / "n.gguf");
    const GgufFile first = open_gguf(folder / "m.gguf"), second = open_gguf(folder / "n.gguf");
    for (const GgufTensorInfo& t : first.tensors) {
      CAPTURE(t.name);
      REQUIRE(second.find(t.name));
      if (t.type->block > 1) CHECK(second.bytes(*second.find(t.name)) == first.bytes(t));
    }
    CHECK(logits_of(*load_packed_gguf(folder / "n.gguf", {.activations = Activations::floats})) ==
          logits_of(*loaded));
  }
}

TEST_CASE("what a file or GGUF does not have is refused by name") {
  const NoGrad no_grad;
  const files::TempFolder folder;
  const auto model = random_model<Gpt2>(kGpt2);
  GgufSaveOptions other;
  other.tensor = [](const std::string& name, const Tensor& t) {
    const GgmlType& type = *find_ggml_type("Q5_0");
    if (name != "blk.1.ffn_up.weight") return gguf_tensor(name, t);
    return gguf_tensor(name, type, t.shape(),
                       std::vector<std::byte>(static_cast<size_t>(t.numel() / type.block * type.bytes)));
  };
  save_gguf(*model, folder / "q5.gguf", other);
  files::Refusal r = refusal_of([&] { load_packed_gguf(folder / "q5.gguf"); });
  CHECK(r.code == "TT-IO-04");
  CHECK(files::contains(r.text, "Q5_0"));
  quantize(*model, {.format = "I8"});
  r = refusal_of([&] { save_packed_gguf(*model, folder / "i8.gguf"); });
  CHECK(r.code == "TT-IO-02");
  CHECK(files::contains(r.text, "I8"));
  r = refusal_of([&] { save_gguf(*model, folder / "i8.gguf"); });
  CHECK(r.code == "TT-IO-02");
  CHECK(files::contains(r.text, "save_packed_gguf"));
  CHECK(folder.count() == 1);
}

TEST_CASE("damaged files are refused, or read without an access out of bounds" * test::long_on_emulator()) {
  const NoGrad no_grad;
  const files::TempFolder folder;
  Gpt2Config config = kGpt2;
  config.features = 32, config.layers = 1, config.vocabulary = 8, config.context = 4;
  const auto model = random_model<Gpt2>(config);
  quantize(*model, {.format = "Q4_0", .head = "Q8_0"});
  save_packed_gguf(*model, folder / "a.gguf");
  const std::vector<std::byte> valid = read_file(folder / "a.gguf");
  const uint64_t header = open_gguf(folder / "a.gguf").tensors.front().offset;
  const auto load = [&](Bytes bytes) {
    AtomicFile file(folder / "b.gguf", Loc::current());
    file.write(bytes);
    file.commit();
    return refusal_of([&] { load_packed_gguf(folder / "b.gguf"); }).code;
  };
  int refused = 0;
  for (size_t i = 0; i < header; ++i) {
    std::vector<std::byte> damaged = valid;
    damaged[i] ^= std::byte{i % 3 == 0 ? uint8_t{0x80} : uint8_t{1}};
    const std::string code = load(damaged);
    CAPTURE(i);
    CHECK((code.empty() || code.starts_with("TT-IO-") || code == "TT-NN-04"));
    refused += !code.empty();
  }
  CHECK(refused > static_cast<int>(header) / 2);
  for (size_t n = 0; n < valid.size(); n += 97) CHECK(load(Bytes(valid).first(n)).starts_with("TT-IO-"));
}
