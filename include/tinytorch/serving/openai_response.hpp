// Responses of OpenAI's API: writes completions, chunks of a stream, usage, log probabilities and models.
//
//   const ReplyHead head{.id = "cmpl-1", .created = 1700000000, .model = "gpt2"};
//   whole_reply(head, choices, usage)                             //
//   {"id":"cmpl-1","object":"text_completion",... server_sent_event(text_chunk(head, 0, {.text = "Hello"}))
//   // data: {...}\n\n
//
// Text is valid UTF-8 whatever the model writes: Utf8Pieces replaces each byte that is not part of a
// character by U+FFFD, with the same result however the text is cut into pieces. Source: OpenAI's API
// reference, "Completions" and "Chat"; WHATWG HTML, "Server-sent events".
#pragma once

#include <cmath>
#include <optional>
#include <tinytorch/io/json.hpp>
#include <tinytorch/transformer/generate.hpp>

namespace tinytorch::inline TT_BUILD::serving {

// Turns bytes that arrive in pieces into valid UTF-8. An unfinished character waits for the next piece.
class Utf8Pieces {
 public:
  std::string add(std::string_view piece) {
    waiting_ += piece;
    return take(false);
  }
  std::string finish() { return take(true); }

 private:
  std::string take(bool last);
  std::string waiting_;
};

inline std::string valid_utf8(std::string_view bytes) {
  Utf8Pieces pieces;
  const std::string begin = pieces.add(bytes);
  return begin + pieces.finish();
}

struct ReplyHead {
  std::string id;
  int64_t created;  // seconds since 1970
  std::string model;
  bool chat = false;
};

struct Usage {
  int64_t prompt = 0, completion = 0;  // tokens
};

// A token and its probability. `bytes` is its text, which need not be valid UTF-8.
struct LikelyToken {
  std::string bytes;
  double logprob;  // natural logarithm
};
struct ReplyToken {
  LikelyToken token;
  std::vector<LikelyToken> top{};
  bool silent = false;  // a special token, which is not part of the text
};

// The place of a token in a text.
struct TextPlace {
  int64_t before = 0;   // characters of the text before the token
  Utf8Pieces pieces{};  // what tokens before it have begun of a character
  void pass(const ReplyToken& token);
};

// A choice, or a part of one in a stream.
struct ReplyText {
  std::string text{};  // valid UTF-8
  std::optional<FinishReason> reason{};
  std::optional<std::vector<ReplyToken>> tokens{};  // with log probabilities
  TextPlace place{};                                // of the first of these tokens
};

inline std::string whole_reply(const ReplyHead& head, std::span<const ReplyText> choices, const Usage& usage);
// A chunk of choice `index`. with_role: the first one of a choice of a chat.
inline std::string text_chunk(const ReplyHead& head, int64_t index, const ReplyText& part,
                              bool with_role = false, bool null_usage = false);
inline std::string usage_chunk(const ReplyHead& head, const Usage& usage);
inline std::string server_sent_event(std::string_view json) { return "data: " + std::string(json) + "\n\n"; }
inline constexpr std::string_view kEndOfStream = "data: [DONE]\n\n";

struct ModelCard {
  std::string name;
  int64_t created, context;
};
inline std::string models_reply(std::span<const ModelCard> models);
inline std::string model_reply(const ModelCard& model);

inline const char* finish_name(FinishReason reason) {
  const bool full = reason == FinishReason::max_tokens || reason == FinishReason::context_end;
  return full ? "length" : "stop";
}

// The number of characters (code points) of valid UTF-8.
inline int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

// ---------------------------------------------------------------------------------------------------------

inline std::string Utf8Pieces::take(bool last) {
  std::string out;
  std::string_view rest = waiting_;
  for (;;) {
    const size_t good = find_invalid_utf8(rest);
    out += rest.substr(0, good);
    rest.remove_prefix(good);
    if (rest.empty()) break;
    // The beginning of a character can be completed to one: by the smallest or largest continuation bytes.
    const auto completed_by = [&](const char* more) {
      return find_invalid_utf8(std::string(rest) + more) > rest.size();
    };
    const bool unfinished = rest.size() < 4 && (completed_by("\x80\x80\x80") || completed_by("\xbf\xbf\xbf"));
    if (unfinished && !last) break;
    out += "\xef\xbf\xbd";
    rest.remove_prefix(1);
  }
  waiting_ = std::string(rest);
  return out;
}

inline void TextPlace::pass(const ReplyToken& token) {
  if (!token.silent) before += characters(pieces.add(token.token.bytes));
}

namespace openai {

// A probability of 0 is -9999, as in other servers, because JSON has no infinity.
inline std::string logprob_text(double x) {
  char buffer[32];
  const double shown = std::isfinite(x) ? x : -9999.0;
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, shown).ptr);
}
// The name of a token: its text, or bytes:\xE2\x82 if it is a part of a character.
inline std::string token_name(std::string_view bytes) {
  if (find_invalid_utf8(bytes) == bytes.size()) return std::string(bytes);
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "bytes:";
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    out += {'\\', 'x', kHex[u >> 4], kHex[u & 15]};
  }
  return out;
}

template <class Range, class Write>
std::string json_array(const Range& range, Write&& write) {
  std::string out = "[";
  for (const auto& item : range) out += (out.size() > 1 ? "," : "") + write(item);
  return out + "]";
}

inline std::string chat_token(const LikelyToken& token) {
  return "\"token\":" + to_json_string(token_name(token.bytes)) +
         ",\"logprob\":" + logprob_text(token.logprob) + ",\"bytes\":" +
         json_array(token.bytes, [](char c) { return std::to_string(static_cast<unsigned char>(c)); });
}
inline std::string chat_logprobs(const std::vector<ReplyToken>& tokens) {
  return "{\"content\":" +
         json_array(tokens,
                    [](const ReplyToken& t) {
                      return "{" + chat_token(t.token) + ",\"top_logprobs\":" +
                             json_array(t.top, [](const auto& top) { return "{" + chat_token(top) + "}"; }) +
                             "}";
                    }) +
         ",\"refusal\":null}";
}
// The names of an object must differ, but two tokens may have one name; the more likely one counts.
inline std::string top_object(const std::vector<LikelyToken>& top) {
  std::vector<std::string> names;
  std::string out = "{";
  for (const LikelyToken& t : top) {
    const std::string name = token_name(t.bytes);
    if (std::ranges::find(names, name) != names.end()) continue;
    out += (names.empty() ? "" : ",") + to_json_string(name) + ":" + logprob_text(t.logprob);
    names.push_back(name);
  }
  return out + "}";
}
inline std::string completion_logprobs(const std::vector<ReplyToken>& tokens, TextPlace place) {
  const auto name = [](const ReplyToken& t) { return to_json_string(token_name(t.token.bytes)); };
  const auto start = [&](const ReplyToken& t) {
    const std::string shown = std::to_string(place.before);
    place.pass(t);
    return shown;
  };
  return "{\"tokens\":" + json_array(tokens, name) + ",\"token_logprobs\":" +
         json_array(tokens, [](const ReplyToken& t) { return logprob_text(t.token.logprob); }) +
         ",\"top_logprobs\":" + json_array(tokens, [](const ReplyToken& t) { return top_object(t.top); }) +
         ",\"text_offset\":" + json_array(tokens, start) + "}";
}
inline std::string logprobs_of(const ReplyHead& head, const ReplyText& part) {
  if (!part.tokens) return "null";
  return head.chat ? chat_logprobs(*part.tokens) : completion_logprobs(*part.tokens, part.place);
}
inline std::string tail_of(const ReplyHead& head, const ReplyText& part) {
  return ",\"logprobs\":" + logprobs_of(head, part) +
         ",\"finish_reason\":" + (part.reason ? to_json_string(finish_name(*part.reason)) : "null") + "}";
}
inline std::string begin_reply(const ReplyHead& head, const char* object) {
  return "{\"id\":" + to_json_string(head.id) + ",\"object\":\"" + object +
         "\",\"created\":" + std::to_string(head.created) + ",\"model\":" + to_json_string(head.model) +
         ",\"choices\":";
}
inline std::string usage_text(const Usage& usage) {
  return "{\"prompt_tokens\":" + std::to_string(usage.prompt) +
         ",\"completion_tokens\":" + std::to_string(usage.completion) +
         ",\"total_tokens\":" + std::to_string(usage.prompt + usage.completion) + "}";
}
inline const char* chunk_object(const ReplyHead& head) {
  return head.chat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace openai

inline std::string whole_reply(const ReplyHead& head, std::span<const ReplyText> choices,
                               const Usage& usage) {
  int64_t index = 0;
  const auto choice = [&](const ReplyText& part) {
    const std::string text = to_json_string(part.text);
    return "{\"index\":" + std::to_string(index++) +
           (head.chat ? ",\"message\":{\"role\":\"assistant\",\"content\":" + text + ",\"refusal\":null}"
                      : ",\"text\":" + text) +
           openai::tail_of(head, part);
  };
  return openai::begin_reply(head, head.chat ? "chat.completion" : "text_completion") +
         openai::json_array(choices, choice) + ",\"usage\":" + openai::usage_text(usage) + "}";
}

inline std::string text_chunk(const ReplyHead& head, int64_t index, const ReplyText& part, bool with_role,
                              bool null_usage) {
  const std::string text = to_json_string(part.text);
  std::string content = ",\"text\":" + text;
  if (head.chat) {
    content = std::string(",\"delta\":{") + (with_role ? "\"role\":\"assistant\"," : "") +
              (with_role || !part.text.empty() ? "\"content\":" + text : "") + "}";
  }
  return openai::begin_reply(head, openai::chunk_object(head)) + "[{\"index\":" + std::to_string(index) +
         content + openai::tail_of(head, part) + "]" + (null_usage ? ",\"usage\":null" : "") + "}";
}

inline std::string usage_chunk(const ReplyHead& head, const Usage& usage) {
  return openai::begin_reply(head, openai::chunk_object(head)) + "[],\"usage\":" + openai::usage_text(usage) +
         "}";
}

inline std::string model_reply(const ModelCard& model) {
  return "{\"id\":" + to_json_string(model.name) +
         ",\"object\":\"model\",\"created\":" + std::to_string(model.created) +
         ",\"owned_by\":\"tinytorch\",\"max_model_len\":" + std::to_string(model.context) + "}";
}
inline std::string models_reply(std::span<const ModelCard> models) {
  return "{\"object\":\"list\",\"data\":" + openai::json_array(models, model_reply) + "}";
}

}  // namespace tinytorch::inline TT_BUILD::serving
