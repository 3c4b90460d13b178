// FamilyReader and FamilyWriter: the two sides of a description in families.hpp. Both have the same
// functions; the reader sets options from the keys of a config.json, the writer adds these keys with the
// options' values.
#pragma once

#include <functional>
#include <tinytorch/transformer/decoder.hpp>
#include <tinytorch/transformer/hugging_face_rotary.hpp>

namespace tinytorch::inline TT_BUILD::hugging_face {

// The defaults of transformers, which a config.json may omit.
struct FamilyDefaults {
  int64_t context = 2048;
  int64_t groups = 0;     // 0: as many as heads
  int64_t head_size = 0;  // 0: features / heads
  double eps = 1e-6;
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
  bool tied = false;
};
struct FamilyTokens {
  int64_t start = -1, end = -1;  // -1: none
};
struct FamilyRotary {
  double theta;
  bool partial = false;  // a part of each head may be turned
  int64_t original = 0;  // original_max_position_embeddings stands beside rope_scaling; its default
};
struct FamilyWindow {
  int64_t otherwise = 0;                  // if the file has no sliding_window; null means none
  std::function<bool(int64_t)> slides{};  // which layers have it, if layer_types does not say
};

inline constexpr const char *kSliding = "sliding_attention", *kFull = "full_attention";

class FamilyReader {
 public:
  FamilyReader(ConfigReader& in, std::string path, Loc loc) : in_(in), path_(std::move(path)), loc_(loc) {}

  void sizes(DecoderConfig& c, const FamilyDefaults& d) {
    c.vocabulary = in_.size("vocab_size"), c.context = in_.size("max_position_embeddings", d.context);
    c.features = in_.size("hidden_size"), c.layers = in_.size("num_hidden_layers");
    c.heads = in_.size("num_attention_heads"), c.hidden = in_.size("intermediate_size");
    const bool null_groups = in_.has("num_key_value_heads") || d.groups == 0;
    c.groups = in_.size("num_key_value_heads", null_groups ? c.heads : d.groups);
    const int64_t equal = std::max<int64_t>(1, c.features / c.heads);
    c.head_size = in_.size("head_dim", d.head_size > 0 ? d.head_size : equal);
    if (c.groups > c.heads || c.heads % c.groups != 0)
      in_.malformed("num_key_value_heads should divide num_attention_heads");
    c.eps = in_.real("rms_norm_eps", d.eps);
    c.attention_dropout = in_.real("attention_dropout", 0);
    c.deviation = in_.real("initializer_range", 0.02);
    c.tied = in_.boolean("tie_word_embeddings", d.tied);
    read_activation(c, d);
  }
  void flag(const char* key, bool& value, bool otherwise) { value = in_.boolean(key, otherwise); }
  void only(const char* key, bool supported) { in_.require_flag(key, supported); }
  void zero(const char* key) { in_.require(in_.real(key, 0) == 0, key, "not 0", "0"); }
  void scale(const char* key, double& scale, double otherwise) {
    const double n = in_.real(key, otherwise);
    if (!(n > 0)) in_.malformed(std::string(key) + " should be above 0");
    scale = 1 / std::sqrt(n);
  }
  void cap(const char* key, double& cap, double otherwise) {
    cap = in_.real(key, in_.has(key) ? 0 : otherwise);
    if (cap < 0) in_.malformed(std::string(key) + " should be above 0, or null");
  }
  int64_t period(const char* key, int64_t otherwise) { return in_.size(key, otherwise); }
  void window(DecoderConfig& c, const FamilyWindow& w) {
    c.window = in_.size("sliding_window", in_.has("sliding_window") ? 0 : w.otherwise);
    read_layers(c, w);
  }
  void late_window(DecoderConfig& c) {
    const int64_t first = in_.size("max_window_layers", 28, 0);
    if (in_.boolean("use_sliding_window", false))
      return window(c, {.otherwise = 4096, .slides = [=](int64_t layer) { return layer >= first; }});
    read_layers(c, {});
  }
  void rotary(DecoderConfig& c, const FamilyRotary& f) {
    RotaryContext context{.positions = c.context, .partial = f.partial, .path = path_, .loc = loc_};
    if (f.original > 0) context.original = in_.size(kOriginal, f.original);
    c.rotary = read_rotary(in_, {.theta = f.theta}, c.head_features(), context);
    const auto& stretch = c.rotary.stretch;
    if (f.original > 0)
      in_.require(!c.rotary.scaling && (std::holds_alternative<std::monostate>(stretch) ||
                                        std::holds_alternative<LongRopeScaling>(stretch)),
                  "rope_type", "another", "default longrope");
  }
  void rotary_by_layer(DecoderConfig& c, const FamilyRotary& f, double sliding_theta) {
    const RotaryContext context{.positions = c.context, .path = path_, .loc = loc_};
    RotaryOptions near{.theta = in_.real("rope_local_base_freq", sliding_theta)};
    const Json* both = in_.find("rope_parameters");
    const Json* far = both ? both->find(kFull) : nullptr;
    const Json* own = both ? both->find(kSliding) : nullptr;
    if (!far && !own) {
      c.rotary = read_rotary(in_, {.theta = f.theta}, c.head_features(), context);
    } else {
      c.rotary.theta = in_.real("rope_theta", f.theta);
      if (far && far->object()) RotaryReader(in_, *far, context).run(c.rotary);
      if (own && own->object()) RotaryReader(in_, *own, context).run(near);
      require_rotary(in_, c.rotary, c.head_features(), context);
      in_.require(!in_.find("rope_scaling"), "rope_scaling", "given beside rope_parameters", "one of them");
    }
    require_rotary(in_, near, c.head_features(), context);
    c.sliding_rotary = near;
  }
  void tokens(DecoderConfig& c, const FamilyTokens& t) {
    set_text_tokens(c, t.start, t.end);
    read_text_tokens(in_, c);
  }

 private:
  void read_activation(DecoderConfig& c, const FamilyDefaults& d) {
    const std::string name = in_.text(d.activation_key, d.activation);
    // The first Gemma files say gelu and mean its tanh form, as transformers knows.
    const bool gates_by_gelu = std::string_view(d.activation) != "silu";
    const bool silu = name == "silu" || name == "swish", tanh = name == d.activation || name == "gelu";
    c.activation = gates_by_gelu ? Activation::gelu_tanh : Activation::silu;
    in_.require(gates_by_gelu ? tanh : silu, d.activation_key, io::in_quotes(name), d.activation);
  }
  // Sets `sliding` by layer_types, or by the rule of the family.
  void read_layers(DecoderConfig& c, const FamilyWindow& w) {
    const Json* types = in_.find("layer_types");
    if (types && !types->array()) return in_.malformed("layer_types should be a list");
    c.sliding.clear();
    for (int64_t layer = 0; layer < c.layers && !types; ++layer)
      c.sliding.push_back(c.window > 0 && w.slides && w.slides(layer));
    for (const Json& type : types ? *types->array() : Json::Array{}) {
      const std::string name = type.string() ? *type.string() : type.kind();
      in_.require(name == kSliding || name == kFull, "a layer of layer_types", io::in_quotes(name),
                  std::string(kSliding) + " " + kFull);
      c.sliding.push_back(name == kSliding);
    }
    if (std::ssize(c.sliding) != c.layers)
      in_.malformed("layer_types should have " + std::to_string(c.layers) + " entries");
    const bool any = std::ranges::find(c.sliding, true) != c.sliding.end();
    if (any && c.window == 0) in_.malformed("layer_types has sliding layers, and there is no sliding_window");
    if (!any) c.window = 0;
  }

  ConfigReader& in_;
  std::string path_;
  Loc loc_;
};

class FamilyWriter {
 public:
  explicit FamilyWriter(ConfigWriter& out) : out_(out) {}

  void sizes(const DecoderConfig& c, const FamilyDefaults& d) {
    out_.add("vocab_size", c.vocabulary).add("max_position_embeddings", c.context);
    out_.add("hidden_size", c.features).add("num_hidden_layers", c.layers);
    out_.add("num_attention_heads", c.heads).add("num_key_value_heads", c.kv_groups());
    out_.add("head_dim", c.head_features()).add("intermediate_size", c.hidden);
    out_.add(d.activation_key, std::string(d.activation)).add("rms_norm_eps", c.eps);
    out_.add("attention_dropout", c.attention_dropout).add("initializer_range", c.deviation);
    out_.add("tie_word_embeddings", c.tied);
  }
  void flag(const char* key, bool value, bool /*otherwise*/) { out_.add(key, value); }
  void only(const char* key, bool supported) { out_.add(key, supported); }
  void zero(const char* key) { out_.add(key, 0.0); }
  void scale(const char* key, double scale, double /*otherwise*/) {
    const double n = 1 / (scale * scale), whole = std::round(n);
    if (std::abs(n - whole) <= 1e-9 * n)
      out_.add(key, static_cast<int64_t>(whole));
    else
      out_.add(key, n);
  }
  void cap(const char* key, double cap, double /*otherwise*/) {
    out_.raw(key, cap > 0 ? json_number(cap) : "null");
  }
  int64_t period(const char* /*key*/, int64_t otherwise) { return otherwise; }  // layer_types says it
  void window(const DecoderConfig& c, const FamilyWindow& /*w*/) {
    out_.raw("sliding_window", c.window > 0 ? std::to_string(c.window) : "null");
    std::string list;
    for (int64_t layer = 0; layer < c.layers; ++layer)
      list += (list.empty() ? "\"" : ", \"") + std::string(c.slides(layer) ? kSliding : kFull) + "\"";
    out_.raw("layer_types", "[" + list + "]");
  }
  void late_window(const DecoderConfig& c) {
    out_.add("use_sliding_window", c.window > 0);
    window(c, {});
  }
  void rotary(const DecoderConfig& c, const FamilyRotary& f) {
    out_.add("rope_theta", c.rotary.theta).raw("rope_scaling", rope_scaling_json(c.rotary));
    if (c.rotary.share != 1) out_.add("partial_rotary_factor", c.rotary.share);
    const auto* s = std::get_if<LongRopeScaling>(&c.rotary.stretch);
    if (f.original > 0) out_.add(kOriginal, s ? s->original_positions : c.context);
  }
  void rotary_by_layer(const DecoderConfig& c, const FamilyRotary& f, double sliding_theta) {
    rotary(c, f);
    out_.add("rope_local_base_freq", c.sliding_rotary ? c.sliding_rotary->theta : sliding_theta);
  }
  void tokens(const DecoderConfig& c, const FamilyTokens& /*t*/) { out_.tokens(c.start_token, c.end_tokens); }

 private:
  ConfigWriter& out_;
};

}  // namespace tinytorch::inline TT_BUILD::hugging_face
