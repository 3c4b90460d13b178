#include <tinytorch/serving/openai_response.hpp>

#include <support/errors.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinytorch;
using namespace tinytorch::serving;

namespace {

const ReplyHead kText{.id = "cmpl-1", .created = 17, .model = "m"}, kChat{"chatcmpl-1", 17, "m", true};

Json parsed(const std::string& text) { return parse_json(as_bytes(text)); }
const Json& at(const Json& json, std::string_view name) {
  const Json* const found = json.find(name);
  REQUIRE_MESSAGE(found, name);
  return *found;
}
const Json& choice(const Json& json, size_t i = 0) { return at(json, "choices").array()->at(i); }

// Replaces, by the definition, each byte that begins no character.
std::string replaced(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    size_t length = 0;
    for (size_t n = 1; n <= 4 && i + n <= bytes.size() && length == 0; ++n)
      if (find_invalid_utf8(bytes.substr(i, n)) == n) length = n;
    out += length ? std::string(bytes.substr(i, length)) : "\xef\xbf\xbd";
    i += std::max<size_t>(1, length);
  }
  return out;
}

}  // namespace

TEST_CASE("text in pieces is the valid UTF-8 of the whole, wherever it is cut") {
  Generator random(3);
  const auto below = [&](size_t n) { return static_cast<size_t>(random.uniform(0, static_cast<double>(n))); };
  const std::string parts[] = {
      "a",    "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff",         "\x80",
      "\xe2", "\xe2\x82", "\xf0\x9f\x98", "\xed\xa0\x80",     "\xf4\x90\x80", "\xc0\xaf",
      "\xe0", "\xf0",     "\xed"};
  for (int round = 0; round < 3000; ++round) {
    std::string whole, joined;
    for (size_t n = below(12); n > 0; --n) whole += parts[below(std::size(parts))];
    Utf8Pieces pieces;
    for (size_t i = 0; i < whole.size();) {
      const size_t count = 1 + below(4);
      const std::string piece = pieces.add(whole.substr(i, count));
      REQUIRE(find_invalid_utf8(piece) == piece.size());
      joined += piece;
      i += count;
    }
    joined += pieces.finish();
    REQUIRE(joined == replaced(whole));
    REQUIRE(valid_utf8(whole) == joined);
  }
}

TEST_CASE("a character is passed on as soon as it is complete, and an impossible one at once") {
  Utf8Pieces pieces;
  CHECK(pieces.add("a\xe2") == "a");
  CHECK(pieces.add("\x82") == "");
  CHECK(pieces.add("\xac") == "\xe2\x82\xac");
  CHECK(pieces.add("\xff") == "\xef\xbf\xbd");
  CHECK(pieces.add("\xf0\x9f") == "");
  CHECK(pieces.finish() == "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("a whole completion") {
  const std::vector<ReplyText> texts{{.text = "a\"b\n", .reason = FinishReason::end_token},
                                     {.text = "c", .reason = FinishReason::max_tokens}};
  const Json json = parsed(whole_reply(kText, texts, {.prompt = 3, .completion = 5}));
  CHECK(*at(json, "id").string() == "cmpl-1");
  CHECK(*at(json, "object").string() == "text_completion");
  CHECK(at(json, "created").integer() == 17);
  CHECK(*at(json, "model").string() == "m");
  CHECK(*at(choice(json), "text").string() == "a\"b\n");
  CHECK(*at(choice(json), "finish_reason").string() == "stop");
  CHECK(at(choice(json), "logprobs").is_null());
  CHECK(at(choice(json, 1), "index").integer() == 1);
  CHECK(*at(choice(json, 1), "finish_reason").string() == "length");
  CHECK(at(at(json, "usage"), "prompt_tokens").integer() == 3);
  CHECK(at(at(json, "usage"), "completion_tokens").integer() == 5);
  CHECK(at(at(json, "usage"), "total_tokens").integer() == 8);
}

TEST_CASE("a whole chat, and the reasons of an end") {
  const std::vector<ReplyText> texts{{.text = "a", .reason = FinishReason::stop_text}};
  const Json json = parsed(whole_reply(kChat, texts, {}));
  CHECK(*at(json, "object").string() == "chat.completion");
  CHECK(*at(at(choice(json), "message"), "role").string() == "assistant");
  CHECK(*at(at(choice(json), "message"), "content").string() == "a");
  CHECK(std::string(finish_name(FinishReason::stop_text)) == "stop");
  CHECK(std::string(finish_name(FinishReason::end_token)) == "stop");
  CHECK(std::string(finish_name(FinishReason::max_tokens)) == "length");
  CHECK(std::string(finish_name(FinishReason::context_end)) == "length");
}

TEST_CASE("chunks of a stream") {
  const Json text = parsed(text_chunk(kText, 2, {.text = "a"}));
  CHECK(*at(text, "object").string() == "text_completion");
  CHECK(at(choice(text), "index").integer() == 2);
  CHECK(*at(choice(text), "text").string() == "a");
  CHECK(at(choice(text), "finish_reason").is_null());
  CHECK_FALSE(text.find("usage"));
  const Json role = parsed(text_chunk(kChat, 0, {}, true, true));
  CHECK(*at(role, "object").string() == "chat.completion.chunk");
  CHECK(*at(at(choice(role), "delta"), "role").string() == "assistant");
  CHECK(at(role, "usage").is_null());
  const Json last = parsed(text_chunk(kChat, 0, {.reason = FinishReason::end_token}));
  CHECK(at(choice(last), "delta").object()->empty());
  CHECK(*at(choice(last), "finish_reason").string() == "stop");
  const Json usage = parsed(usage_chunk(kChat, {.prompt = 1, .completion = 2}));
  CHECK(at(usage, "choices").array()->empty());
  CHECK(at(at(usage, "usage"), "total_tokens").integer() == 3);
  CHECK(server_sent_event("{}") == "data: {}\n\n");
  CHECK(kEndOfStream == "data: [DONE]\n\n");
}

TEST_CASE("log probabilities of a completion and of a chat") {
  const std::vector<ReplyToken> tokens{{{"\xc3\xa9", -0.5}, {{"\xc3\xa9", -0.5}, {"b", -1.25}}},
                                       {{"\xe2\x82", -2}, {{"\xe2\x82", -2}, {"\xe2\x82", -3}}},
                                       {{"\xac", -INFINITY}, {}}};
  const ReplyText part{.text = "\xc3\xa9\xe2\x82\xac",
                       .reason = FinishReason::max_tokens,
                       .tokens = tokens,
                       .place = {.before = 4}};
  const Json text = parsed(whole_reply(kText, std::vector{part}, {}));
  const Json& l = at(choice(text), "logprobs");
  CHECK(*at(l, "tokens").array()->at(0).string() == "\xc3\xa9");
  CHECK(*at(l, "tokens").array()->at(1).string() == "bytes:\\xe2\\x82");
  CHECK(at(l, "token_logprobs").array()->at(0).number()->real == -0.5);
  CHECK(at(l, "token_logprobs").array()->at(2).number()->real == -9999);
  CHECK(at(at(l, "top_logprobs").array()->at(0), "b").number()->real == -1.25);
  CHECK(at(l, "top_logprobs").array()->at(1).object()->size() == 1);
  CHECK(at(l, "text_offset").array()->at(0).integer() == 4);
  CHECK(at(l, "text_offset").array()->at(1).integer() == 5);
  CHECK(at(l, "text_offset").array()->at(2).integer() == 5);
  const Json chat = parsed(whole_reply(kChat, std::vector{part}, {}));
  const Json& content = at(at(choice(chat), "logprobs"), "content");
  CHECK(content.array()->size() == 3);
  const Json& first = content.array()->at(0);
  CHECK(at(first, "logprob").number()->real == -0.5);
  CHECK(at(first, "bytes").array()->at(0).integer() == 0xc3);
  CHECK(at(first, "top_logprobs").array()->size() == 2);
}

TEST_CASE("models, and the number of characters") {
  const std::vector<ModelCard> models{{"a\"b", 5, 256}};
  const Json json = parsed(models_reply(models));
  CHECK(*at(json, "object").string() == "list");
  CHECK(*at(at(json, "data").array()->at(0), "id").string() == "a\"b");
  CHECK(at(parsed(model_reply(models[0])), "max_model_len").integer() == 256);
  CHECK(characters("a\xc3\xa9\xf0\x9f\x98\x80") == 3);
}
