#include <tinytorch/serving/openai_request.hpp>

#include <support/errors.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinytorch;
using namespace tinytorch::serving;

namespace {

// The error that a body gives; status 0 if there is none.
struct Refused {
  int status = 0;
  std::string param, message;
};
Refused refused(const std::string& body, bool chat, const ApiLimits& limits = {.vocabulary = 100}) {
  try {
    chat ? parse_chat(body, limits) : parse_completion(body, limits);
  } catch (const ApiError& error) {
    return {error.status, error.param, error.message};
  }
  return {};
}
// A body with one more field.
std::string with(const std::string& field, bool chat) {
  return (chat ? R"({"messages":[{"role":"user","content":"a"}],)" : R"({"prompt":"a",)") + field + "}";
}
void check_refused(const std::string& field, const std::string& param, bool chat) {
  const Refused r = refused(with(field, chat), chat);
  CAPTURE(field);
  CAPTURE(r.message);
  CHECK(r.status == 400);
  CHECK(r.param == param);
}

constexpr const char* kFull =
    R"({"model":"m","prompt":["a","b"],"max_tokens":7,"temperature":0.5,"top_p":0.9,"n":2,"stream":true,)"
    R"("stream_options":{"include_usage":true},"stop":["x","yz"],"seed":-3,"logprobs":2,)"
    R"("logit_bias":{"5":-100,"7":1.5},"presence_penalty":0,"frequency_penalty":0.0,"echo":false,"best_of":2,)"
    R"("suffix":null,"user":"u","ignore_eos":true,"top_k":40,"min_p":0.1,"repetition_penalty":1.2})";
constexpr const char* kChat =
    R"({"model":"m","messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text",)"
    R"("text":"a"},{"type":"text","text":"b"}],"name":"n"},{"role":"assistant","content":"c"}],)"
    R"("max_completion_tokens":9,"max_tokens":3,"logprobs":true,"top_logprobs":4,"stop":"z","seed":12,)"
    R"("response_format":{"type":"text"},"stream":false,"metadata":{"a":"b"}})";

}  // namespace

TEST_CASE("a full completion request is read") {
  const ApiRequest r = parse_completion(kFull, {.vocabulary = 100});
  CHECK_FALSE(r.chat);
  CHECK(r.model == "m");
  CHECK(r.prompts == std::vector<ApiPrompt>{"a", "b"});
  CHECK(r.max_tokens == 7);
  CHECK(r.n == 2);
  CHECK(r.stream);
  CHECK(r.include_usage);
  CHECK(r.ignore_eos);
  CHECK(r.stop == std::vector<std::string>{"x", "yz"});
  CHECK(r.seed == static_cast<uint64_t>(-3));
  CHECK(r.logprobs == 2);
  CHECK(r.sampling.temperature == 0.5);
  CHECK(r.sampling.top_p == 0.9);
  CHECK(r.sampling.top_k == 40);
  CHECK(r.sampling.min_p == 0.1);
  CHECK(r.sampling.repetition_penalty == 1.2);
  CHECK(r.logit_bias == std::vector<std::pair<int32_t, double>>{{5, -100}, {7, 1.5}});
}

TEST_CASE("a full chat request is read") {
  const ApiRequest r = parse_chat(kChat, {.vocabulary = 100});
  CHECK(r.chat);
  REQUIRE(r.messages.size() == 3);
  CHECK(r.messages[0].role == "system");
  CHECK(r.messages[1].content == "ab");
  CHECK(r.messages[2].role == "assistant");
  CHECK(r.max_tokens == 9);
  CHECK(r.logprobs == 4);
  CHECK(r.stop == std::vector<std::string>{"z"});
  CHECK(r.seed == 12);
}

TEST_CASE("defaults, and null for an absent field") {
  for (const char* body :
       {R"({"prompt":"a"})", R"({"prompt":"a","n":null,"stop":null,"stream":null,"seed":null})"}) {
    const ApiRequest r = parse_completion(body);
    CHECK(r.n == 1);
    CHECK_FALSE(r.max_tokens);
    CHECK_FALSE(r.stream);
    CHECK_FALSE(r.seed);
    CHECK(r.logprobs == -1);
    CHECK(r.sampling.temperature == 1);
    CHECK(r.sampling.top_k == 0);
    CHECK(r.model.empty());
  }
}

TEST_CASE("all four forms of a prompt") {
  const ApiLimits limits{.vocabulary = 10};
  const auto prompts = [&](const std::string& p) {
    return parse_completion("{\"prompt\":" + p + "}", limits).prompts;
  };
  CHECK(prompts(R"("")") == std::vector<ApiPrompt>{""});
  CHECK(prompts(R"(["a","b"])") == std::vector<ApiPrompt>{"a", "b"});
  CHECK(prompts("[1,2,9]") == std::vector<ApiPrompt>{Tokens{1, 2, 9}});
  CHECK(prompts("[[1],[2,0]]") == std::vector<ApiPrompt>{Tokens{1}, Tokens{2, 0}});
  for (const char* bad : {"[]", "3", "{}", "true", R"(["a",1])", R"([1,"a"])", "[[1],2]", "[[1],\"a\"]",
                          "[10]", "[-1]", "[1.5]", "[[[1]]]", "[null]", "[99999999999999999999]", "[{}]"}) {
    const Refused r = refused("{\"prompt\":" + std::string(bad) + "}", false, limits);
    CAPTURE(bad);
    CHECK(r.status == 400);
    CHECK(r.param == "prompt");
  }
}

TEST_CASE("a wrong value names its field") {
  for (const bool chat : {false, true}) {
    for (const char* field :
         {"max_tokens", "n", "seed", "top_k", "temperature", "top_p", "min_p", "repetition_penalty"}) {
      for (const char* value : {"\"1\"", "true", "[]", "{}", "1e300", "-1e9", "0x1"})
        if (value != std::string("0x1"))
          check_refused("\"" + std::string(field) + "\":" + value, field, chat);
    }
    for (const char* field : {"max_tokens", "n", "seed", "top_k"})
      check_refused("\"" + std::string(field) + "\":1.5", field, chat);
    for (const char* field : {"stream", "ignore_eos"})
      for (const char* value : {"1", "\"true\"", "[]"})
        check_refused("\"" + std::string(field) + "\":" + value, field, chat);
    check_refused(R"("max_tokens":0)", "max_tokens", chat);
    check_refused(R"("n":0)", "n", chat);
    check_refused(R"("n":129)", "n", chat);
    check_refused(R"("temperature":2.01)", "temperature", chat);
    check_refused(R"("top_p":-0.1)", "top_p", chat);
    check_refused(R"("repetition_penalty":0)", "repetition_penalty", chat);
    check_refused(R"("model":3)", "model", chat);
    for (const char* stop : {"3", "[1]", "\"\"", "[\"\"]", R"(["1","2","3","4","5"])", "{}"})
      check_refused("\"stop\":" + std::string(stop), "stop", chat);
    check_refused("\"stop\":\"" + std::string(1001, 'x') + "\"", "stop", chat);
    for (const char* bias : {"[]", "3", R"({"a":1})", R"({"100":1})", R"({"-1":1})", R"({"1":101})",
                             R"({"1":"2"})", R"({"":1})", R"({"1 ":1})", R"({"99999999999999999999":1})"})
      check_refused("\"logit_bias\":" + std::string(bias), "logit_bias", chat);
    check_refused(R"("presence_penalty":0.5)", "presence_penalty", chat);
    check_refused(R"("frequency_penalty":-1)", "frequency_penalty", chat);
    check_refused(R"("stream_options":{"include_usage":true})", "stream_options", chat);
    check_refused(R"("stream":true,"stream_options":3)", "stream_options", chat);
    check_refused(R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage",
                  chat);
    check_refused(R"("stream":true,"stream_options":{"other":1})", "stream_options.other", chat);
    check_refused(R"("temprature":1)", "temprature", chat);
  }
  check_refused(R"("echo":true)", "echo", false);
  check_refused(R"("echo":1)", "echo", false);
  check_refused(R"("suffix":"a")", "suffix", false);
  check_refused(R"("best_of":3)", "best_of", false);
  check_refused(R"("logprobs":21)", "logprobs", false);
  check_refused(R"("logprobs":true)", "logprobs", false);
  check_refused(R"("logprobs":3)", "logprobs", true);
  check_refused(R"("top_logprobs":3)", "top_logprobs", true);
  check_refused(R"("tools":[])", "tools", true);
  check_refused(R"("response_format":{"type":"json_object"})", "response_format", true);
}

TEST_CASE("wrong messages name their place") {
  const auto param = [](const std::string& messages) {
    return refused("{\"messages\":" + messages + "}", true).param;
  };
  CHECK(refused("{}", true).param == "messages");
  CHECK(refused("{}", false).param == "prompt");
  for (const char* bad : {"[]", "3", "\"a\"", "{}"}) CHECK(param(bad) == "messages");
  CHECK(param("[3]") == "messages[0]");
  CHECK(param(R"([{"content":"a"}])") == "messages[0].role");
  CHECK(param(R"([{"role":"user","content":"a"},{"role":"tool","content":"a"}])") == "messages[1].role");
  CHECK(param(R"([{"role":"user"}])") == "messages[0].content");
  CHECK(param(R"([{"role":"user","content":3}])") == "messages[0].content");
  CHECK(param(R"([{"role":"user","content":[{"type":"image_url"}]}])") == "messages[0].content");
  CHECK(param(R"([{"role":"user","content":["a"]}])") == "messages[0].content");
  CHECK(param(R"([{"role":"assistant","content":"a","tool_calls":[]}])") == "messages[0].tool_calls");
  CHECK(param(R"([{"role":"user","content":"a","colour":"red"}])") == "messages[0].colour");
}

TEST_CASE("prompts times n are limited") {
  CHECK(refused(R"({"prompt":["a","b","c"],"n":43})", false).param == "n");
  CHECK(refused(R"({"prompt":["a","b","c"],"n":42})", false).status == 0);
}

TEST_CASE("what is no JSON object, too deep, too large, or no UTF-8 is refused") {
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("\"a\""),
        std::string("{}x"), std::string("{\"prompt\":\"a\",}"), std::string("{\"prompt\":\"\xff\"}"),
        std::string("{\"prompt\":\"\\ud800\"}"), std::string("{\"prompt\":1e999}"),
        std::string("{\"prompt\":NaN}"), std::string("\0\0", 2),
        std::string("{\"prompt\":\"a\",\"prompt\":\"b\"}"), "{\"prompt\":" + std::string(100000, '[') + "}",
        "{\"prompt\":" + std::string(100000, '[') + std::string(100000, ']') + "}",
        "{\"prompt\":\"" + std::string(1 << 21, 'a') + "\"}"}) {
    for (const bool chat : {false, true}) {
      const Refused r = refused(body, chat);
      CAPTURE(body.substr(0, 40));
      CHECK(r.status == 400);
      CHECK(find_invalid_utf8(r.message) == r.message.size());
      CHECK(r.message.size() < 400);
    }
  }
  std::string many = "{\"prompt\":[0";
  for (int i = 0; i < 300000; ++i) many += ",0";
  CHECK(refused(many + "]}", false, {.vocabulary = 100, .bytes = 1 << 24}).status == 400);
  std::string long_chat = "{\"messages\":[";
  for (int i = 0; i < 5000; ++i) long_chat += std::string(i ? "," : "") + R"({"role":"user","content":"a"})";
  CHECK(refused(long_chat + "]}", true).param == "messages");
}

TEST_CASE("bodies with random changes give a request or status 400, and never anything else") {
  Generator random(5);
  const auto below = [&](size_t n) { return static_cast<size_t>(random.uniform(0, static_cast<double>(n))); };
  const std::string pieces[] = {"null",
                                "-1",
                                "1e400",
                                "\"",
                                "{}",
                                "[]",
                                "[[[[",
                                "\\u0000",
                                "\xc3",
                                "\xed\xa0\x80",
                                "true",
                                "0.5",
                                ",",
                                ":",
                                "}",
                                "]",
                                "99999999999999999999999",
                                "\"stream\":"};
  size_t good = 0, bad = 0;
  for (int round = 0; round < 6000; ++round) {
    const bool chat = round % 2 == 1;
    std::string body = chat ? kChat : kFull;
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      const size_t at = below(body.size());
      switch (below(4)) {
        case 0:
          body[at] = static_cast<char>(below(256));
          break;
        case 1:
          body.erase(at, 1 + below(12));
          break;
        case 2:
          body.insert(at, pieces[below(std::size(pieces))]);
          break;
        default:
          body.replace(at, std::min<size_t>(below(8), body.size() - at), pieces[below(std::size(pieces))]);
      }
      if (body.empty()) body = " ";
    }
    try {
      chat ? parse_chat(body, {.vocabulary = 100}) : parse_completion(body, {.vocabulary = 100});
      ++good;
    } catch (const ApiError& error) {
      ++bad;
      REQUIRE(error.status == 400);
      REQUIRE_NOTHROW(parse_json(as_bytes(to_json(error))));
    }
  }
  CHECK(good > 20);
  CHECK(bad > 3000);
}
