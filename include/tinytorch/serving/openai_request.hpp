// Requests of OpenAI's API: reads and checks the bodies of /v1/completions and /v1/chat/completions.
//
//   const ApiRequest request = parse_completion(body, limits);      // or parse_chat
//
// A body that is not JSON, a field of the wrong type, a number out of range and a field that is not supported
// throw ApiError with status 400, which names the field. null stands for an absent field. Besides OpenAI's
// fields there are those that other servers of open models have: top_k, min_p, repetition_penalty,
// ignore_eos. Source: OpenAI's API reference, "Completions" and "Chat".
#pragma once

#include <limits>
#include <set>
#include <tinytorch/serving/chat_template.hpp>
#include <tinytorch/serving/openai_error.hpp>
#include <tinytorch/transformer/sampling.hpp>
#include <variant>

namespace tinytorch::inline TT_BUILD::serving {

struct ApiLimits {
  int64_t vocabulary = std::numeric_limits<int32_t>::max();
  int64_t choices = 128;    // texts of one request: prompts times n
  size_t values = 1 << 18;  // JSON values of a body
  size_t bytes = 1 << 20;   // of a body
  size_t messages = 4096;   // of a chat
};

using ApiPrompt = std::variant<std::string, Tokens>;

struct ApiRequest {
  bool chat = false;
  std::string model{};
  std::vector<ApiPrompt> prompts{};     // of completions
  std::vector<ChatMessage> messages{};  // of a chat
  std::optional<int64_t> max_tokens{};
  int64_t n = 1;
  bool stream = false, include_usage = false, ignore_eos = false;
  std::vector<std::string> stop{};
  std::optional<uint64_t> seed{};
  int64_t logprobs = -1;  // -1: none; n >= 0: of each token, and of the n most likely ones
  SamplingOptions sampling{};
  std::vector<std::pair<int32_t, double>> logit_bias{};
};

inline ApiRequest parse_completion(std::string_view body, const ApiLimits& limits = {});
inline ApiRequest parse_chat(std::string_view body, const ApiLimits& limits = {});

// ---------------------------------------------------------------------------------------------------------

namespace openai {

inline constexpr int64_t kMostStops = 4, kMostStopBytes = 1000, kMostLogprobs = 20, kMostBiases = 1024;

inline std::string number_text(double x) {
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr);
}

// The members of a JSON object. It remembers which ones were asked for, so that unknown ones are noticed.
class Fields {
 public:
  explicit Fields(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // The value, or null if it is absent or null.
  const Json* find(const std::string& name) {
    known_.insert(name);
    const Json* const value = object_.find(name);
    return value && !value->is_null() ? value : nullptr;
  }
  std::string path(const std::string& name) const { return prefix_ + name; }
  [[noreturn]] void reject(const std::string& name, const std::string& rule, const Json& value) const {
    throw bad_request(path(name), "must be " + rule + ", not " + shown(value));
  }

  std::optional<std::string> string(const std::string& name) {
    const Json* const value = find(name);
    if (!value) return std::nullopt;
    if (!value->string()) reject(name, "a string", *value);
    return *value->string();
  }
  bool boolean(const std::string& name, bool otherwise) {
    const Json* const value = find(name);
    if (value && !value->boolean()) reject(name, "true or false", *value);
    return value ? *value->boolean() : otherwise;
  }
  std::optional<int64_t> integer(const std::string& name, int64_t least, int64_t most) {
    const Json* const value = find(name);
    if (!value) return std::nullopt;
    const auto number = value->integer();
    if (!number || *number < least || *number > most) {
      reject(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most), *value);
    }
    return number;
  }
  double real(const std::string& name, double least, double most, double otherwise) {
    const Json* const value = find(name);
    if (!value) return otherwise;
    const double number = value->number() ? value->number()->real : std::nan("");
    if (!(number >= least && number <= most)) {
      reject(name, "a number from " + number_text(least) + " to " + number_text(most), *value);
    }
    return number;
  }
  // A field that is known, but supported with one value only.
  void require_default(const std::string& name, bool is_default, const std::string& rule) {
    const Json* const value = find(name);
    if (value && !is_default) throw bad_request(path(name), "is not supported; " + rule);
  }
  void ignore(const std::string& name) { known_.insert(name); }
  void refuse_unknown() const {
    for (const auto& [name, value] : *object_.object()) {
      if (!known_.contains(name))
        throw bad_request(path(name.substr(0, 64)), "there is no such field", "unknown_field");
    }
  }

 private:
  static std::string shown(const Json& value) {
    if (const auto integer = value.integer()) return std::to_string(*integer);
    return value.number() ? number_text(value.number()->real) : value.kind();
  }
  const Json& object_;
  std::string prefix_;
  std::set<std::string> known_;
};

inline Json parse_body(std::string_view body, const ApiLimits& limits) {
  try {
    const JsonLimits of_json{.depth = 32, .values = limits.values, .bytes = limits.bytes};
    Json json = parse_json(as_bytes(body), "the body", of_json);
    if (!json.object())
      throw bad_request("", std::string("the body must be a JSON object, not ") + json.kind());
    return json;
  } catch (const Error& error) {
    throw bad_request("", brief_text(error), "invalid_json");
  }
}

inline std::vector<std::string> parse_stop(Fields& fields) {
  const Json* const value = fields.find("stop");
  if (!value) return {};
  const std::string rule = "a string, or an array of at most 4 strings, of 1 to 1000 bytes";
  std::vector<std::string> out;
  const auto add = [&](const Json& one) {
    if (!one.string() || one.string()->empty() || std::ssize(*one.string()) > kMostStopBytes)
      throw bad_request("stop", "must be " + rule);
    out.push_back(*one.string());
  };
  if (const Json::Array* const several = value->array()) {
    if (std::ssize(*several) > kMostStops) throw bad_request("stop", "must be " + rule);
    for (const Json& one : *several) add(one);
  } else {
    add(*value);
  }
  return out;
}

inline int32_t parse_token(const std::string& field, std::optional<int64_t> token, const ApiLimits& limits) {
  if (!token || *token < 0 || *token >= limits.vocabulary) {
    throw bad_request(field, "must have tokens from 0 to " + std::to_string(limits.vocabulary - 1) +
                                 (token ? ", not " + std::to_string(*token) : ""));
  }
  return static_cast<int32_t>(*token);
}

inline std::vector<std::pair<int32_t, double>> parse_logit_bias(Fields& fields, const ApiLimits& limits) {
  const Json* const value = fields.find("logit_bias");
  if (!value) return {};
  if (!value->object()) fields.reject("logit_bias", "an object of tokens and biases", *value);
  if (std::ssize(*value->object()) > kMostBiases)
    throw bad_request("logit_bias", "must have at most " + std::to_string(kMostBiases) + " members");
  std::vector<std::pair<int32_t, double>> out;
  for (const auto& [name, bias] : *value->object()) {
    int64_t token = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
    const bool is_number = error == std::errc() && end == name.data() + name.size();
    if (!bias.number() || !(std::abs(bias.number()->real) <= 100))
      throw bad_request("logit_bias", "must have numbers from -100 to 100");
    out.emplace_back(parse_token("logit_bias", is_number ? std::optional(token) : std::nullopt, limits),
                     bias.number()->real);
  }
  return out;
}

// The fields that both kinds of requests have.
inline void parse_common(Fields& fields, const ApiLimits& limits, ApiRequest& out) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  out.model = fields.string("model").value_or("");
  out.max_tokens = fields.integer("max_tokens", 1, kMost);
  out.n = fields.integer("n", 1, limits.choices).value_or(1);
  out.stream = fields.boolean("stream", false);
  out.ignore_eos = fields.boolean("ignore_eos", false);
  out.stop = parse_stop(fields);
  if (const auto seed = fields.integer("seed", std::numeric_limits<int64_t>::min(), INT64_MAX))
    out.seed = static_cast<uint64_t>(*seed);
  SamplingOptions& s = out.sampling;
  s.temperature = fields.real("temperature", 0, 2, 1);
  s.top_p = fields.real("top_p", 0, 1, 1);
  s.top_p = std::max(s.top_p, 1e-12);  // 0 stands for the most likely token
  s.top_k = std::max<int64_t>(0, fields.integer("top_k", -1, kMost).value_or(0));  // -1 stands for all
  s.min_p = fields.real("min_p", 0, 1, 0);
  s.repetition_penalty = fields.real("repetition_penalty", 0.01, 100, 1);
  for (const char* const penalty : {"presence_penalty", "frequency_penalty"}) {
    const bool is_zero = fields.real(penalty, -2, 2, 0) == 0;
    fields.require_default(penalty, is_zero, "use repetition_penalty");
  }
  out.logit_bias = parse_logit_bias(fields, limits);
  if (const Json* const options = fields.find("stream_options")) {
    if (!options->object()) fields.reject("stream_options", "an object", *options);
    if (!out.stream) throw bad_request("stream_options", "is allowed only with stream = true");
    Fields inner(*options, "stream_options.");
    out.include_usage = inner.boolean("include_usage", false);
    inner.ignore("include_obfuscation");
    inner.refuse_unknown();
  }
  for (const char* const name : {"user", "metadata", "store", "service_tier", "safety_identifier",
                                 "prompt_cache_key"})  // these do not change the text
    fields.ignore(name);
}

inline Tokens parse_tokens(const Json::Array& numbers, const ApiLimits& limits) {
  Tokens out;
  out.reserve(numbers.size());
  for (const Json& number : numbers) out.push_back(parse_token("prompt", number.integer(), limits));
  return out;
}

inline std::vector<ApiPrompt> parse_prompts(Fields& fields, const ApiLimits& limits) {
  const char* const kRule =
      "a string, an array of strings, an array of tokens, or an array of arrays of tokens";
  const Json* const value = fields.find("prompt");
  if (!value) throw bad_request("prompt", "is missing");
  if (value->string()) return {*value->string()};
  const Json::Array* const several = value->array();
  if (!several || several->empty()) fields.reject("prompt", kRule, *value);
  if (several->front().number()) return {parse_tokens(*several, limits)};
  std::vector<ApiPrompt> out;
  for (const Json& one : *several) {
    if (one.string() && several->front().string())
      out.emplace_back(*one.string());
    else if (one.array() && several->front().array())
      out.emplace_back(parse_tokens(*one.array(), limits));
    else
      throw bad_request("prompt", std::string("must be ") + kRule);
  }
  return out;
}

// The text of a message: a string, or an array of parts {"type": "text", "text": ...}.
inline std::string parse_content(Fields& message) {
  const Json* const value = message.find("content");
  if (!value) throw bad_request(message.path("content"), "is missing");
  if (value->string()) return *value->string();
  if (!value->array()) message.reject("content", "a string or an array of parts", *value);
  std::string out;
  for (const Json& part : *value->array()) {
    const Json *const type = part.find("type"), *const text = part.find("text");
    if (!type || !type->string() || *type->string() != "text" || !text || !text->string())
      throw bad_request(message.path("content"),
                        "must have parts {\"type\": \"text\", \"text\": \"...\"} only");
    out += *text->string();
  }
  return out;
}

inline std::vector<ChatMessage> parse_messages(Fields& fields, const ApiLimits& limits) {
  const Json* const value = fields.find("messages");
  if (!value) throw bad_request("messages", "is missing");
  if (!value->array() || value->array()->empty()) fields.reject("messages", "an array of messages", *value);
  if (value->array()->size() > limits.messages)
    throw bad_request("messages", "must have at most " + std::to_string(limits.messages) + " messages");
  std::vector<ChatMessage> out;
  for (const Json& one : *value->array()) {
    const std::string at = "messages[" + std::to_string(out.size()) + "]";
    if (!one.object()) throw bad_request(at, std::string("must be an object, not ") + one.kind());
    Fields message(one, at + ".");
    std::string role = message.string("role").value_or("");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      throw bad_request(at + ".role", "must be system, developer, user or assistant");
    out.push_back({role, parse_content(message)});
    message.ignore("name");
    message.ignore("refusal");
    for (const char* const name : {"tool_calls", "function_call", "audio"})
      message.require_default(name, false, "this server calls no tools");
    message.refuse_unknown();
  }
  return out;
}

inline void require_choices(const ApiRequest& request, size_t prompts, const ApiLimits& limits) {
  if (static_cast<int64_t>(prompts) <= limits.choices / request.n) return;
  throw bad_request("n", "a request may have at most " + std::to_string(limits.choices) +
                             " texts, and this one has " + std::to_string(prompts) +
                             " prompts with n = " + std::to_string(request.n));
}

inline bool equals(const Json* value, bool wanted) {
  return value && value->boolean() && *value->boolean() == wanted;
}

}  // namespace openai

inline ApiRequest parse_completion(std::string_view body, const ApiLimits& limits) {
  const Json json = openai::parse_body(body, limits);
  openai::Fields fields(json);
  ApiRequest out;
  openai::parse_common(fields, limits, out);
  out.prompts = openai::parse_prompts(fields, limits);
  out.logprobs = fields.integer("logprobs", 0, openai::kMostLogprobs).value_or(-1);
  const Json *const echo = json.find("echo"), *const best_of = json.find("best_of"),
                    *const suffix = json.find("suffix");
  fields.require_default("echo", openai::equals(echo, false), "the answer has the new text only");
  fields.require_default("best_of", best_of && best_of->integer() == out.n, "it must equal n");
  fields.require_default("suffix", suffix && suffix->string() && suffix->string()->empty(),
                         "the text ends where the model ends it");
  fields.refuse_unknown();
  openai::require_choices(out, out.prompts.size(), limits);
  return out;
}

inline ApiRequest parse_chat(std::string_view body, const ApiLimits& limits) {
  const Json json = openai::parse_body(body, limits);
  openai::Fields fields(json);
  ApiRequest out;
  out.chat = true;
  openai::parse_common(fields, limits, out);
  out.messages = openai::parse_messages(fields, limits);
  const auto most = fields.integer("max_completion_tokens", 1, std::numeric_limits<int32_t>::max());
  if (most) out.max_tokens = most;
  const auto top = fields.integer("top_logprobs", 0, openai::kMostLogprobs);
  const bool wanted = fields.boolean("logprobs", false);
  if (top && !wanted) throw bad_request("top_logprobs", "is allowed only with logprobs = true");
  out.logprobs = wanted ? top.value_or(0) : -1;
  const Json* const form = json.find("response_format");
  const Json* const type = form ? form->find("type") : nullptr;
  fields.require_default("response_format", type && type->string() && *type->string() == "text",
                         "the answer is text");
  for (const char* const name :
       {"tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "modalities", "audio"})
    fields.require_default(name, false, "this server calls no tools and writes text only");
  fields.refuse_unknown();
  openai::require_choices(out, 1, limits);
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::serving
