// Reads, checks and writes config.json of Hugging Face's transformers, for model_type gpt2 and those of
// families.hpp.
//
// A setting that this library does not support and that would change the model's output throws; one message
// lists all such settings. Keys that only describe training or generation elsewhere are ignored. Both forms
// of rotary options are read: rope_theta with rope_scaling, and rope_parameters (transformers 5). The
// tokens that begin and end a text are also read from generation_config.json, and written to it.
#pragma once

#include <tinytorch/transformer/families.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/hugging_face_keys.hpp>
#include <variant>

namespace tinytorch::inline TT_BUILD {

namespace hugging_face {

inline Gpt2Config read_gpt2(ConfigReader& in) {
  Gpt2Config c;
  c.vocabulary = in.size("vocab_size"), c.context = in.size("n_positions");
  c.features = in.size("n_embd"), c.layers = in.size("n_layer"), c.heads = in.size("n_head");
  c.hidden = in.size("n_inner", 0);
  c.eps = in.real("layer_norm_epsilon", 1e-5);
  c.embedding_dropout = in.real("embd_pdrop", 0.1);
  c.attention_dropout = in.real("attn_pdrop", 0.1);
  c.residual_dropout = in.real("resid_pdrop", 0.1);
  c.deviation = in.real("initializer_range", 0.02);
  c.tied = in.boolean("tie_word_embeddings", true);
  set_text_tokens(c, 50256, 50256);
  read_text_tokens(in, c);
  const std::string activation = in.text("activation_function", "gelu_new");
  bool known = false;
  std::string names;
  for (const NamedActivation& a : kActivations) {
    names += (names.empty() ? "" : " ") + std::string(a.name);
    if (activation == a.name) c.activation = a.fn, known = true;
  }
  in.require(known, "activation_function", io::in_quotes(activation), names);
  in.require_flag("scale_attn_weights", true);
  in.require_flag("scale_attn_by_inverse_layer_idx", false);
  in.require_flag("reorder_and_upcast_attn", false);
  in.require_flag("add_cross_attention", false);
  return c;
}

inline DecoderConfig read_family(const Family& family, ConfigReader& in, const std::string& path, Loc loc) {
  DecoderConfig c;
  c.family = family.type;
  FamilyReader file(in, path, loc);
  family.read(file, c);
  return c;
}

// --- writing ---

inline std::string write_gpt2(const Gpt2Config& c, DType dtype) {
  ConfigWriter out;
  out.raw("architectures", "[\"GPT2LMHeadModel\"]").add("model_type", std::string("gpt2"));
  out.add("torch_dtype", dtype_name(dtype)).add("vocab_size", c.vocabulary).add("n_positions", c.context);
  out.add("n_embd", c.features).add("n_layer", c.layers).add("n_head", c.heads);
  out.raw("n_inner", c.hidden > 0 ? std::to_string(c.hidden) : "null");
  out.add("activation_function", name_of_activation(c.activation)).add("layer_norm_epsilon", c.eps);
  out.add("embd_pdrop", c.embedding_dropout).add("attn_pdrop", c.attention_dropout);
  out.add("resid_pdrop", c.residual_dropout).add("initializer_range", c.deviation);
  out.add("tie_word_embeddings", c.tied).tokens(c.start_token, c.end_tokens);
  return out.str();
}

inline std::string write_family(DecoderConfig c, DType dtype, TT_LOC) {
  const Family* family = find_family(c.family);
  if (!family) {
    fail("TT-NN-24",
         "save_hugging_face: there is no family " + io::in_quotes(c.family) + "\n  rule: one of " +
             family_names(),
         loc);
  }
  ConfigWriter out;
  out.raw("architectures", "[" + to_json_string(family->class_name) + "]").add("model_type", c.family);
  out.add("torch_dtype", dtype_name(dtype));
  FamilyWriter file(out);
  family->write(file, c);
  return out.str();
}
inline std::string write_llama(const LlamaConfig& c, DType dtype) {
  DecoderConfig all;
  static_cast<LlamaConfig&>(all) = c;
  return write_family(all, dtype);
}

// Reads the text of a generation_config.json: its tokens that begin and end a text override those of
// config.json. Throws TT-IO-03 if they are not integers.
template <class Config>
void read_generation_config(Bytes text, Config& c, const std::string& name, TT_LOC) {
  const Json json = parse_object(text, {name, "a model's generation_config.json", loc});
  ConfigReader in(json, name, loc);
  read_text_tokens(in, c);
  in.finish();
}
template <class Config>
std::string write_generation_config(const Config& c) {
  return ConfigWriter().tokens(c.start_token, c.end_tokens).str();
}

}  // namespace hugging_face

// Parses the text of a config.json whose model_type is gpt2 or one of families.hpp. Throws TT-IO-03 for
// missing or mistyped keys and TT-IO-04 for unsupported settings, with one message that lists all of them.
inline std::variant<Gpt2Config, LlamaConfig, DecoderConfig> parse_hugging_face_config(
    Bytes text, const std::string& name = "config.json", TT_LOC) {
  const io::Source source{name, "a model's config.json", loc};
  const Json json = hugging_face::parse_object(text, source);
  hugging_face::ConfigReader in(json, name, loc);
  const std::string type = in.text("model_type", "");
  if (type == "gpt2") {
    const Gpt2Config config = hugging_face::read_gpt2(in);
    in.finish();
    return config;
  }
  if (const hugging_face::Family* family = hugging_face::find_family(type)) {
    const DecoderConfig config = hugging_face::read_family(*family, in, name, loc);
    in.finish();
    if (type == "llama") return static_cast<const LlamaConfig&>(config);
    return config;
  }
  in.finish();
  source.reject("model_type gpt2 " + hugging_face::family_names(),
                type.empty() ? "none" : io::in_quotes(type), "TT-IO-04");
}

}  // namespace tinytorch::inline TT_BUILD
