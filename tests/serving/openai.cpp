#include <tinytorch/serving/openai.hpp>

#include <support/errors.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>
#include <tinytorch/transformer/gpt2.hpp>

using namespace tinytorch;
using namespace tinytorch::serving;

namespace {

constexpr int64_t kContext = 64;

struct Scene {
  BpeTokenizer tokenizer{
      train_bpe("", {.vocabulary = 259, .specials = {"<|im_start|>", "<|im_end|>", "<end>"}})};
  std::unique_ptr<Gpt2> model;
  Scene() {
    manual_seed(7);
    model = std::make_unique<Gpt2>(Gpt2Config{.vocabulary = 262,  // three rows more than the tokenizer has
                                              .context = kContext,
                                              .features = 16,
                                              .layers = 1,
                                              .heads = 2,
                                              .embedding_dropout = 0,
                                              .attention_dropout = 0,
                                              .residual_dropout = 0,
                                              .deviation = 0.3,
                                              .end_tokens = {tokenizer.special("<end>")}});
    model->eval();
  }
  ServedModel served(ServedLimits limits = {}) const {
    return {"tiny", *model, tokenizer, chat_format_named("chatml"), limits};
  }
};

std::vector<TextRequest> texts(const ServedModel& served, const std::string& body, bool chat = false,
                               uint64_t seed = 9) {
  return served.texts(chat ? parse_chat(body, served.limits()) : parse_completion(body, served.limits()),
                      seed);
}
ApiError refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const ApiError& error) {
    return error;
  }
  return {0, "nothing was thrown", ""};
}
// The data of the events of a stream.
std::vector<Json> events_of(std::string_view stream) {
  std::vector<Json> out;
  while (!stream.empty()) {
    REQUIRE(stream.starts_with("data: "));
    const size_t end = stream.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    const std::string_view data = stream.substr(6, end - 6);
    if (data == "[DONE]") {
      CHECK(stream.size() == end + 2);
    } else {
      out.push_back(parse_json(as_bytes(data)));
    }
    stream.remove_prefix(end + 2);
  }
  return out;
}
const Json& at(const Json& json, std::string_view name) {
  const Json* const found = json.find(name);
  REQUIRE_MESSAGE(found, name);
  return *found;
}
// A value as text, for comparison.
std::string shown(const Json& json) {
  std::string out;
  if (json.array()) {
    for (const Json& item : *json.array()) out += shown(item) + ",";
    return "[" + out + "]";
  }
  if (json.object()) {
    for (const auto& [name, value] : *json.object()) out += name + ":" + shown(value) + ",";
    return "{" + out + "}";
  }
  if (json.string()) return to_json_string(*json.string());
  return json.number() ? std::to_string(json.number()->real) : "null";
}
std::string string_of(const Json* json) { return json && json->string() ? *json->string() : ""; }

}  // namespace

TEST_CASE("a request for each prompt and each choice, with seeds that count up") {
  const Scene scene;
  const ServedModel served = scene.served();
  const auto r =
      texts(served, R"({"prompt":["ab","c"],"n":2,"max_tokens":5,"seed":40,"stop":"x","temperature":0.5})");
  REQUIRE(r.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(r[i].prompt == scene.tokenizer.encode(i < 2 ? "ab" : "c"));
    CHECK(r[i].options.seed == 40 + i % 2);
    CHECK(r[i].options.max_tokens == 5);
    CHECK(r[i].options.sampling.temperature == 0.5);
    CHECK(r[i].options.stop == std::vector<std::string>{"x"});
    CHECK(r[i].options.at_context_end == GenerateOptions::ContextEnd::stop);
    CHECK(r[i].options.end_tokens == std::vector<int64_t>{scene.tokenizer.special("<end>")});
  }
  CHECK(texts(served, R"({"prompt":"a"})")[0].options.seed == 9);
  CHECK(texts(served, R"({"prompt":[3,1]})")[0].prompt == Tokens{3, 1});
  CHECK(texts(served, R"({"prompt":"a","ignore_eos":true})")[0].options.end_tokens == std::vector<int64_t>{});
}

TEST_CASE("a chat has the prompt of its template, and its end tokens") {
  const Scene scene;
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}]})";
  const auto r = texts(scene.served(), body, true);
  REQUIRE(r.size() == 1);
  CHECK(scene.tokenizer.decode(r[0].prompt) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  CHECK(r[0].options.end_tokens ==
        std::vector<int64_t>{scene.tokenizer.special("<end>"), scene.tokenizer.special("<|im_end|>")});
  CHECK(r[0].options.max_tokens == kContext - std::ssize(r[0].prompt));
}

TEST_CASE("tokens before a text are part of a prompt, except if it is given as tokens") {
  Scene scene;
  BpeModel model = scene.tokenizer.model();
  model.before = {scene.tokenizer.special("<end>")};
  const BpeTokenizer tokenizer(model);
  const ServedModel served("tiny", *scene.model, tokenizer, {});
  CHECK(texts(served, R"({"prompt":"a"})")[0].prompt.front() == scene.tokenizer.special("<end>"));
  CHECK(texts(served, R"({"prompt":""})")[0].prompt.size() == 1);
  CHECK(texts(served, R"({"prompt":[5]})")[0].prompt == Tokens{5});
}

TEST_CASE("what this server cannot write is refused") {
  const Scene scene;
  const ServedModel served = scene.served({.prompt = 20, .tokens = 40});
  const auto refused = [&](const std::string& body, bool chat = false) {
    return refusal([&] { texts(served, body, chat); });
  };
  const auto prompt_of = [](int n) {
    return "\"prompt\":\"" + std::string(static_cast<size_t>(n), 'a') + "\"";
  };
  CHECK(refused(R"({"prompt":"a","model":"other"})").status == 404);
  CHECK(refused(R"({"prompt":"a","model":"other"})").code == "model_not_found");
  CHECK(refused(R"({"prompt":"a","model":"tiny"})").status == 0);
  CHECK(refused(R"({"prompt":""})").param == "prompt");
  CHECK(refused("{" + prompt_of(21) + "}").code == "context_length_exceeded");
  CHECK(refused("{" + prompt_of(20) + "}").status == 0);
  CHECK(refused("{" + prompt_of(20) + ",\"max_tokens\":21}").param == "max_tokens");
  CHECK(refused("{" + prompt_of(20) + ",\"max_tokens\":20}").status == 0);
  CHECK(refused(R"({"prompt":[300]})").param == "prompt");
  CHECK(texts(served, "{" + prompt_of(20) + "}")[0].options.max_tokens == 16);
  CHECK(texts(scene.served(), "{" + prompt_of(60) + "}")[0].options.max_tokens == 4);

  const CharTokenizer characters = CharTokenizer::from_text("abc");
  const ServedModel few("few", *scene.model, characters, chat_format_named("mistral"));
  const ApiError unknown = refusal([&] { texts(few, R"({"prompt":"abx"})"); });
  CHECK(unknown.status == 400);
  CHECK(unknown.message.find("at byte 2") != std::string::npos);
  const ApiError roles =
      refusal([&] { texts(few, R"({"messages":[{"role":"assistant","content":"a"}]})", true); });
  CHECK(roles.status == 400);
  CHECK(roles.param == "messages");
}

TEST_CASE("tokens without text are silent, and decoding never fails") {
  const Scene scene;
  const ServedModel served = scene.served();
  Tokens all{-5, 1 << 30};
  for (int32_t t = 0; t < 262; ++t) all.push_back(t);
  CHECK(served.text_of(all).size() == 256);
  CHECK(served.bytes_of(scene.tokenizer.special("<|im_end|>")).empty());
}

// The texts come from generate(), in the pieces in which it passes them on.
TEST_CASE("the text of a stream is the text without a stream, with all bytes, stops and choices") {
  const Scene scene;
  const ServedModel served = scene.served();
  size_t stopped = 0, replaced = 0;
  for (int round = 0; round < 60; ++round) {
    const bool chat = round % 2 == 1;
    const std::string common = R"("n":2,"max_tokens":20,"seed":)" + std::to_string(round) +
                               R"(,"stop":["e","st"],"stream":true,"stream_options":{"include_usage":true}})";
    const std::string body =
        (chat ? R"({"messages":[{"role":"user","content":"hi"}],)" : R"({"prompt":"ab",)") + common;
    const ApiRequest request =
        chat ? parse_chat(body, served.limits()) : parse_completion(body, served.limits());
    auto requests = served.texts(request, 0);
    Answer stream(served, request, "s", 1, requests), whole(served, request, "s", 1, requests);
    std::string events = stream.begin();
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].options.on_token = [&](int32_t, std::string_view piece) {
        events += stream.add({.choice = i, .text = std::string(piece)});
        return true;
      };
      const ChoiceNews end{.choice = i,
                           .ended = true,
                           .result = generate(*scene.model, requests[i].prompt, requests[i].options)};
      events += stream.add(end);
      whole.keep(end);
      stopped += end.result.reason == FinishReason::stop_text;
    }
    events += stream.end();
    CHECK(events.ends_with("data: [DONE]\n\n"));
    std::vector<std::string> streamed(2), reasons(2);
    const std::vector<Json> all = events_of(events);
    for (size_t e = 0; e + 1 < all.size(); ++e) {
      CHECK(at(all[e], "usage").is_null());
      const Json& c = at(all[e], "choices").array()->at(0);
      const auto i = static_cast<size_t>(*at(c, "index").integer());
      streamed[i] += chat ? string_of(at(c, "delta").find("content")) : string_of(&at(c, "text"));
      reasons[i] += string_of(&at(c, "finish_reason"));
    }
    const Json json = parse_json(as_bytes(whole.whole()));
    for (size_t i = 0; i < 2; ++i) {
      const Json& c = at(json, "choices").array()->at(i);
      const std::string text = string_of(chat ? &at(at(c, "message"), "content") : &at(c, "text"));
      CHECK(streamed[i] == text);
      CHECK(reasons[i] == string_of(&at(c, "finish_reason")));
      replaced += text.find("\xef\xbf\xbd") != std::string::npos;
    }
    const Json &streamed_usage = at(all.back(), "usage"), &usage = at(json, "usage");
    for (const char* name : {"prompt_tokens", "completion_tokens", "total_tokens"})
      CHECK(at(streamed_usage, name).integer() == at(usage, name).integer());
    CHECK(at(usage, "prompt_tokens").integer() ==
          std::ssize(requests[0].prompt));  // once, not for each choice
  }
  CHECK(stopped > 0);
  CHECK(replaced > 0);
}

TEST_CASE("log probabilities are those of the model, with the bytes of the tokens") {
  const Scene scene;
  const ServedModel served = scene.served();
  const ApiRequest request = parse_completion(
      R"({"prompt":"ab","max_tokens":6,"logprobs":3,"temperature":0,"ignore_eos":true,"logit_bias":{"70":-100}})",
      served.limits());
  const auto requests = served.texts(request, 0);
  CHECK(requests[0].options.logit_bias == request.logit_bias);
  const Generated text = generate(*scene.model, requests[0].prompt, requests[0].options);
  Answer answer(served, request, "s", 1, requests);
  answer.keep({.choice = 0, .ended = true, .result = text});
  const Json json = parse_json(as_bytes(answer.whole()));
  const Json& logprobs = at(at(json, "choices").array()->at(0), "logprobs");
  REQUIRE(at(logprobs, "tokens").array()->size() == 6);
  Tokens all = requests[0].prompt;
  for (size_t i = 0; i < 6; ++i) {
    const NoGrad no_grad;
    const std::vector<int64_t> ids(all.begin(), all.end());
    const Tensor x = scene.model->features(from_data(ids, {1, std::ssize(ids)})).select(1, -1);
    const std::vector<double> logits = scene.model->head(x).select(0, 0).to_vector<double>();
    double sum = 0;
    for (const double l : logits) sum += std::exp(l);
    const double expected = logits[static_cast<size_t>(text.tokens[i])] - std::log(sum);
    CHECK(at(logprobs, "token_logprobs").array()->at(i).number()->real ==
          doctest::Approx(expected).epsilon(1e-5));
    CHECK(at(logprobs, "top_logprobs").array()->at(i).object()->size() == 3);
    all.push_back(text.tokens[i]);
  }
}

// Each chunk has the tokens whose text it completes; the chunks together have all that the whole has.
TEST_CASE("the log probabilities of a stream come with the text of their tokens") {
  const Scene scene;
  const ServedModel served = scene.served();
  size_t early = 0, several = 0, stopped = 0;
  for (int round = 0; round < 40; ++round) {
    const bool chat = round % 2 == 1;
    const std::string common = R"("n":2,"max_tokens":20,"stop":["e","st"],"stream":true,"seed":)" +
                               std::to_string(round) +
                               (chat ? R"(,"logprobs":true,"top_logprobs":2})" : R"(,"logprobs":2})");
    const std::string body =
        (chat ? R"({"messages":[{"role":"user","content":"hi"}],)" : R"({"prompt":"ab",)") + common;
    const ApiRequest request =
        chat ? parse_chat(body, served.limits()) : parse_completion(body, served.limits());
    auto requests = served.texts(request, 0);
    Answer stream(served, request, "s", 1, requests), whole(served, request, "s", 1, requests);
    std::string events;
    for (size_t i = 0; i < requests.size(); ++i) {
      ChoiceNews news{.choice = i};
      requests[i].options.on_logprobs = [&](int32_t token, const TokenLogprobs& logprobs) {
        news.tokens.push_back(token), news.logprobs.push_back(logprobs);
      };
      requests[i].options.on_token = [&](int32_t, std::string_view piece) {
        news.text = piece;
        if (piece.empty() && round % 4 < 2) return true;  // as a service, which waits for text
        events += stream.add(std::exchange(news, {.choice = i}));
        return true;
      };
      ChoiceNews end{.choice = i};
      end.result = generate(*scene.model, requests[i].prompt, requests[i].options);
      end.ended = true, end.tokens = news.tokens, end.logprobs = news.logprobs;
      stopped += end.result.reason == FinishReason::stop_text;
      events += stream.add(end);
      whole.keep(end);
    }
    // These are the lists of the log probabilities of each choice, joined.
    const std::vector<const char*> names =
        chat ? std::vector{"content"}
             : std::vector{"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    std::vector<std::vector<std::string>> joined(2, std::vector<std::string>(names.size()));
    for (const Json& event : events_of(events)) {
      const Json& c = at(event, "choices").array()->at(0);
      const auto i = static_cast<size_t>(*at(c, "index").integer());
      for (size_t n = 0; n < names.size(); ++n) {
        const auto& items = *at(at(c, "logprobs"), names[n]).array();
        for (const Json& item : items) joined[i][n] += shown(item) + "\n";
        early += n == 0 && !items.empty() && at(c, "finish_reason").is_null();
        several += n == 0 && items.size() > 1;
      }
    }
    const Json json = parse_json(as_bytes(whole.whole()));
    for (size_t i = 0; i < 2; ++i) {
      const Json& logprobs = at(at(json, "choices").array()->at(i), "logprobs");
      for (size_t n = 0; n < names.size(); ++n) {
        std::string all;
        for (const Json& item : *at(logprobs, names[n]).array()) all += shown(item) + "\n";
        CHECK(joined[i][n] == all);
      }
    }
  }
  CHECK(early > 200);
  CHECK(several > 0);
  CHECK(stopped > 0);
}

TEST_CASE("an error after the beginning of a stream is an event") {
  const std::string event = Answer::broken({504, "too long", "server_error", "", "timeout"});
  CHECK(*at(at(events_of(event)[0], "error"), "code").string() == "timeout");
}
