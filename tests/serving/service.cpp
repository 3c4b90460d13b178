#include <tinytorch/serving/service.hpp>

#include <support/errors.hpp>

using namespace tinytorch;
using namespace tinytorch::serving;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBroken = 25;  // the seed of a text that fails at its first token

// An engine without a model: each text has a letter for each token, and a page for each text. The tests
// decide when a step may be computed, so that the result of a race is known.
class LetterEngine {
 public:
  struct Ended {
    int64_t id;
    Generated text;
    std::exception_ptr error{};
  };
  struct Counts {
    int64_t running = 0, held_pages = 0, cancelled = 0, steps = 0;
  };

  int64_t submit(TextRequest request) {
    if (request.prompt.size() > 100) fail("TT-SERVE-02", "too long\n  hint: cut it");
    texts_.emplace(++last_, Text{std::move(request), {}});
    return last_;
  }
  bool cancel(int64_t id) {
    counts_.cancelled += texts_.contains(id);
    return texts_.erase(id) > 0;
  }
  std::vector<Ended> step() {
    wait_for_turn();
    ++counts_.steps;
    if (fails) throw std::runtime_error("logits are not numbers");
    std::vector<Ended> out;
    for (auto& [id, text] : texts_) {
      const std::string piece(letters, static_cast<char>('a' + text.request.options.seed % 26));
      text.written.text += piece;
      text.written.tokens.push_back(0);
      if (text.request.options.logprobs >= 0) {
        text.written.logprobs.push_back({.own = -static_cast<double>(text.written.tokens.size())});
        text.request.options.on_logprobs(0, text.written.logprobs.back());
      }
      const bool more = text.request.options.on_token(0, piece);
      if (!more) text.written.reason = FinishReason::callback;
      if (text.request.options.seed == kBroken) {
        out.push_back({id, text.written, std::make_exception_ptr(std::runtime_error("not a number"))});
        continue;
      }
      if (!more || std::ssize(text.written.tokens) == text.request.options.max_tokens)
        out.push_back({id, text.written});
    }
    for (const Ended& e : out) texts_.erase(e.id);
    return out;
  }
  bool idle() const { return texts_.empty(); }
  Counts counts() const {
    Counts c = counts_;
    c.running = c.held_pages = std::ssize(texts_);
    return c;
  }

  // Steps that may be computed; the engine waits for more.
  void allow(int64_t steps) {
    {
      const std::lock_guard lock(mutex_);
      allowed_ += steps;
    }
    turn_.notify_all();
  }
  std::atomic<size_t> letters{1};
  std::atomic<bool> fails{false};

 private:
  struct Text {
    TextRequest request;
    Generated written;
  };
  void wait_for_turn() {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return allowed_ > 0; });
    --allowed_;
  }
  std::map<int64_t, Text> texts_;
  int64_t last_ = 0;
  Counts counts_;
  std::mutex mutex_;
  std::condition_variable turn_;
  int64_t allowed_ = 0;
};
constexpr int64_t kAlways = int64_t{1} << 40;

TextRequest letters(int64_t count, uint64_t seed) {
  return {.prompt = {1}, .options = {.max_tokens = count, .seed = seed}};
}
// Reads a call to its end: the text of each choice.
std::vector<std::string> read_all(Call& call, size_t choices, bool streams) {
  std::vector<std::string> texts(choices);
  while (!call.ended()) {
    for (const ChoiceNews& news : call.wait(10s)) {
      texts[news.choice] += news.text;
      if (news.ended && streams) CHECK(texts[news.choice] == news.result.text);
      if (news.ended && !streams) texts[news.choice] = news.result.text;
    }
  }
  return texts;
}
ApiError refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const ApiError& error) {
    return error;
  }
  return {0, "nothing was thrown", ""};
}
template <class Condition>
bool becomes_true(Condition&& condition) {
  for (int i = 0; i < 5000 && !condition(); ++i) std::this_thread::sleep_for(1ms);
  return condition();
}

}  // namespace

TEST_CASE("texts arrive whole and in order, with a stream and without") {
  LetterEngine engine;
  engine.allow(kAlways);
  BasicService<LetterEngine> service(engine, {.most_texts = 8});
  for (const bool streams : {true, false}) {
    Call call = service.submit({letters(5, 0), letters(3, 1), letters(1, 2)},
                               {.operation = "chat", .streams = streams});
    CHECK(read_all(call, 3, streams) == std::vector<std::string>{"aaaaa", "bbb", "c"});
  }
  CHECK(service.metrics().text("m", {}).find("gen_ai_token_type=\"output\"} 18") != std::string::npos);
}

TEST_CASE("log probabilities arrive with the text of a stream, and without a stream only at the end") {
  LetterEngine engine;
  BasicService<LetterEngine> service(engine, {.most_texts = 8});
  for (const bool streams : {true, false}) {
    TextRequest request = letters(4, 0);
    request.options.logprobs = 0;
    Call call = service.submit({request}, {.operation = "chat", .streams = streams});
    std::vector<double> arrived, all;
    size_t written = 0;
    while (!call.ended()) {
      engine.allow(streams ? 1 : 4);  // without a stream, wait() returns nothing before the end
      for (const ChoiceNews& news : call.wait(10s)) {
        written += news.text.size();
        CHECK(news.tokens.size() == news.logprobs.size());
        for (const TokenLogprobs& l : news.logprobs) arrived.push_back(l.own);
        CHECK(arrived.size() == written);  // one letter a token
        for (const TokenLogprobs& l : news.result.logprobs) all.push_back(l.own);
      }
    }
    CHECK(all == std::vector<double>{-1, -2, -3, -4});
    CHECK(arrived == (streams ? all : std::vector<double>{}));
  }
}

TEST_CASE("many threads, one engine: every call gets its own text") {
  LetterEngine engine;
  engine.allow(kAlways);
  BasicService<LetterEngine> service(engine, {.most_texts = 16});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 30; ++i) {
        Call call = service.submit({letters(i, t)}, {.streams = i % 2 == 0});
        wrong += read_all(call, 1, i % 2 == 0)[0] !=
                 std::string(static_cast<size_t>(i), static_cast<char>('a' + t));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(service.texts() == 0);
}

TEST_CASE("a call that is dropped frees its pages, whether it runs or waits in the inbox") {
  LetterEngine engine;
  BasicService<LetterEngine> service(engine, {.most_texts = 4});
  {
    Call running = service.submit({letters(1000, 0), letters(1000, 1)}, {.streams = true});
    engine.allow(1);
    CHECK(running.wait(10s).size() > 0);
    Call waiting = service.submit({letters(1000, 2)}, {.streams = true});
    CHECK(service.texts() == 3);
  }
  CHECK(service.texts() == 0);
  engine.allow(2);
  CHECK(becomes_true([&] { return service.counts().steps >= 1 && service.counts().running == 0; }));
  CHECK(service.counts().held_pages == 0);
  CHECK(becomes_true([&] {
    return service.metrics().text("m", {}).find("error_type=\"client_closed\"") != std::string::npos;
  }));
}

TEST_CASE("a slow reader loses its call, and does not delay a fast one") {
  LetterEngine engine;
  engine.letters = 100;
  engine.allow(kAlways);
  BasicService<LetterEngine> service(engine, {.most_texts = 4, .most_unread = 1000});
  Call slow = service.submit({letters(100000, 0)}, {.streams = true});  // nobody reads it
  CHECK(becomes_true([&] { return service.counts().steps > 0 && service.counts().running == 0; }));
  Call fast = service.submit({letters(5, 1)}, {.streams = false});
  CHECK(read_all(fast, 1, false)[0] == std::string(500, 'b'));
  const ApiError error = refusal([&] { slow.wait(1s); });
  CHECK(error.status == 408);
  CHECK(error.code == "slow_reader");
}

TEST_CASE("a call without a stream keeps no pieces, however long it is") {
  LetterEngine engine;
  engine.letters = 100;
  engine.allow(kAlways);
  BasicService<LetterEngine> service(engine, {.most_texts = 4, .most_unread = 1000});
  Call call = service.submit({letters(50, 0)}, {.streams = false});
  CHECK(read_all(call, 1, false)[0] == std::string(5000, 'a'));
}

TEST_CASE("too many texts are refused until there is room") {
  LetterEngine engine;
  BasicService<LetterEngine> service(engine, {.most_texts = 2});
  CHECK(refusal([&] { service.submit({letters(1, 0), letters(1, 0), letters(1, 0)}, {}); }).status == 400);
  {
    Call one = service.submit({letters(1, 0), letters(1, 1)}, {});
    const ApiError error = refusal([&] { service.submit({letters(1, 0)}, {}); });
    CHECK(error.status == 429);
    CHECK(error.retry_after > 0);
    CHECK(error.code == "rate_limit_exceeded");
  }
  engine.allow(kAlways);
  Call again = service.submit({letters(2, 0)}, {});
  CHECK(read_all(again, 1, false)[0] == "aa");
}

TEST_CASE("a request that the engine refuses fails alone, with the other texts of its call") {
  LetterEngine engine;
  engine.allow(kAlways);
  BasicService<LetterEngine> service(engine, {.most_texts = 8});
  TextRequest bad = letters(5, 0);
  bad.prompt.resize(200);
  Call call = service.submit({letters(5, 0), bad}, {});
  const ApiError error = refusal([&] { read_all(call, 2, false); });
  CHECK(error.status == 400);
  CHECK(error.message == "too long; hint: cut it");
  Call good = service.submit({letters(3, 3)}, {});
  CHECK(read_all(good, 1, false)[0] == "ddd");
  CHECK(service.counts().running == 0);
}

TEST_CASE("a text that fails ends its call alone") {
  LetterEngine engine;
  BasicService<LetterEngine> service(engine, {.most_texts = 8});
  Call bad = service.submit({letters(5, 0), letters(5, kBroken)}, {}),
       good = service.submit({letters(5, 1)}, {});
  engine.allow(kAlways);
  const ApiError error = refusal([&] { read_all(bad, 2, false); });
  CHECK(error.status == 500);
  CHECK(error.message.find("not a number") != std::string::npos);
  CHECK(read_all(good, 1, false)[0] == "bbbbb");
  CHECK(becomes_true([&] { return service.counts().running == 0; }));
}

TEST_CASE("a step that fails ends all calls, and later ones are served") {
  LetterEngine engine;
  BasicService<LetterEngine> service(engine, {.most_texts = 8});
  Call one = service.submit({letters(5, 0)}, {}), two = service.submit({letters(5, 1)}, {.streams = true});
  engine.fails = true;
  engine.allow(1);
  CHECK(refusal([&] { read_all(one, 1, false); }).status == 500);
  engine.fails = false;
  engine.allow(kAlways);
  std::string text;
  const ApiError second = refusal([&] { text = read_all(two, 1, true)[0]; });
  CHECK(
      (text == "bbbbb" || second.code == "step_failed"));  // it came after the failed step, or was part of it
  Call three = service.submit({letters(2, 2)}, {});
  CHECK(read_all(three, 1, false)[0] == "cc");
}

TEST_CASE("draining: no new calls, and the running ones end") {
  LetterEngine engine;
  BasicService<LetterEngine> service(engine, {.most_texts = 8});
  {
    Call call = service.submit({letters(4, 0)}, {.streams = true});
    service.refuse_new();
    CHECK(service.refuses());
    const ApiError error = refusal([&] { service.submit({letters(1, 0)}, {}); });
    CHECK(error.status == 503);
    CHECK(error.retry_after > 0);
    CHECK_FALSE(service.wait_until_idle(5ms));
    engine.allow(kAlways);
    CHECK(read_all(call, 1, true)[0] == "aaaa");
  }
  CHECK(service.wait_until_idle(0ms));
}

TEST_CASE("the end of a service cancels what runs") {
  LetterEngine engine;
  std::optional<BasicService<LetterEngine>> service;
  service.emplace(engine, ServiceOptions{});
  {
    Call call = service->submit({letters(1000000, 0)}, {.streams = true});
    engine.allow(3);
    call.wait(10s);
  }
  engine.allow(kAlways);
  service.reset();
  CHECK(engine.idle());
}
