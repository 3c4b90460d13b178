// Engine: a language model that writes many texts at once. The scheduler (scheduler.hpp) decides what a step
// computes, a paged cache keeps the keys and values, and one pass of the model computes the rows of all.
//
//   Engine engine(model, {.scheduler = {.sequences = 64, .pages = 1024}});
//   const int64_t id = engine.submit({prompt, {.max_tokens = 100}});
//   while (!engine.idle())
//     for (const Ended& e : engine.step()) use(e.id, e.text);
//
// On the CPU a text does not depend on the texts beside it, nor on the load of the server: the same request
// gives the same bits alone and in any company. Every kernel computes a row by itself, attention to the cache
// in one order, and products add the terms of a row in one order (backend::cpu::ProductsByRows). On a GPU the
// library's products choose an algorithm by the number of rows, so logits may differ there by rounding.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/kv_cache/prefix.hpp>
#include <tinytorch/serving/scheduler.hpp>
#include <tinytorch/transformer/generate.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct EngineOptions {
  SchedulerOptions scheduler{};  // the cache has scheduler.pages pages of scheduler.page tokens
  // The dtype of the cache: f32, f64, bf16, f16 or i8. nullopt: that of the model.
  std::optional<DType> cache_dtype{};
  // fp8 and i4 are as in GenerateOptions; cache_dtype does not matter then.
  KvFormat cache_format = KvFormat::of_dtype;
  // True: a text does not depend on the texts beside it. False: each product takes its fastest order.
  bool batch_invariant = true;
  // True: a request that begins like an earlier one with the same salt takes over the pages of the common
  // beginning (kv_cache/prefix.hpp). With batch_invariant, on the CPU, no bit of a text changes.
  bool prefix_cache = false;
};

struct Ended {
  int64_t id;
  Generated text;
  // The exception that the request's callback or decoder threw, or TT-NN-26 if its logits were not finite.
  // The text ends before the token at which it was thrown.
  std::exception_ptr error{};
};

struct EngineCounts {
  int64_t running = 0, waiting = 0;  // requests
  int64_t free_pages = 0, held_pages = 0, total_pages = 0;
  int64_t steps = 0, tokens = 0;  // tokens that passes have computed, recomputed ones included
  int64_t preemptions = 0;
  int64_t cached_pages = 0;  // which no request holds; free + held + cached = total
  PrefixCounts prefix{};
};

// One thread at a time may use an engine. The model must outlive it, and is in evaluation mode while a step
// is computed.
class Engine {
 public:
  // Throws TT-KV-01 if the model has no kv_shape(), and TT-SERVE-01 if an option is out of range.
  Engine(LanguageModel& model, const EngineOptions& options, TT_LOC)
      : model_(model),
        options_(options),
        scheduler_(options.scheduler, options.prefix_cache ? &shared_pages_ : nullptr, loc),
        cache_(model.kv_shape(),
               generation::cache_options(
                   model, options.scheduler.sequences, model.context(),
                   {.cache_dtype = options.cache_dtype, .cache_format = options.cache_format}),
               {.pages = options.scheduler.pages, .page = options.scheduler.page}, loc) {
    for (int64_t slot = options.scheduler.sequences; slot-- > 0;) free_slots_.push_back(slot);
    if (options.prefix_cache) prefix_.emplace(cache_, PrefixOptions{}, loc);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Queues a request and returns its number. Throws TT-SERVE-02 if it can never run: a token outside of the
  // vocabulary, a prompt longer than the context, or more tokens than the cache has room for. A text that
  // reaches the context ends there; at_context_end is not looked at. Requests share pages of a prefix cache
  // only with those of the same salt, such as the user's name.
  int64_t submit(TextRequest request, std::string salt = {}, TT_LOC) {
    request.options.at_context_end = GenerateOptions::ContextEnd::stop;
    for (const int32_t token : request.prompt) {
      if (token >= 0 && token < model_.vocabulary()) continue;
      fail("TT-SERVE-02",
           "token " + std::to_string(token) + " is outside of the model's vocabulary of " +
               std::to_string(model_.vocabulary()) + "\n  hint: use the tokenizer of this model",
           loc);
    }
    const int64_t id = next_id_;
    auto entry = std::make_unique<Entry>(std::move(request), model_, loc);
    entry->salt = std::move(salt);
    const auto prompt = static_cast<int64_t>(entry->request.prompt.size());
    const int64_t room = model_.context() - prompt + 1;  // the last new token is not computed
    if (entry->text.done()) {                            // no token was asked for
      finished_.push_back({id, std::move(entry->text).result()});
    } else {
      const int64_t most = std::min(entry->request.options.max_tokens, room);
      scheduler_.submit({.id = id, .prompt = prompt, .most_new = most}, loc);
      entries_.emplace(id, std::move(entry));
    }
    ++next_id_;
    return id;
  }

  // Forgets a request, and frees its pages at once. Within a callback of a step, it ends with that step.
  // False if there is no such request, or if it has ended.
  bool cancel(int64_t id) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return false;
    if (in_step_) {
      found->second->cancelled = true;
      return true;
    }
    scheduler_.cancel(id);
    release(*found->second);
    entries_.erase(found);
    return true;
  }

  bool idle() const { return scheduler_.idle() && finished_.empty(); }
  EngineCounts counts() const {
    return {scheduler_.running(),
            scheduler_.waiting(),
            cache_.pool().free(),
            cache_.pool().held(),
            cache_.pool().total(),
            steps_,
            tokens_,
            preemptions_,
            cache_.pool().cached(),
            prefix_ ? prefix_->counts() : PrefixCounts{}};
  }
  const PagedCache& cache() const { return cache_; }

  // Computes the next step, and returns the requests that have ended in it. If the pass throws, no request
  // has changed, and the step can be tried again.
  std::vector<Ended> step(TT_LOC) {
    std::vector<Ended> ended = std::exchange(finished_, {});
    const Step step = scheduler_.next();
    for (const int64_t id : step.preempted) release(*entries_.at(id)), ++preemptions_;
    if (step.parts.empty()) return ended;
    const Flag in_step(in_step_);
    const Pass pass = plan(step);
    const generation::HostStep computed = compute(pass, loc);
    ++steps_, tokens_ += step.tokens();
    keep_pages(step);
    std::vector<int64_t> over;
    for (size_t row = 0; row < pass.parts.size(); ++row) {
      const int64_t id = pass.parts[row].id;
      if (!pass.parts[row].samples) continue;
      if (std::optional<Ended> e = add_token(id, computed, static_cast<int64_t>(row), loc)) {
        ended.push_back(std::move(*e));
        over.push_back(id);
      }
    }
    scheduler_.finish(step, over);
    for (const int64_t id : over) forget(id);
    drop_cancelled();
    require_balance();
    return ended;
  }

 private:
  struct Entry {
    Entry(TextRequest r, const LanguageModel& model, Loc loc)
        : request(std::move(r)), text(model, request.prompt, request.options, loc) {}
    TextRequest request;
    generation::Text text;  // refers to request
    int64_t slot = -1;      // its sequence in the cache; -1: none
    std::string salt{};
    bool cancelled = false;
  };
  // The rows of a pass, in the order of the cache's sequences.
  struct Pass {
    std::vector<int64_t> counts;  // rows of each sequence
    std::vector<int64_t> tokens;  // of all rows
    std::vector<int64_t> last;    // the last row of each part, whose logits tell the next token
    std::vector<StepPart> parts;
  };
  struct Flag {
    explicit Flag(bool& f) : flag(f) { flag = true; }
    ~Flag() { flag = false; }
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    bool& flag;
  };

  Pass plan(const Step& step) {
    std::map<int64_t, const StepPart*> by_slot;
    for (const StepPart& part : step.parts) {
      Entry& entry = *entries_.at(part.id);
      take_slot(entry);
      by_slot[entry.slot] = &part;
    }
    Pass pass;
    pass.counts.assign(static_cast<size_t>(cache_.sequences()), 0);
    for (const auto& [slot, part] : by_slot) {
      const std::span<const int32_t> all = entries_.at(part->id)->text.tokens();
      const auto tokens = all.subspan(static_cast<size_t>(part->first), static_cast<size_t>(part->count));
      pass.counts[static_cast<size_t>(slot)] = part->count;
      pass.tokens.insert(pass.tokens.end(), tokens.begin(), tokens.end());
      pass.last.push_back(std::ssize(pass.tokens) - 1);
      pass.parts.push_back(*part);
    }
    return pass;
  }

  // Row i is that of part i. Parts that do not sample have no choice.
  generation::HostStep compute(const Pass& pass, Loc loc) {
    const NoGrad no_grad;
    const generation::EvaluationMode evaluation(model_);
    const backend::cpu::ProductsByRows by_rows(options_.batch_invariant);
    std::vector<int64_t> before;
    for (int64_t slot = 0; slot < cache_.sequences(); ++slot) before.push_back(cache_.length(slot));
    std::vector<const generation::Text*> texts;
    for (const StepPart& part : pass.parts)
      texts.push_back(part.samples ? &entries_.at(part.id)->text : nullptr);
    try {
      if (const auto step = compute_by_graph(pass, loc)) return generation::host_step(*step, texts, loc);
      cache_.begin(pass.counts, loc);
      const Tensor input = from_data(pass.tokens, {1, std::ssize(pass.tokens)}, model_.device());
      const Tensor x = model_.features(input, &cache_).select(0, 0);
      if (std::ranges::none_of(pass.parts, &StepPart::samples)) return {};  // parts of prompts need no logits
      const Tensor rows = index_select(x, 0, from_data(pass.last, {std::ssize(pass.last)}, model_.device()));
      return generation::host_step(model_.head(rows), texts, loc);
    } catch (...) {  // gives back the pages that the step took
      for (size_t slot = 0; slot < before.size(); ++slot)
        cache_.truncate(static_cast<int64_t>(slot), before[slot]);
      throw;
    }
  }
  // Nothing on a CPU, and for a pass that is large enough to hide the launches of its kernels.
  std::optional<DecodeStep> compute_by_graph(const Pass& pass, Loc loc) {
    constexpr int64_t kMostTokens = 1024;
    const auto count = std::ssize(pass.tokens);
    if (model_.device().is_cpu() || !model_.steps_fit_graphs() || count > kMostTokens) return std::nullopt;
    if (!decode_) decode_.emplace(model_, cache_, std::min(options_.scheduler.budget, kMostTokens), loc);
    if (pass.parts.size() == pass.tokens.size()) return (*decode_)(pass.counts, pass.tokens, loc);
    return decode_->pass(pass.counts, pass.tokens, loc);
  }

  // Samples the next token of a request. Returns its text if it has ended.
  std::optional<Ended> add_token(int64_t id, const generation::HostStep& step, int64_t row, Loc loc) {
    Entry& entry = *entries_.at(id);
    if (entry.cancelled) return std::nullopt;
    try {
      entry.text.add(step, row, loc);
    } catch (...) {
      return Ended{id, std::move(entry.text).result(), std::current_exception()};
    }
    if (!entry.text.done()) return std::nullopt;
    return Ended{id, std::move(entry.text).result()};
  }

  void take_slot(Entry& entry) {
    if (entry.slot >= 0) return;
    entry.slot = free_slots_.back();
    free_slots_.pop_back();
  }
  // Pages that this step has filled serve later requests.
  void keep_pages(const Step& step) {
    const int64_t page = options_.scheduler.page;
    for (const StepPart& part : step.parts) {
      const Entry& entry = *entries_.at(part.id);
      if (prefix_ && part.first / page < (part.first + part.count) / page)
        prefix_->keep(entry.slot, entry.text.tokens(), entry.salt);
    }
  }
  void release(Entry& entry) {
    if (entry.slot < 0) return;
    cache_.truncate(entry.slot, 0);
    free_slots_.push_back(std::exchange(entry.slot, -1));
  }
  void forget(int64_t id) {
    release(*entries_.at(id));
    entries_.erase(id);
  }
  void drop_cancelled() {
    std::vector<int64_t> ids;
    for (const auto& [id, entry] : entries_)
      if (entry->cancelled) ids.push_back(id);
    for (const int64_t id : ids) scheduler_.cancel(id), forget(id);
  }
  // The scheduler counts pages by lengths, and the pool by holders: a page that leaks makes them differ.
  // Where requests share pages, the scheduler asks the pool, so the tables are counted instead.
  void require_balance() const {
    const int64_t needed = prefix_ ? pages_in_tables() : scheduler_.held_pages();
    if (cache_.pool().held() == needed) return;
    throw std::logic_error("the engine's cache holds " + std::to_string(cache_.pool().held()) +
                           " pages, and its requests need " + std::to_string(needed));
  }
  int64_t pages_in_tables() const {
    std::vector<bool> held(static_cast<size_t>(cache_.pool().total()));
    for (const auto& [id, entry] : entries_) {
      if (entry->slot < 0) continue;
      for (const int32_t page : cache_.table(entry->slot)) held[static_cast<size_t>(page)] = true;
    }
    return std::ranges::count(held, true);
  }

  // Answers the scheduler's questions about pages that requests share, from the prefix cache.
  struct PagesOfEngine : SharedPages {
    explicit PagesOfEngine(Engine& e) : engine(e) {}
    Reuse reusable(int64_t id) const override {
      const Entry& entry = *engine.entries_.at(id);
      return {engine.prefix_->find(entry.text.tokens(), entry.salt),
              engine.prefix_->cached_pages_of(entry.text.tokens(), entry.salt)};
    }
    int64_t begin(int64_t id) override {
      Entry& entry = *engine.entries_.at(id);
      engine.take_slot(entry);
      return engine.prefix_->match(entry.slot, entry.text.tokens(), entry.salt);
    }
    void give_back(int64_t id) override { engine.release(*engine.entries_.at(id)); }
    int64_t available() const override { return engine.cache_.pool().free() + engine.cache_.pool().cached(); }
    Engine& engine;
  };

  LanguageModel& model_;
  EngineOptions options_;
  PagesOfEngine shared_pages_{*this};
  Scheduler scheduler_;
  PagedCache cache_;
  std::optional<GraphDecode> decode_{};  // on a GPU
  std::optional<PrefixCache> prefix_;
  std::map<int64_t, std::unique_ptr<Entry>> entries_;  // waiting and running requests
  std::vector<Ended> finished_;                        // requests that ended without a step
  std::vector<int64_t> free_slots_;
  int64_t next_id_ = 0, steps_ = 0, tokens_ = 0, preemptions_ = 0;
  bool in_step_ = false;
};

}  // namespace tinytorch::inline TT_BUILD::serving
