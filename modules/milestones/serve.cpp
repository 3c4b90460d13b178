// A server writes many texts at once (Yu et al., "Orca", 2022; Kwon et al., "Efficient memory management for
// large language model serving with PagedAttention", 2023).
//
// First one long text: with a cache, each token is one row of the model, and a step allocates as little after
// a thousand tokens as after a hundred. Then 64 requests share the pages of one cache that is half as large
// as a cache of 64 longest texts: each text must be the one that the request gets alone, to the bit. Last, a
// simulation with a virtual clock compares continuous batching with static batches on the same requests.
#include <cstring>
#include <map>
#include <tinytorch/core/allocation_observer.hpp>
#include <tinytorch/serving/serving.hpp>
#include <tinytorch/transformer/gpt2.hpp>

#include "gates.hpp"

namespace tt = tinytorch;
using namespace tinytorch::serving;

constexpr int64_t kContext = 1024, kLong = 1000, kRequests = 64, kPage = 16;

// Counts the rows that the model computes.
class CountingGpt2 : public tt::Gpt2 {
 public:
  using Gpt2::Gpt2;
  tt::Tensor features(const tt::Tensor& tokens, tt::AttentionCache* cache = nullptr) override {
    rows += tokens.numel();
    return Gpt2::features(tokens, cache);
  }
  int64_t rows = 0;
};

class AllocatedBytes : public tt::AllocationObserver {
 public:
  AllocatedBytes() : before_(tt::observe_allocations(this)) {}
  ~AllocatedBytes() override { tt::observe_allocations(before_); }
  void allocated(tt::Device, const void*, size_t bytes) override { total += static_cast<double>(bytes); }
  void freed(tt::Device, const void*, size_t) noexcept override {}
  double total = 0;

 private:
  tt::AllocationObserver* before_;
};

void one_long_text(milestone::Gates& gates, CountingGpt2& model) {
  const std::vector<int32_t> prompt = {1, 2, 3};
  AllocatedBytes bytes;
  std::vector<double> after;  // bytes allocated up to each token
  tt::GenerateOptions options{.max_tokens = kLong, .seed = 9};
  options.on_token = [&](int32_t, std::string_view) { return after.push_back(bytes.total), true; };
  model.rows = 0;
  const tt::Generated text = tt::generate(model, prompt, options);
  const auto rows = static_cast<double>(model.rows);
  std::printf("%lld tokens: %.0f rows, %.0f kB allocated in the step of token 100, %.0f kB in that of 1000\n",
              static_cast<long long>(kLong), rows, (after[100] - after[99]) * 1e-3,
              (after[kLong - 1] - after[kLong - 2]) * 1e-3);
  gates.at_most("1000 tokens cost 1000 rows of the model", rows, static_cast<double>(kLong + 2));
  gates.at_most("a step allocates as little after 1000 tokens as after 100",
                (after[kLong - 1] - after[kLong - 101]) / (after[199] - after[99]), 1.3);
  options.on_token = {}, options.cache = false, options.max_tokens = 200;
  const tt::Generated plain = tt::generate(model, prompt, options);
  gates.check("the text equals the one without a cache",
              std::equal(plain.tokens.begin(), plain.tokens.end(), text.tokens.begin()),
              "the same 200 tokens", "others");
}

std::vector<tt::TextRequest> draw_requests(const tt::LanguageModel& model, int64_t count) {
  tt::Generator g(2023);
  std::vector<tt::TextRequest> requests(static_cast<size_t>(count));
  for (tt::TextRequest& r : requests) {
    const auto length = static_cast<int64_t>(g.uniform(1, 40));
    for (int64_t i = 0; i < length; ++i)
      r.prompt.push_back(static_cast<int32_t>(g.uniform(0, static_cast<double>(model.vocabulary()))));
    // Most answers are short, and a few are long.
    r.options.max_tokens = static_cast<int64_t>(g.uniform() < 0.12 ? g.uniform(80, 120) : g.uniform(4, 16));
    r.options.seed = static_cast<uint64_t>(&r - requests.data());
    r.options.logprobs = 0;
  }
  return requests;
}

// The texts of requests that arrive at random steps, or one by one.
std::vector<tt::Generated> serve(tt::LanguageModel& model, const std::vector<tt::TextRequest>& requests,
                                 int64_t pages, bool together) {
  Engine engine(model, {.scheduler = {.budget = 256, .sequences = kRequests, .pages = pages, .page = kPage}});
  tt::Generator g(7);
  std::map<int64_t, tt::Generated> texts;
  size_t sent = 0;
  while (sent < requests.size() || !engine.idle()) {
    while (sent < requests.size() && (engine.idle() || (together && g.uniform() < 0.8)))
      engine.submit(requests[sent++]);
    for (Ended& e : engine.step()) texts.emplace(e.id, std::move(e.text));
  }
  std::vector<tt::Generated> out;
  for (auto& [id, text] : texts) out.push_back(std::move(text));
  return out;
}

void many_texts(milestone::Gates& gates, tt::LanguageModel& model) {
  const std::vector<tt::TextRequest> requests = draw_requests(model, kRequests);
  int64_t longest = 0;
  for (const tt::TextRequest& r : requests)
    longest = std::max(longest, std::ssize(r.prompt) + r.options.max_tokens);
  const int64_t reserved = kRequests * tt::ceil_div(longest, kPage);
  const std::vector<tt::Generated> alone = serve(model, requests, reserved, false),
                                   together = serve(model, requests, reserved / 2, true);
  double tokens = 0, other = 0;
  for (size_t i = 0; i < alone.size() && i < together.size(); ++i) {
    const auto bits = [](const tt::TokenLogprobs& a, const tt::TokenLogprobs& b) {
      return std::memcmp(&a.own, &b.own, sizeof a.own) == 0;
    };
    tokens += static_cast<double>(alone[i].tokens.size());
    other += alone[i].tokens != together[i].tokens ||
             !std::ranges::equal(alone[i].logprobs, together[i].logprobs, bits);
  }
  std::printf("%lld requests, %.0f tokens, on %lld pages instead of %lld\n",
              static_cast<long long>(kRequests), tokens, static_cast<long long>(reserved / 2),
              static_cast<long long>(reserved));
  gates.at_least("64 requests on half the memory all get a text", static_cast<double>(together.size()),
                 kRequests);
  gates.at_most("each text has the bits that it has alone", other, 0);
}

void policies(milestone::Gates& gates, const tt::LanguageModel& model) {
  std::vector<Arrival> arrivals;
  for (const tt::TextRequest& r : draw_requests(model, 8 * kRequests)) {
    const auto id = std::ssize(arrivals);
    arrivals.push_back(
        {.request = {.id = id, .prompt = std::ssize(r.prompt), .most_new = r.options.max_tokens}});
  }
  // 512 requests wait. Prompts of a whole batch fit into one step, so that a static batch is not hindered by
  // the budget.
  SchedulerOptions options{.budget = 4096, .sequences = 16, .pages = 1024, .page = kPage};
  const double continuous = simulate(options, arrivals).tokens_per_s();
  options.batching = Batching::static_batch;
  const double fixed = simulate(options, arrivals).tokens_per_s();
  std::printf("continuous batching: %.0f tokens/s, static batches: %.0f\n", continuous, fixed);
  gates.at_least("continuous batching writes 2.5 times as much as static batches", continuous / fixed, 2.5);
}

int main() {
  return milestone::run([](milestone::Gates& gates) {
    tt::manual_seed(2023);
    CountingGpt2 model(
        {.vocabulary = 65, .context = kContext, .features = 32, .layers = 2, .heads = 4, .deviation = 0.3});
    one_long_text(gates, model);
    many_texts(gates, model);
    policies(gates, model);
  });
}
