// Typed access to the keys of config.json and generation_config.json, for reading and for writing.
#pragma once

#include <cmath>
#include <cstdio>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/tensor/functions.hpp>
#include <tinytorch/transformer/model_problems.hpp>

namespace tinytorch::inline TT_BUILD::hugging_face {

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
  // True if the key is there, even with null.
  bool has(const char* key) const { return object_.find(key) != nullptr; }
  int64_t size(const char* key, int64_t otherwise, int64_t least = 1) {
    const Json* found = find(key);
    if (!found) return otherwise;
    const std::optional<int64_t> n = found->integer();
    if (n && *n >= least && *n <= int64_t{1} << 31) return *n;
    malformed(std::string(key) + " should be an integer from " + std::to_string(least) + " to 2^31");
    return 1;
  }
  // A list of finite numbers.
  std::vector<double> numbers(const char* key) {
    std::vector<double> out;
    const Json* found = find(key);
    const Json::Array none{};
    for (const Json& n : found && found->array() ? *found->array() : none)
      if (n.number() && std::isfinite(n.number()->real)) out.push_back(n.number()->real);
    if (!found || !found->array() || out.size() != found->array()->size())
      malformed(std::string(key) + " should be a list of numbers");
    return out;
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
  if (end >= 0 && end < c.vocabulary) c.end_tokens = {end};
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

}  // namespace tinytorch::inline TT_BUILD::hugging_face
