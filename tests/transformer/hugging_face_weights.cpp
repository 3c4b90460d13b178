// The tables of names give views of our parameters in the layout of the file, for loading and saving.
#include <tinytorch/transformer/hugging_face_weights.hpp>

#include <tinytorch/tinytorch.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
namespace hf = tt::hugging_face;

namespace {

const tt::Gpt2Config kGpt2{
    .vocabulary = 7, .context = 5, .features = 6, .layers = 1, .heads = 2, .hidden = 9};
const tt::LlamaConfig kLlama{
    .vocabulary = 7, .features = 6, .layers = 2, .heads = 3, .groups = 1, .head_size = 4, .hidden = 5};

std::map<std::string, tt::Shape> shapes_of(const hf::FileLayout& layout) {
  std::map<std::string, tt::Shape> out;
  for (const hf::FileTensor& t : layout.tensors) out.emplace(t.name, t.view.shape());
  return out;
}
const tt::Tensor& view_of(const hf::FileLayout& layout, const std::string& name) {
  for (const hf::FileTensor& t : layout.tensors)
    if (t.name == name) return t.view;
  throw std::runtime_error(name);
}

tt::Tensor causal_mask(int64_t n) {
  std::vector<float> values;
  for (int64_t query = 0; query < n; ++query)
    for (int64_t key = 0; key < n; ++key) values.push_back(key <= query ? 1.f : 0.f);
  return tt::from_data(values, {1, 1, n, n}, tt::cpu);
}
// All values of a model, in the layout of its file.
std::vector<std::byte> file_bits(const auto& model) {
  return tt::to_safetensors(hf::copy_out(hf::layout_of(model)));
}

}  // namespace

TEST_CASE("gpt2: matrices are [in, out] in the file") {
  tt::Gpt2 model(kGpt2);
  const hf::FileLayout layout = hf::layout_of(model);
  const auto shapes = shapes_of(layout);
  CHECK(shapes.size() == 16);
  CHECK(shapes.at("wte.weight") == tt::Shape{7, 6});
  CHECK(shapes.at("wpe.weight") == tt::Shape{5, 6});
  CHECK(shapes.at("h.0.attn.c_attn.weight") == tt::Shape{6, 18});
  CHECK(shapes.at("h.0.mlp.c_fc.weight") == tt::Shape{6, 9});
  CHECK(shapes.at("h.0.mlp.c_proj.weight") == tt::Shape{9, 6});
  const tt::Tensor& view = view_of(layout, "h.0.attn.c_attn.weight");
  CHECK(view.to_vector() == model.blocks[0].attention.qkv.weight.t().to_vector());
  CHECK(view.storage() == model.blocks[0].attention.qkv.weight.storage());
}

TEST_CASE("llama: q, k, v and gate, up are row ranges of packed matrices") {
  tt::Llama model(kLlama);
  const hf::FileLayout layout = hf::layout_of(model);
  const auto shapes = shapes_of(layout);
  CHECK(shapes.size() == 3 + 2 * 9);
  CHECK(shapes.at("layers.1.self_attn.q_proj.weight") == tt::Shape{12, 6});
  CHECK(shapes.at("layers.1.self_attn.k_proj.weight") == tt::Shape{4, 6});
  CHECK(shapes.at("layers.1.self_attn.o_proj.weight") == tt::Shape{6, 12});
  CHECK(shapes.at("lm_head.weight") == tt::Shape{7, 6});
  const tt::Tensor qkv = model.blocks[1].attention.qkv.weight, both = model.blocks[1].mlp.gate_up.weight;
  CHECK(view_of(layout, "layers.1.self_attn.v_proj.weight").to_vector() == qkv.slice(0, 16).to_vector());
  CHECK(view_of(layout, "layers.1.mlp.gate_proj.weight").to_vector() == both.slice(0, 0, 5).to_vector());
  CHECK(view_of(layout, "layers.1.mlp.up_proj.weight").to_vector() == both.slice(0, 5).to_vector());
}

TEST_CASE("copy_out and copy_in are inverse, with or without the prefix and computed tensors") {
  tt::manual_seed(1);
  tt::Gpt2 model(kGpt2), other(kGpt2);
  const tt::TensorMap file = hf::copy_out(hf::layout_of(model));
  CHECK(file.contains("transformer.wte.weight"));
  CHECK_FALSE(file.contains("lm_head.weight"));
  tt::TensorMap bare{{"lm_head.weight", file.at("transformer.wte.weight").clone()},
                     {"h.0.attn.bias", causal_mask(5)},
                     {"h.0.attn.masked_bias", tt::full({}, -1e4, tt::bf16, tt::cpu)}};
  for (const auto& [name, tensor] : file) bare.emplace(name.substr(12), tensor);
  for (const tt::TensorMap& given : {file, bare}) {
    for (tt::Tensor& p : other.parameters()) tt::init::constant(p, 5);
    hf::copy_in(hf::layout_of(other), given, "weights");
    for (const auto& [name, tensor] : model.state_dict())
      CHECK(other.state_dict().at(name).to_vector() == tensor.to_vector());
  }
  tt::TensorMap twice = file;
  twice["wte.weight"] = file.at("transformer.wte.weight");
  const auto refusal = files::refusal_of([&] { hf::copy_in(hf::layout_of(other), twice, "weights"); });
  CHECK(files::contains(refusal.text, "unexpected (1): transformer.wte.weight"));
}

TEST_CASE("no tensor of a file is ignored: tensors that the model computes must be equal") {
  tt::Gpt2 gpt2(kGpt2);
  tt::LlamaConfig tied = kLlama;
  tied.tied = true;
  tt::Llama llama(tied);
  const auto refused = [](auto& model, const std::string& name, const tt::Tensor& tensor) {
    tt::TensorMap file = hf::copy_out(hf::layout_of(model));
    file[name] = tensor;
    const auto before = file_bits(model);
    const auto refusal = files::refusal_of([&] { hf::copy_in(hf::layout_of(model), file, "weights"); });
    CHECK(file_bits(model) == before);
    return refusal.code.empty() ? "" : refusal.text;
  };
  const tt::Tensor mask = causal_mask(5), rates = tt::from_data({1.f, 0.01f}, {2}, tt::cpu);
  tt::Tensor other = mask.clone();
  other.select(2, 1).fill_(1);
  CHECK(refused(gpt2, "transformer.h.0.attn.bias", mask.to(tt::u8)) == "");
  CHECK(files::contains(refused(gpt2, "transformer.h.0.attn.bias", other),
                        "TT-NN-04: loading 'weights': h.0.attn.bias is not the causal mask"));
  CHECK(files::contains(refused(gpt2, "h.0.attn.masked_bias", tt::zeros({}, tt::f32, tt::cpu)),
                        "low enough to hide"));
  CHECK(files::contains(refused(gpt2, "h.9.attn.bias", mask), "unexpected (1): h.9.attn.bias"));
  CHECK(files::contains(refused(gpt2, "lm_head.weight", tt::zeros({7, 6}, tt::f32, tt::cpu)),
                        "lm_head.weight is not the token embedding"));
  CHECK(files::contains(refused(gpt2, "lm_head.bias", tt::zeros({7}, tt::f32, tt::cpu)),
                        "unexpected (1): lm_head.bias"));
  for (const char* name : {"model.layers.1.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"}) {
    CHECK(refused(llama, name, rates) == "");
    CHECK(refused(llama, name, rates.to(tt::bf16)) == "");
    CHECK(files::contains(refused(llama, name, rates * 0.5),
                          "rotary_emb.inv_freq is not the rotary frequencies"));
  }
  CHECK(files::contains(refused(llama, "model.layers.2.self_attn.rotary_emb.inv_freq", rates),
                        "unexpected (1)"));
}

TEST_CASE("a tied tensor that is saved only under the head's name is the embedding") {
  tt::manual_seed(3);
  tt::Gpt2 model(kGpt2), other(kGpt2);
  tt::TensorMap file = hf::copy_out(hf::layout_of(model));
  auto embedding = file.extract("transformer.wte.weight");
  embedding.key() = "lm_head.weight";
  file.insert(std::move(embedding));
  hf::copy_in(hf::layout_of(other), file, "weights");
  CHECK(file_bits(other) == file_bits(model));
}

TEST_CASE("llama is loaded and saved, tied and with biases") {
  tt::LlamaConfig config = kLlama;
  config.tied = config.attention_bias = config.mlp_bias = true;
  tt::manual_seed(2);
  tt::Llama model(config), other(config);
  for (tt::Tensor& p : model.parameters()) tt::init::normal(p, 0, 1);
  tt::TensorMap file = hf::copy_out(hf::layout_of(model));
  CHECK(file.contains("model.layers.0.self_attn.k_proj.bias"));
  CHECK(file.contains("model.layers.0.mlp.up_proj.bias"));
  file["model.layers.0.self_attn.rotary_emb.inv_freq"] = tt::from_data({1.f, 0.01f}, {2}, tt::cpu);
  hf::copy_in(hf::layout_of(other), file, "weights");
  for (const auto& [name, tensor] : model.state_dict())
    CHECK(other.state_dict().at(name).to_vector() == tensor.to_vector());
}
