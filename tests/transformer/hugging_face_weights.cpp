// The tables of names: views of our parameters in the file's layout, in both directions.
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

}  // namespace

TEST_CASE("gpt2: matrices stand as [in, out] in the file") {
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

TEST_CASE("llama: q, k, v and gate, up are ranges of rows") {
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

TEST_CASE("out and in again, with or without the prefix, over buffers that are passed over") {
  tt::manual_seed(1);
  tt::Gpt2 model(kGpt2), other(kGpt2);
  const tt::TensorMap file = hf::copy_out(hf::layout_of(model));
  CHECK(file.contains("transformer.wte.weight"));
  CHECK_FALSE(file.contains("lm_head.weight"));
  tt::TensorMap bare{{"lm_head.weight", tt::zeros({1}, tt::f32, tt::cpu)},
                     {"h.0.attn.bias", tt::zeros({1, 1, 5, 5}, tt::f32, tt::cpu)},
                     {"h.0.attn.masked_bias", tt::zeros({}, tt::f32, tt::cpu)}};
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

TEST_CASE("llama in both directions, tied and with biases") {
  tt::LlamaConfig config = kLlama;
  config.tied = config.attention_bias = config.mlp_bias = true;
  tt::manual_seed(2);
  tt::Llama model(config), other(config);
  for (tt::Tensor& p : model.parameters()) tt::init::normal(p, 0, 1);
  tt::TensorMap file = hf::copy_out(hf::layout_of(model));
  CHECK(file.contains("model.layers.0.self_attn.k_proj.bias"));
  CHECK(file.contains("model.layers.0.mlp.up_proj.bias"));
  file["model.layers.0.self_attn.rotary_emb.inv_freq"] = tt::zeros({2}, tt::f32, tt::cpu);
  hf::copy_in(hf::layout_of(other), file, "weights");
  for (const auto& [name, tensor] : model.state_dict())
    CHECK(other.state_dict().at(name).to_vector() == tensor.to_vector());
}
