// Reads, checks and writes config.json of Hugging Face's transformers, for model_type gpt2 and llama.
//
// A setting that this library does not support and that would change the model's output throws; one message
// lists all such settings. Keys that only describe training or generation elsewhere are ignored. Both forms
// of rotary options are read: rope_theta with rope_scaling, and rope_parameters (transformers 5). The
// tokens that begin and end a text are also read from generation_config.json, and written to it.
#pragma once

#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/llama.hpp>
#include <tinytorch/transformer/model_problems.hpp>

namespace tinytorch::inline TT_BUILD {

namespace hugging_face {

// Parses an object as Python's json module writes it. Throws TT-IO-03 for anything else.
inline Json parse_object(Bytes text, const io::Source& source) {
  Json json = parse_json(text, source, {.not_finite = true});
  if (!json.object()) source.reject("an object", json.kind());
  return json;
}

// Typed access to one JSON object. Errors are collected, and finish() throws all of them at once.
class ConfigReader : public ModelProblems {
 public:
  ConfigReader(const Json& object, std::string path, Loc loc)
      : ModelProblems(std::move(path), loc), object_(object) {}

  // null counts as absent, as in Python.
  const Json* find(const char* key) const {
    const Json* found = object_.find(key);
    return found && !found->is_null() ? found : nullptr;
  }
  // Reads an integer from 1 to 2^31.
  int64_t size(const char* key) {
    if (!find(key)) malformed(std::string(key) + " is missing");
    return size(key, 1);
  }
  int64_t size(const char* key, int64_t otherwise) {
    const Json* found = find(key);
    if (!found) return otherwise;
    const std::optional<int64_t> n = found->integer();
    if (n && *n >= 1 && *n <= int64_t{1} << 31) return *n;
    malformed(std::string(key) + " should be an integer from 1 to 2^31");
    return 1;
  }
  double real(const char* key, double otherwise) {
    const Json* found = find(key);
    if (!found) return otherwise;
    if (found->number() && std::isfinite(found->number()->real)) return found->number()->real;
    malformed(std::string(key) + " should be a finite number, found " +
              (found->number() ? "NaN or Infinity" : found->kind()));
    return otherwise;
  }
  bool boolean(const char* key, bool otherwise) {
    const Json* found = find(key);
    if (found && !found->boolean())
      malformed(std::string(key) + " should be true or false, found " + found->kind());
    return found && found->boolean() ? *found->boolean() : otherwise;
  }
  std::string text(const char* key, const std::string& otherwise) {
    const Json* found = find(key);
    if (found && !found->string())
      malformed(std::string(key) + " should be a string, found " + found->kind());
    return found && found->string() ? *found->string() : otherwise;
  }
  // Reads a token, a list of tokens, or null for none. Returns `otherwise` if the key is absent.
  std::vector<int64_t> tokens(const char* key, std::vector<int64_t> otherwise) {
    if (!object_.find(key)) return otherwise;
    std::vector<int64_t> out;
    const Json* found = find(key);
    if (!found) return out;
    const Json::Array one{*found};
    for (const Json& token : found->array() ? *found->array() : one) {
      if (token.integer())
        out.push_back(*token.integer());
      else
        malformed(std::string(key) + " should be an integer or a list of them");
    }
    return out;
  }

  void require_flag(const char* key, bool supported) {
    const bool value = boolean(key, supported);
    require(value == supported, key, value ? "true" : "false", supported ? "true" : "false");
  }

 private:
  const Json& object_;
};

struct NamedActivation {
  const char* name;
  Activation fn;
};
// The first name of each function is written to files.
inline constexpr NamedActivation kActivations[] = {
    {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu", Activation::gelu},          {"relu", Activation::relu},
    {"silu", Activation::silu},          {"swish", Activation::silu}};

inline std::string name_of_activation(Activation fn) {
  for (const NamedActivation& known : kActivations)
    if (known.fn == fn) return known.name;
  return "linear";
}

// Reads the tokens that begin and end a text. Tokens that the file does not mention keep their values.
template <class Config>
void read_text_tokens(ConfigReader& in, Config& c) {
  const std::vector<int64_t> start = in.tokens("bos_token_id", {c.start_token});
  c.start_token = start.empty() ? -1 : start[0];
  c.end_tokens = in.tokens("eos_token_id", c.end_tokens);
}
// Sets the default tokens of transformers for a model type, if they are in the vocabulary.
template <class Config>
void set_text_tokens(Config& c, int64_t start, int64_t end) {
  if (start < c.vocabulary) c.start_token = start;
  if (end < c.vocabulary) c.end_tokens = {end};
}

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

// Reads the members of rope_scaling or rope_parameters.
inline void read_rotary(ConfigReader& all, const Json& members, RotaryOptions& rotary,
                        const std::string& path, Loc loc) {
  if (!members.object())
    return all.malformed(std::string("the rotary options should be an object, found ") + members.kind());
  ConfigReader in(members, path, loc);
  rotary.theta = in.real("rope_theta", rotary.theta);
  const std::string type = in.text("rope_type", in.text("type", "default"));
  all.require(type == "default" || type == "llama3", "rope_type", io::in_quotes(type), "default llama3");
  all.require(in.real("partial_rotary_factor", 1) == 1, "partial_rotary_factor", "not 1", "1");
  if (type != "llama3") return in.finish();
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
    if (!in.find(key)) in.malformed(std::string(key) + " of rope_type llama3 is missing");
  Llama3Scaling s;
  s.factor = in.real("factor", s.factor);
  s.low_freq_factor = in.real("low_freq_factor", s.low_freq_factor);
  s.high_freq_factor = in.real("high_freq_factor", s.high_freq_factor);
  s.original_positions = in.size("original_max_position_embeddings", s.original_positions);
  if (!(s.factor > 0 && s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor))
    in.malformed("rope_type llama3 needs factor > 0 and 0 < low_freq_factor < high_freq_factor");
  in.finish();
  rotary.scaling = s;
}

inline LlamaConfig read_llama(ConfigReader& in, const std::string& path, Loc loc) {
  LlamaConfig c;
  c.vocabulary = in.size("vocab_size"), c.context = in.size("max_position_embeddings", 2048);
  c.features = in.size("hidden_size"), c.layers = in.size("num_hidden_layers");
  c.heads = in.size("num_attention_heads"), c.hidden = in.size("intermediate_size");
  c.groups = in.size("num_key_value_heads", c.heads);
  c.head_size = in.size("head_dim", std::max<int64_t>(1, c.features / c.heads));
  c.eps = in.real("rms_norm_eps", 1e-6);
  c.attention_bias = in.boolean("attention_bias", false), c.mlp_bias = in.boolean("mlp_bias", false);
  c.attention_dropout = in.real("attention_dropout", 0);
  c.deviation = in.real("initializer_range", 0.02);
  c.tied = in.boolean("tie_word_embeddings", false);
  set_text_tokens(c, 1, 2);
  read_text_tokens(in, c);
  const std::string activation = in.text("hidden_act", "silu");
  in.require(activation == "silu" || activation == "swish", "hidden_act", io::in_quotes(activation), "silu");
  in.require(in.real("partial_rotary_factor", 1) == 1, "partial_rotary_factor", "not 1", "1");
  c.rotary.theta = in.real("rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (const Json* members = in.find(key)) read_rotary(in, *members, c.rotary, path, loc);
  if (!(c.rotary.theta > 0)) in.malformed("rope_theta should be above 0");
  return c;
}

// --- writing ---

inline std::string json_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

// Writes "key": value lines in the order of the calls.
class ConfigWriter {
 public:
  ConfigWriter& add(const char* key, int64_t value) { return raw(key, std::to_string(value)); }
  ConfigWriter& add(const char* key, double value) { return raw(key, json_number(value)); }
  ConfigWriter& add(const char* key, bool value) { return raw(key, value ? "true" : "false"); }
  ConfigWriter& add(const char* key, const std::string& value) { return raw(key, to_json_string(value)); }
  ConfigWriter& raw(const char* key, const std::string& json) {
    lines_ += (lines_.empty() ? "  \"" : ",\n  \"") + std::string(key) + "\": " + json;
    return *this;
  }
  ConfigWriter& tokens(int64_t start, const std::vector<int64_t>& ends) {
    raw("bos_token_id", start < 0 ? "null" : std::to_string(start));
    std::string list;
    for (const int64_t token : ends) list += (list.empty() ? "" : ", ") + std::to_string(token);
    return raw("eos_token_id", ends.empty() ? "null" : ends.size() == 1 ? list : "[" + list + "]");
  }
  std::string str() const { return "{\n" + lines_ + "\n}\n"; }

 private:
  std::string lines_;
};

inline std::string dtype_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::f64:
      return "float64";
    default:
      return "float32";
  }
}

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

inline std::string write_llama(const LlamaConfig& c, DType dtype) {
  ConfigWriter out;
  out.raw("architectures", "[\"LlamaForCausalLM\"]").add("model_type", std::string("llama"));
  out.add("torch_dtype", dtype_name(dtype)).add("vocab_size", c.vocabulary);
  out.add("max_position_embeddings", c.context).add("hidden_size", c.features);
  out.add("num_hidden_layers", c.layers).add("num_attention_heads", c.heads);
  out.add("num_key_value_heads", c.groups > 0 ? c.groups : c.heads);
  out.add("head_dim", c.head_size > 0 ? c.head_size : c.features / c.heads);
  out.add("intermediate_size", c.hidden).add("hidden_act", std::string("silu")).add("rms_norm_eps", c.eps);
  out.add("attention_bias", c.attention_bias).add("mlp_bias", c.mlp_bias);
  out.add("attention_dropout", c.attention_dropout).add("initializer_range", c.deviation);
  out.add("rope_theta", c.rotary.theta);
  if (const auto& s = c.rotary.scaling) {
    out.raw("rope_scaling",
            "{\"rope_type\": \"llama3\", \"factor\": " + json_number(s->factor) +
                ", \"low_freq_factor\": " + json_number(s->low_freq_factor) +
                ", \"high_freq_factor\": " + json_number(s->high_freq_factor) +
                ", \"original_max_position_embeddings\": " + std::to_string(s->original_positions) + "}");
  } else {
    out.raw("rope_scaling", "null");
  }
  out.add("tie_word_embeddings", c.tied).tokens(c.start_token, c.end_tokens);
  return out.str();
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

// Parses the text of a config.json whose model_type is gpt2 or llama. Throws TT-IO-03 for missing or mistyped
// keys and TT-IO-04 for unsupported settings, with one message that lists all of them.
inline std::variant<Gpt2Config, LlamaConfig> parse_hugging_face_config(
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
  if (type == "llama") {
    const LlamaConfig config = hugging_face::read_llama(in, name, loc);
    in.finish();
    return config;
  }
  in.finish();
  source.reject("model_type gpt2 or llama", type.empty() ? "none" : io::in_quotes(type), "TT-IO-04");
}

}  // namespace tinytorch::inline TT_BUILD
