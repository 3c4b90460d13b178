// The rotary options of a config.json: rope_theta with rope_scaling, or rope_parameters (transformers 5).
#pragma once

#include <tinytorch/transformer/hugging_face_keys.hpp>
#include <tinytorch/transformer/rotary_scaling.hpp>

namespace tinytorch::inline TT_BUILD::hugging_face {

// Values from outside of rope_scaling that its members are interpreted with.
struct RotaryContext {
  int64_t positions;     // max_position_embeddings
  int64_t original = 0;  // original_max_position_embeddings beside the members, which comes first; 0: none
  bool partial = false;  // the family may turn a part of each head
  std::string path{};
  Loc loc{};
};

// The members of one rope_scaling or rope_parameters.
class RotaryReader {
 public:
  RotaryReader(ConfigReader& all, const Json& members, const RotaryContext& context)
      : all_(all), in_(members, context.path, context.loc), context_(context) {}

  void run(RotaryOptions& rotary) {
    rotary.theta = in_.real("rope_theta", rotary.theta);
    rotary.share = in_.real("partial_rotary_factor", rotary.share);
    const std::string type = in_.text("rope_type", in_.text("type", "default"));
    if (type == "llama3")
      rotary.scaling = llama3();
    else if (type == "linear")
      rotary.stretch = LinearScaling{factor(type)};
    else if (type == "dynamic")
      rotary.stretch = dynamic(type);
    else if (type == "yarn")
      rotary.stretch = yarn(type);
    else if (type == "longrope" || type == "su")
      rotary.stretch = longrope();
    else
      all_.require(type == "default", "rope_type", io::in_quotes(type),
                   "default llama3 linear dynamic yarn longrope");
    all_.require(!in_.find("full_attention") && !in_.find("sliding_attention"), "rope_parameters",
                 "given for each kind of layer", "one for all layers");
    in_.finish();
  }

 private:
  double factor(const std::string& type) {
    if (!in_.find("factor")) in_.malformed("factor of rope_type " + type + " is missing");
    const double value = in_.real("factor", 1);
    if (!(value > 0)) in_.malformed("factor of rope_type " + type + " should be above 0");
    return value;
  }
  int64_t original() {
    return context_.original > 0 ? context_.original
                                 : in_.size("original_max_position_embeddings", context_.positions);
  }
  Llama3Scaling llama3() {
    for (const char* key :
         {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      if (!in_.find(key)) in_.malformed(std::string(key) + " of rope_type llama3 is missing");
    Llama3Scaling s;
    s.factor = in_.real("factor", s.factor);
    s.low_freq_factor = in_.real("low_freq_factor", s.low_freq_factor);
    s.high_freq_factor = in_.real("high_freq_factor", s.high_freq_factor);
    s.original_positions = in_.size("original_max_position_embeddings", s.original_positions);
    if (!(s.factor > 0 && s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor))
      in_.malformed("rope_type llama3 needs factor > 0 and 0 < low_freq_factor < high_freq_factor");
    return s;
  }
  DynamicScaling dynamic(const std::string& type) {
    all_.require(!in_.find("alpha"), "alpha of rope_type dynamic", "given", "none");
    return {factor(type), context_.positions};
  }
  YarnScaling yarn(const std::string& type) {
    YarnScaling s;
    s.factor = factor(type), s.original_positions = original();
    s.beta_fast = in_.real("beta_fast", s.beta_fast), s.beta_slow = in_.real("beta_slow", s.beta_slow);
    s.truncate = in_.boolean("truncate", true);
    const double weight = in_.real("mscale", 0), weight_all = in_.real("mscale_all_dim", 0);
    const double recommended =
        weight != 0 && weight_all != 0
            ? YarnScaling::recommended(s.factor, weight) / YarnScaling::recommended(s.factor, weight_all)
            : YarnScaling::recommended(s.factor);
    s.attention_factor = in_.real("attention_factor", recommended);
    if (!(s.beta_slow > 0 && s.beta_fast > s.beta_slow))
      in_.malformed("rope_type yarn needs 0 < beta_slow < beta_fast");
    return s;
  }
  LongRopeScaling longrope() {
    LongRopeScaling s;
    s.short_factors = in_.numbers("short_factor"), s.long_factors = in_.numbers("long_factor");
    s.original_positions = original();
    const double ratio = static_cast<double>(context_.positions) / static_cast<double>(s.original_positions);
    const double wide = in_.real("factor", ratio);
    s.attention_factor =
        in_.real("attention_factor", LongRopeScaling::recommended(wide, s.original_positions));
    const auto above_0 = [](double x) { return x > 0; };
    if (!std::ranges::all_of(s.short_factors, above_0) || !std::ranges::all_of(s.long_factors, above_0))
      in_.malformed("the factors of rope_type longrope should be above 0");
    return s;
  }

  ConfigReader& all_;
  ConfigReader in_;
  const RotaryContext& context_;
};

// Checks what needs the head size.
inline void require_rotary(ConfigReader& in, const RotaryOptions& r, int64_t head_size,
                           const RotaryContext& context) {
  if (!(r.theta > 1)) in.malformed("rope_theta should be above 1");
  if (!(r.share > 0 && r.share <= 1)) in.malformed("partial_rotary_factor should be above 0 and at most 1");
  in.require(context.partial || r.share == 1, "partial_rotary_factor", "not 1", "1");
  const auto pairs = static_cast<size_t>(r.turned(head_size) / 2);
  const auto* s = std::get_if<LongRopeScaling>(&r.stretch);
  if (s && (s->short_factors.size() != pairs || s->long_factors.size() != pairs))
    in.malformed("short_factor and long_factor should have " + std::to_string(pairs) + " numbers each");
}

// Reads all keys of the rotary options but those for each kind of layer.
inline RotaryOptions read_rotary(ConfigReader& in, RotaryOptions r, int64_t head_size,
                                 const RotaryContext& context) {
  r.theta = in.real("rope_theta", r.theta), r.share = in.real("partial_rotary_factor", r.share);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* members = in.find(key);
    if (members && members->object())
      RotaryReader(in, *members, context).run(r);
    else if (members)
      in.malformed(std::string("the rotary options should be an object, found ") + members->kind());
  }
  require_rotary(in, r, head_size, context);
  return r;
}

// --- writing ---

// An object with its members in the order of the calls.
class JsonMembers {
 public:
  JsonMembers(const char* type) : text_("{\"rope_type\": " + to_json_string(type)) {}
  JsonMembers& add(const char* key, double value) { return raw(key, json_number(value)); }
  JsonMembers& add(const char* key, int64_t value) { return raw(key, std::to_string(value)); }
  JsonMembers& add(const char* key, const std::vector<double>& values) {
    std::string list;
    for (const double value : values) list += (list.empty() ? "" : ", ") + json_number(value);
    return raw(key, "[" + list + "]");
  }
  JsonMembers& raw(const char* key, const std::string& json) {
    text_ += std::string(", \"") + key + "\": " + json;
    return *this;
  }
  std::string str() const { return text_ + "}"; }

 private:
  std::string text_;
};

inline constexpr const char* kOriginal = "original_max_position_embeddings";

// The value of rope_scaling.
inline std::string rope_scaling_json(const RotaryOptions& r) {
  if (const auto& s = r.scaling) {
    JsonMembers out("llama3");
    out.add("factor", s->factor).add("low_freq_factor", s->low_freq_factor);
    return out.add("high_freq_factor", s->high_freq_factor).add(kOriginal, s->original_positions).str();
  }
  if (const auto* s = std::get_if<LinearScaling>(&r.stretch))
    return JsonMembers("linear").add("factor", s->factor).str();
  if (const auto* s = std::get_if<DynamicScaling>(&r.stretch))
    return JsonMembers("dynamic").add("factor", s->factor).str();
  if (const auto* s = std::get_if<YarnScaling>(&r.stretch)) {
    JsonMembers out("yarn");
    out.add("factor", s->factor).add(kOriginal, s->original_positions);
    out.add("beta_fast", s->beta_fast).add("beta_slow", s->beta_slow);
    out.raw("truncate", s->truncate ? "true" : "false");
    return out.add("attention_factor", s->attention_factor).str();
  }
  if (const auto* s = std::get_if<LongRopeScaling>(&r.stretch)) {
    JsonMembers out("longrope");
    out.add("short_factor", s->short_factors).add("long_factor", s->long_factors);
    return out.add(kOriginal, s->original_positions).add("attention_factor", s->attention_factor).str();
  }
  return "null";
}

}  // namespace tinytorch::inline TT_BUILD::hugging_face
