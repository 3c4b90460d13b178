// OpenAI's API without sockets: from the body of a request to requests of an engine, and from their texts to
// the bytes of the answer.
//
//   const ServedModel served("gpt2", model, tokenizer, load_chat_format("gpt2"));
//   const ApiRequest request = parse_chat(body, served.limits());
//   std::vector<TextRequest> texts = served.texts(request, seed);
//   Answer answer(served, request, "chatcmpl-1", now, texts);
//   answer.add(news)                                     // events of a stream
//   answer.whole()                                       // or one JSON object, after all texts have ended
//
// Choice j of a prompt has the seed of the request plus j. The concatenated text of a stream is the text of
// the same request without stream, and so are its log probabilities, which come with the text of their
// tokens. A prompt begins with the tokens that the tokenizer puts before a text.
#pragma once

#include <tinytorch/serving/openai_request.hpp>
#include <tinytorch/serving/openai_response.hpp>
#include <tinytorch/serving/service.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct ServedLimits {
  int64_t prompt = 0;           // tokens; 0: the context of the model
  int64_t tokens = 0;           // prompt and answer; 0: the context of the model
  int64_t default_answer = 16;  // tokens of a completion without max_tokens; a chat may fill the context
};

// A model under its name. Model and tokenizer must live as long.
class ServedModel {
 public:
  ServedModel(std::string name, const LanguageModel& model, const Tokenizer& tokenizer, ChatFormat format,
              const ServedLimits& limits = {})
      : name_(std::move(name)),
        model_(model),
        tokenizer_(tokenizer),
        format_(std::move(format)),
        limits_(limits) {
    const int64_t context = model.context();
    if (limits_.tokens <= 0 || limits_.tokens > context) limits_.tokens = context;
    if (limits_.prompt <= 0) limits_.prompt = context;
    if (const auto* const bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer)) {
      for (const auto& [text, token] : bpe->model().specials) silent_.insert(token);
    }
  }

  const std::string& name() const { return name_; }
  ModelCard card(int64_t created) const { return {name_, created, limits_.tokens}; }
  ApiLimits limits() const { return {.vocabulary = model_.vocabulary()}; }

  // A request for each prompt and each of its n choices. Without a seed of its own, the request has
  // `otherwise`. Throws ApiError 404 for another model, and 400 for a prompt that is empty, too long, or has
  // characters without tokens.
  std::vector<TextRequest> texts(const ApiRequest& request, uint64_t otherwise) const;

  // The bytes of a token in a text. Special tokens, and numbers that the tokenizer does not have, have none.
  std::string bytes_of(int32_t token) const { return silent_.contains(token) ? "" : name_of(token); }
  // The bytes of a token, also of a special one.
  std::string name_of(int32_t token) const {
    if (token < 0 || token >= tokenizer_.vocabulary()) return "";
    try {
      return tokenizer_.decode(std::span(&token, 1));
    } catch (const Error&) {  // a gap in the vocabulary
      return "";
    }
  }
  std::string text_of(std::span<const int32_t> tokens) const {
    std::string out;
    for (const int32_t token : tokens) out += bytes_of(token);
    return out;
  }

 private:
  Tokens encode(const ApiPrompt& prompt) const;
  Tokens encode(const std::vector<ChatMessage>& messages) const;
  TextRequest text(const ApiRequest& request, Tokens prompt) const;

  std::string name_;
  const LanguageModel& model_;
  const Tokenizer& tokenizer_;
  ChatFormat format_;
  ServedLimits limits_;
  std::set<int32_t> silent_;
};

// The answer to one request, as its texts grow.
class Answer {
 public:
  Answer(const ServedModel& served, const ApiRequest& request, std::string id, int64_t created,
         std::span<const TextRequest> texts)
      : served_(served),
        head_{std::move(id), created, served.name(), request.chat},
        include_usage_(request.include_usage),
        logprobs_(request.logprobs >= 0),
        choices_(texts.size()) {
    for (size_t i = 0; i < texts.size(); i += static_cast<size_t>(request.n))
      usage_.prompt += std::ssize(texts[i].prompt);
  }

  // The events of the beginning of a stream, of news, and of the end of a stream.
  std::string begin() const;
  std::string add(const ChoiceNews& news);
  std::string end() const {
    return (include_usage_ ? server_sent_event(usage_chunk(head_, usage_)) : "") + std::string(kEndOfStream);
  }
  // An error after the beginning of a stream.
  static std::string broken(const ApiError& error) { return server_sent_event(to_json(error)); }

  // Without a stream: add the end of each text, then ask for the whole answer.
  void keep(const ChoiceNews& news);
  std::string whole() const;
  const Usage& usage() const { return usage_; }

 private:
  struct Choice {
    Utf8Pieces pieces{};
    ReplyText kept{};
    // A stream with log probabilities keeps the tokens whose text was not sent, the place of the first of
    // them, and the number of all tokens so far.
    std::vector<ReplyToken> unsent{};
    TextPlace place{};
    size_t seen = 0;
  };
  ReplyToken reply_token(int32_t token, const TokenLogprobs& logprobs) const;
  std::optional<std::vector<ReplyToken>> tokens_of(const Generated& text) const;
  void see(Choice& c, int32_t token, const TokenLogprobs& logprobs) const {
    c.unsent.push_back(reply_token(token, logprobs));
    ++c.seen;
  }

  const ServedModel& served_;
  ReplyHead head_;
  bool include_usage_, logprobs_;
  std::vector<Choice> choices_;
  Usage usage_;
};

// ---------------------------------------------------------------------------------------------------------

inline Tokens ServedModel::encode(const ApiPrompt& prompt) const {
  if (const Tokens* const tokens = std::get_if<Tokens>(&prompt)) return *tokens;
  Tokens out;
  if (const auto* const bpe = dynamic_cast<const BpeTokenizer*>(&tokenizer_)) out = bpe->model().before;
  const Tokens text = tokenizer_.encode(std::get<std::string>(prompt));
  out.insert(out.end(), text.begin(), text.end());
  return out;
}
inline Tokens ServedModel::encode(const std::vector<ChatMessage>& messages) const {
  return encode_parts(tokenizer_, render_chat(format_, messages));
}

inline TextRequest ServedModel::text(const ApiRequest& request, Tokens prompt) const {
  const char* const field = request.chat ? "messages" : "prompt";
  const int64_t given = std::ssize(prompt), room = limits_.tokens - given;
  if (given == 0) throw bad_request(field, "is empty; it must have at least one token");
  if (given > limits_.prompt || room < 1) {
    throw bad_request(field,
                      "has " + std::to_string(given) + " tokens; this server takes at most " +
                          std::to_string(std::min(limits_.prompt, limits_.tokens - 1)),
                      "context_length_exceeded");
  }
  if (request.max_tokens.value_or(1) > room) {
    throw bad_request("max_tokens",
                      std::to_string(*request.max_tokens) + " after a prompt of " + std::to_string(given) +
                          " tokens is more than the context of " + std::to_string(limits_.tokens),
                      "context_length_exceeded");
  }
  const int64_t otherwise = request.chat ? room : std::min(room, limits_.default_answer);
  TextRequest out;
  out.prompt = std::move(prompt);
  GenerateOptions& o = out.options;
  o.max_tokens = request.max_tokens.value_or(otherwise);
  o.sampling = request.sampling;
  o.logit_bias = request.logit_bias;
  o.logprobs = request.logprobs;
  o.at_context_end = GenerateOptions::ContextEnd::stop;
  o.stop = request.stop;
  o.decode = [this](std::span<const int32_t> tokens) { return text_of(tokens); };
  o.end_tokens.emplace();
  if (!request.ignore_eos) {
    o.end_tokens = model_.end_tokens();
    if (request.chat) {
      for (const int64_t token : chat_end_tokens(format_, tokenizer_)) o.end_tokens->push_back(token);
      for (const std::string& stop : chat_stops(format_)) o.stop.push_back(stop);
    }
  }
  return out;
}

inline std::vector<TextRequest> ServedModel::texts(const ApiRequest& request, uint64_t otherwise) const {
  if (!request.model.empty() && request.model != name_) {
    throw ApiError(
        404, "the model " + io::in_quotes(request.model) + " is not here; this server has '" + name_ + "'",
        "invalid_request_error", "model", "model_not_found");
  }
  std::vector<TextRequest> out;
  const auto add = [&](Tokens prompt) {
    const TextRequest first = text(request, std::move(prompt));
    for (int64_t j = 0; j < request.n; ++j) {
      out.push_back(first);
      out.back().options.seed = request.seed.value_or(otherwise) + static_cast<uint64_t>(j);
    }
  };
  try {
    if (request.chat) add(encode(request.messages));
    for (const ApiPrompt& prompt : request.prompts) add(encode(prompt));
  } catch (const Error& error) {  // a character without a token, or roles in a wrong order
    throw bad_request(request.chat ? "messages" : "prompt", brief_text(error), error.code());
  }
  return out;
}

inline std::string Answer::begin() const {
  std::string out;
  for (size_t i = 0; head_.chat && i < choices_.size(); ++i)
    out += server_sent_event(text_chunk(head_, static_cast<int64_t>(i), {}, true, include_usage_));
  return out;
}

inline std::string Answer::add(const ChoiceNews& news) {
  Choice& c = choices_[news.choice];
  ReplyText part{.text = c.pieces.add(news.text)};
  for (size_t i = 0; i < news.logprobs.size(); ++i) see(c, news.tokens[i], news.logprobs[i]);
  if (news.ended) {
    part.text += c.pieces.finish();
    part.reason = news.result.reason;
    for (size_t i = c.seen; i < news.result.logprobs.size(); ++i)
      see(c, news.result.tokens[i], news.result.logprobs[i]);
    usage_.completion += std::ssize(news.result.tokens);
  }
  if (part.text.empty() && !news.ended) return "";
  if (logprobs_) {
    part.place = c.place;
    for (const ReplyToken& token : c.unsent) c.place.pass(token);
    part.tokens = std::exchange(c.unsent, {});
  }
  return server_sent_event(text_chunk(head_, static_cast<int64_t>(news.choice), part, false, include_usage_));
}

inline void Answer::keep(const ChoiceNews& news) {
  if (!news.ended) return;
  choices_[news.choice].kept = {
      .text = valid_utf8(news.result.text), .reason = news.result.reason, .tokens = tokens_of(news.result)};
  usage_.completion += std::ssize(news.result.tokens);
}
inline std::string Answer::whole() const {
  std::vector<ReplyText> texts;
  for (const Choice& c : choices_) texts.push_back(c.kept);
  return whole_reply(head_, texts, usage_);
}

inline std::optional<std::vector<ReplyToken>> Answer::tokens_of(const Generated& text) const {
  if (!logprobs_) return std::nullopt;
  std::vector<ReplyToken> out;
  for (size_t i = 0; i < text.logprobs.size(); ++i)
    out.push_back(reply_token(text.tokens[i], text.logprobs[i]));
  return out;
}
inline ReplyToken Answer::reply_token(int32_t token, const TokenLogprobs& logprobs) const {
  ReplyToken out{.token = {served_.name_of(token), logprobs.own}, .silent = served_.bytes_of(token).empty()};
  for (const auto& [other, logprob] : logprobs.top) out.top.push_back({served_.name_of(other), logprob});
  return out;
}

}  // namespace tinytorch::inline TT_BUILD::serving
