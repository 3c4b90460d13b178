// BasicService: one thread that owns an engine, and any number of threads that ask it for texts.
//
//   BasicService<Engine> service(engine, {.most_texts = 64});
//   Call call = service.submit(std::move(requests), {.operation = "chat", .streams = true});
//   for (const ChoiceNews& news : call.wait(200ms)) ...          // until call.ended()
//
// A request waits in an inbox until the engine's thread has computed its step; nobody else calls the engine.
// What a call has not read yet is kept up to a limit: a reader that is too slow loses its call (ApiError 408)
// and does not delay the others. A Call that is destroyed before its end is cancelled, which frees its pages.
// Too many texts: ApiError 429; after refuse_new(): 503.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <thread>
#include <tinytorch/serving/metrics.hpp>
#include <tinytorch/serving/openai_error.hpp>
#include <tinytorch/transformer/generate.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct ServiceOptions {
  int64_t most_texts = 64;               // that run or wait
  size_t most_unread = size_t{1} << 16;  // bytes of text of a call that its reader has not taken
};

struct CallOptions {
  std::string operation{};  // for the metrics
  bool streams = false;     // false: ChoiceNews has no text before the end
};

// The news of one text of a call since the last wait().
struct ChoiceNews {
  size_t choice = 0;
  std::string text{};             // bytes that became final; of a call that streams
  std::vector<int32_t> tokens{};  // of a call that streams, with the log probabilities that it asked for
  std::vector<TokenLogprobs> logprobs{};
  bool ended = false;
  Generated result{};  // at the end
};

namespace service {

using Clock = std::chrono::steady_clock;
inline double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The state that the thread of a call and the engine's thread share.
class CallState {
 public:
  CallState(size_t choices, CallOptions options, size_t most_unread)
      : options_(std::move(options)), most_unread_(most_unread), choices_(choices), open_(choices) {}

  // --- the engine's thread

  // A token of a text. False: nobody wants more.
  bool add(size_t choice, std::string_view text) {
    const std::lock_guard lock(mutex_);
    Choice& c = choices_[choice];
    if (c.tokens++ == 0) c.first_token = Clock::now();
    if (left_ || problem_) return false;
    if (!options_.streams || text.empty()) return true;
    unread_ += text.size();
    if (unread_ > most_unread_) {
      set_problem({408, "the client reads too slowly", "server_error", "", "slow_reader"});
      return false;
    }
    c.news.text += text;
    c.has_news = true;
    changed_.notify_all();
    return true;
  }
  // The log probabilities of a token of a text; they wait for its text or its end.
  void add(size_t choice, int32_t token, const TokenLogprobs& logprobs) {
    const std::lock_guard lock(mutex_);
    if (left_ || problem_ || !options_.streams) return;
    choices_[choice].news.tokens.push_back(token);
    choices_[choice].news.logprobs.push_back(logprobs);
  }
  void end(size_t choice, Generated result) {
    const std::lock_guard lock(mutex_);
    Choice& c = choices_[choice];
    c.news.ended = c.has_news = true;
    c.news.result = std::move(result);
    changed_.notify_all();
  }
  void fail(const ApiError& problem) {
    const std::lock_guard lock(mutex_);
    set_problem(problem);
  }
  RequestMeasure measure(size_t choice, int64_t prompt) const {
    const std::lock_guard lock(mutex_);
    const Choice& c = choices_[choice];
    return {.operation = options_.operation,
            .error = problem_                 ? problem_->code
                     : left_ && !c.news.ended ? why_left_
                                              : "",
            .first_token = c.tokens > 0 ? seconds_between(began_, c.first_token) : -1,
            .seconds = seconds_between(began_, Clock::now()),
            .prompt = prompt,
            .written = c.tokens};
  }
  size_t size() const { return choices_.size(); }

  // --- the thread of the call

  std::vector<ChoiceNews> wait(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, most,
                      [&] { return problem_ || std::ranges::any_of(choices_, &Choice::has_news); });
    if (problem_) throw ApiError(*problem_);
    std::vector<ChoiceNews> out;
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (!choices_[i].has_news) continue;
      out.push_back(std::exchange(choices_[i].news, {}));
      out.back().choice = i;
      choices_[i].has_news = false;
      open_ -= out.back().ended;
    }
    unread_ = 0;
    return out;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return open_ == 0;
  }
  void leave(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!left_) why_left_ = why;
    left_ = true;
  }

 private:
  struct Choice {
    ChoiceNews news{};
    bool has_news = false;
    int64_t tokens = 0;
    Clock::time_point first_token{};
  };
  void set_problem(const ApiError& problem) {
    if (!problem_) problem_ = problem;
    changed_.notify_all();
  }

  const CallOptions options_;
  const size_t most_unread_;
  const Clock::time_point began_ = Clock::now();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Choice> choices_;
  size_t open_, unread_ = 0;
  bool left_ = false;
  std::string why_left_;
  std::optional<ApiError> problem_;
};

}  // namespace service

// The texts of one request of a client. It is used by one thread, and must not outlive the service.
class Call {
 public:
  using State = service::CallState;
  Call(std::shared_ptr<State> state, std::function<void(const std::shared_ptr<State>&)> leave)
      : state_(std::move(state)), leave_(std::move(leave)) {}
  ~Call() {
    if (!state_) return;
    state_->leave("client_closed");
    leave_(state_);
  }
  Call(Call&&) = default;
  Call& operator=(Call&&) = delete;

  // Waits for news until `most` is over. Throws ApiError if the call has failed.
  std::vector<ChoiceNews> wait(std::chrono::milliseconds most) { return state_->wait(most); }
  bool ended() const { return state_->ended(); }  // the end of every text was returned by wait()
  // The reason of an end that comes too early, for the metrics.
  void leave(const std::string& why) { state_->leave(why); }

 private:
  std::shared_ptr<State> state_;
  std::function<void(const std::shared_ptr<State>&)> leave_;
};

// Engine: submit(TextRequest) -> id, cancel(id), step() -> {id, text, error}..., idle(), counts(), as in
// engine.hpp.
template <class Engine>
class BasicService {
 public:
  using Counts = decltype(std::declval<Engine&>().counts());

  BasicService(Engine& engine, const ServiceOptions& options)
      : engine_(engine), options_(options), counts_(engine.counts()), thread_([this] { run(); }) {}
  ~BasicService() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  BasicService(const BasicService&) = delete;
  BasicService& operator=(const BasicService&) = delete;

  Call submit(std::vector<TextRequest> requests, CallOptions options);
  // From now on, submit() throws ApiError 503.
  void refuse_new() {
    const std::lock_guard lock(mutex_);
    refusing_ = true;
  }
  bool refuses() const {
    const std::lock_guard lock(mutex_);
    return refusing_;
  }
  // Waits until there is no Call. False if there still is one after `most`.
  bool wait_until_idle(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    return idle_.wait_for(lock, most, [&] { return calls_ == 0; });
  }
  // The counts of the engine after its last step.
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  int64_t texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }
  ServerMetrics& metrics() { return metrics_; }

 private:
  using State = service::CallState;
  struct Order {
    std::shared_ptr<State> state;
    std::vector<TextRequest> requests;
  };
  struct Running {
    std::shared_ptr<State> state;
    size_t choice;
    int64_t prompt;
  };

  void run();
  void begin(Order order);
  void drop(const std::shared_ptr<State>& state);
  void step();
  void left(const std::shared_ptr<State>& state);
  static ApiError problem_of(const std::exception_ptr& thrown) {
    std::string why = "an unknown error";
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      why = brief_text(error);
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
    }
    return {500, "the text cannot go on: " + why, "server_error", "", "step_failed"};
  }
  void publish() {
    const std::lock_guard lock(mutex_);
    counts_ = engine_.counts();
  }

  Engine& engine_;
  const ServiceOptions options_;
  ServerMetrics metrics_;
  std::map<int64_t, Running> running_;  // of the engine's thread

  mutable std::mutex mutex_;  // of all that follows
  std::condition_variable wake_, idle_;
  std::vector<Order> orders_;
  std::vector<std::shared_ptr<State>> gone_;
  Counts counts_;
  int64_t texts_ = 0, calls_ = 0;
  bool refusing_ = false, stopping_ = false;
  std::thread thread_;  // the last member, because it uses the others
};

// ---------------------------------------------------------------------------------------------------------

template <class Engine>
Call BasicService<Engine>::submit(std::vector<TextRequest> requests, CallOptions options) {
  const auto count = static_cast<int64_t>(requests.size());
  auto state = std::make_shared<State>(requests.size(), std::move(options), options_.most_unread);
  {
    const std::lock_guard lock(mutex_);
    if (refusing_) throw ApiError(503, "the server is shutting down", "server_error", "", "shutting_down", 5);
    if (count > options_.most_texts) {
      throw bad_request("n", "the request has " + std::to_string(count) +
                                 " texts; this server writes at most " + std::to_string(options_.most_texts) +
                                 " at a time");
    }
    if (texts_ + count > options_.most_texts) {
      throw ApiError(429,
                     "the server writes " + std::to_string(texts_) + " texts and takes at most " +
                         std::to_string(options_.most_texts) + "; try again later",
                     "rate_limit_error", "", "rate_limit_exceeded", 1);
    }
    texts_ += count, ++calls_;
    orders_.push_back({state, std::move(requests)});
  }
  wake_.notify_all();
  return Call(std::move(state), [this](const std::shared_ptr<State>& s) { left(s); });
}

template <class Engine>
void BasicService<Engine>::left(const std::shared_ptr<State>& state) {
  const std::lock_guard lock(mutex_);  // until after the notification, so that the service still exists
  texts_ -= static_cast<int64_t>(state->size()), --calls_;
  gone_.push_back(state);
  wake_.notify_all();
  idle_.notify_all();
}

template <class Engine>
void BasicService<Engine>::run() {
  for (;;) {
    std::vector<Order> orders;
    std::vector<std::shared_ptr<State>> gone;
    {
      std::unique_lock lock(mutex_);
      counts_ = engine_.counts();
      wake_.wait(lock, [&] { return stopping_ || !engine_.idle() || !orders_.empty() || !gone_.empty(); });
      if (stopping_) break;
      orders.swap(orders_);
      gone.swap(gone_);
    }
    for (Order& order : orders) begin(std::move(order));
    for (const auto& state : gone) drop(state);
    if (!engine_.idle()) step();
  }
  for (const auto& [id, r] : running_) engine_.cancel(id);
}

template <class Engine>
void BasicService<Engine>::begin(Order order) {
  for (size_t i = 0; i < order.requests.size(); ++i) {
    TextRequest& request = order.requests[i];
    const auto prompt = std::ssize(request.prompt);
    const auto state = order.state;
    request.options.on_token = [=](int32_t, std::string_view text) { return state->add(i, text); };
    request.options.on_logprobs = [=](int32_t t, const TokenLogprobs& l) { state->add(i, t, l); };
    try {
      const int64_t id = engine_.submit(std::move(request));
      running_.emplace(id, Running{order.state, i, prompt});
    } catch (const Error& error) {
      order.state->fail(bad_request("", brief_text(error), error.code()));
      return drop(order.state);
    }
  }
}

// Cancels what the engine still has of a call.
template <class Engine>
void BasicService<Engine>::drop(const std::shared_ptr<State>& state) {
  for (auto at = running_.begin(); at != running_.end();) {
    if (at->second.state != state) {
      ++at;
      continue;
    }
    engine_.cancel(at->first);
    metrics_.ended(state->measure(at->second.choice, at->second.prompt));
    at = running_.erase(at);
  }
}

// An error of one text, such as logits that are not numbers, ends its call. An error of the whole step ends
// every call, because none of them can go on.
template <class Engine>
void BasicService<Engine>::step() {
  try {
    auto all = engine_.step();
    publish();  // before anybody learns of the ends, so that a client who asks then sees them
    for (auto& ended : all) {
      const auto found = running_.find(ended.id);
      if (found == running_.end()) continue;
      const Running r = found->second;
      if (ended.error) r.state->fail(problem_of(ended.error));
      metrics_.ended(r.state->measure(r.choice, r.prompt));
      r.state->end(r.choice, std::move(ended.text));
      running_.erase(found);
      if (ended.error) drop(r.state);
    }
  } catch (const std::exception&) {
    const ApiError problem = problem_of(std::current_exception());
    while (!running_.empty()) {
      const auto state = running_.begin()->second.state;
      state->fail(problem);
      drop(state);
    }
  }
}

}  // namespace tinytorch::inline TT_BUILD::serving
