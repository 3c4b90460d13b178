// The model families of Hugging Face, each as its differences from Llama: the keys of its config.json, their
// defaults in transformers, and the options of decoder.hpp that they set. One description serves reading and
// writing. To add a family, write a struct like these and list it in kFamilies.
#pragma once

#include <tinytorch/transformer/decoder.hpp>
#include <tinytorch/transformer/family_file.hpp>

namespace tinytorch::inline TT_BUILD::hugging_face {

// `file` is a FamilyReader, which sets the options, or a FamilyWriter, which writes them (family_file.hpp).

struct LlamaFamily {
  static constexpr const char *kType = "llama", *kClass = "LlamaForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    file.sizes(c, {.context = 2048});
    file.flag("attention_bias", c.attention_bias, false);
    file.flag("mlp_bias", c.mlp_bias, false);
    file.rotary(c, {.theta = 10000});
    file.tokens(c, {.start = 1, .end = 2});
  }
};

// A window, in every layer.
struct MistralFamily {
  static constexpr const char *kType = "mistral", *kClass = "MistralForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    file.sizes(c, {.context = 4096 * 32, .groups = 8});
    file.window(c, {.otherwise = 4096, .slides = [](int64_t) { return true; }});
    file.rotary(c, {.theta = 10000});
    file.tokens(c, {.start = 1, .end = 2});
  }
};

// Biases on q, k and v; a window in the layers from max_window_layers on, if it is used at all.
struct Qwen2Family {
  static constexpr const char *kType = "qwen2", *kClass = "Qwen2ForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    c.qkv_bias = true;
    file.sizes(c, {.context = 32768});
    file.late_window(c);
    file.rotary(c, {.theta = 10000});
    file.tokens(c, {});
  }
};

// Qwen 2 without the biases, with norms of the heads of q and k, whose size is not features / heads.
struct Qwen3Family {
  static constexpr const char *kType = "qwen3", *kClass = "Qwen3ForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    c.head_norms = true;
    file.sizes(c, {.context = 32768, .head_size = 128});
    file.flag("attention_bias", c.attention_bias, false);
    file.late_window(c);
    file.rotary(c, {.theta = 10000});
    file.tokens(c, {});
  }
};

// q, k, v and gate, up are one matrix each in the file, too; longrope; a part of each head may be turned.
struct Phi3Family {
  static constexpr const char *kType = "phi3", *kClass = "Phi3ForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    file.sizes(c, {.context = 4096, .eps = 1e-5});
    file.zero("resid_pdrop");
    file.zero("embd_pdrop");
    file.window(c, {.slides = [](int64_t) { return true; }});
    file.rotary(c, {.theta = 10000, .partial = true, .original = 4096});
    file.tokens(c, {.start = 1, .end = 32000});
  }
};

// Scaled embeddings, norms by 1 + weight, gates by GELU.
struct GemmaFamily {
  static constexpr const char *kType = "gemma", *kClass = "GemmaForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    file.sizes(c, {.context = 8192, .head_size = 256, .activation = "gelu_pytorch_tanh", .tied = true});
    rest(file, c);
    file.rotary(c, {.theta = 10000});
  }
  // Reads the settings that the three generations share.
  template <class File>
  static void rest(File& file, DecoderConfig& c) {
    c.norm_offset = 1, c.embedding_scale = std::sqrt(static_cast<double>(c.features));
    file.flag("attention_bias", c.attention_bias, false);
    file.only("use_bidirectional_attention", false);
    file.tokens(c, {.start = 2, .end = 1});
  }
};

// Gemma with soft caps, a norm after each branch too, and a window in every other layer.
struct Gemma2Family {
  static constexpr const char *kType = "gemma2", *kClass = "Gemma2ForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    c.post_norms = true;
    file.sizes(c, {.context = 8192,
                   .head_size = 256,
                   .activation_key = "hidden_activation",
                   .activation = "gelu_pytorch_tanh",
                   .tied = true});
    GemmaFamily::rest(file, c);
    file.scale("query_pre_attn_scalar", c.attention_scale, 256);
    file.cap("attn_logit_softcapping", c.attention_cap, 50);
    file.cap("final_logit_softcapping", c.logit_cap, 30);
    file.window(c, {.otherwise = 4096, .slides = [](int64_t layer) { return layer % 2 == 0; }});
    file.rotary(c, {.theta = 10000});
  }
};

// Gemma 2 with norms of the heads of q and k in the place of the caps, a window in five of six layers, and
// rotary options of their own for these.
struct Gemma3Family {
  static constexpr const char *kType = "gemma3_text", *kClass = "Gemma3ForCausalLM";
  template <class File>
  static void describe(File& file, DecoderConfig& c) {
    c.post_norms = c.head_norms = true;
    file.sizes(c, {.context = 131072,
                   .head_size = 256,
                   .activation_key = "hidden_activation",
                   .activation = "gelu_pytorch_tanh",
                   .tied = true});
    GemmaFamily::rest(file, c);
    file.scale("query_pre_attn_scalar", c.attention_scale, 256);
    file.cap("attn_logit_softcapping", c.attention_cap, 0);
    file.cap("final_logit_softcapping", c.logit_cap, 0);
    const int64_t period = file.period("sliding_window_pattern", 6);
    file.window(c, {.otherwise = 4096, .slides = [=](int64_t layer) { return (layer + 1) % period != 0; }});
    file.rotary_by_layer(c, {.theta = 1000000}, 10000);
  }
};

struct Family {
  const char *type, *class_name;  // model_type and the class of transformers
  void (*read)(FamilyReader&, DecoderConfig&);
  void (*write)(FamilyWriter&, DecoderConfig&);
};
template <class Description>
constexpr Family family_of() {
  return {Description::kType, Description::kClass, &Description::template describe<FamilyReader>,
          &Description::template describe<FamilyWriter>};
}
inline constexpr Family kFamilies[] = {family_of<LlamaFamily>(),  family_of<MistralFamily>(),
                                       family_of<Qwen2Family>(),  family_of<Qwen3Family>(),
                                       family_of<Phi3Family>(),   family_of<GemmaFamily>(),
                                       family_of<Gemma2Family>(), family_of<Gemma3Family>()};

// Returns the family of this model_type, or null if there is none.
inline const Family* find_family(const std::string& type) {
  for (const Family& family : kFamilies)
    if (type == family.type) return &family;
  return nullptr;
}
inline std::string family_names() {
  std::string out;
  for (const Family& family : kFamilies) out += (out.empty() ? "" : " ") + std::string(family.type);
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::hugging_face
