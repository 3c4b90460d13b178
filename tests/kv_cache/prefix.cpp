#include <tinytorch/kv_cache/prefix.hpp>

#include <kv_cache/model.hpp>
#include <map>
#include <tinytorch/backend/cpu/gemm.hpp>
#include <tinytorch/kv_cache/contiguous.hpp>

using namespace test;

namespace {

using Text = std::vector<int32_t>;

// A cache of one value per token, whose memory a test can read. The value of a token depends on the salt and
// on all tokens up to it, so that a page of another text is noticed.
struct OpenCache : tt::PagedCache {
  OpenCache(int64_t sequences, int64_t pages, int64_t page)
      : PagedCache({.layers = 1, .groups = 1, .head_size = 1}, {.sequences = sequences, .capacity = 64},
                   {.pages = pages, .page = page}) {}
  float value(int64_t sequence, int64_t t) const {
    const int32_t p = table(sequence)[static_cast<size_t>(t / page())];
    return layers_[0].values.view_of().as<const float>()[p * page() + t % page()];
  }
};
float value_of(const std::string& salt, const Text& text, size_t t) {
  uint64_t h = 5;
  for (const char c : salt) h = tt::prefix::mix(h, static_cast<uint64_t>(c));
  for (size_t i = 0; i <= t; ++i) h = tt::prefix::mix(h, static_cast<uint64_t>(text[i]) + 7);
  return static_cast<float>(h % 100'003);
}
// Computes the tokens of `text` behind those that the sequence has.
void compute(OpenCache& cache, int64_t sequence, const std::string& salt, const Text& text) {
  std::vector<float> values;
  for (size_t t = static_cast<size_t>(cache.length(sequence)); t < text.size(); ++t)
    values.push_back(value_of(salt, text, t));
  std::vector<int64_t> counts(static_cast<size_t>(cache.sequences()), 0);
  counts[static_cast<size_t>(sequence)] = std::ssize(values);
  cache.begin(counts);
  const tt::Tensor v = tt::from_data(values, {1, 1, std::ssize(values), 1});
  (void)cache.attend(0, v, v, v, {.causal = true});
}
bool holds(const OpenCache& cache, int64_t sequence, const std::string& salt, const Text& text) {
  for (size_t t = 0; t < text.size(); ++t)
    if (cache.value(sequence, static_cast<int64_t>(t)) != value_of(salt, text, t)) return false;
  return true;
}
Text counting(int32_t first, size_t n) {
  Text out(n);
  for (size_t i = 0; i < n; ++i) out[i] = first + static_cast<int32_t>(i);
  return out;
}

// A model of the prefix cache: the texts that it should have kept, as plain lists of tokens.
struct Model {
  struct Entry {
    int64_t used = 0;
  };
  std::map<std::pair<std::string, Text>, Entry> kept;
  size_t page;
  int64_t calls = 0;

  bool has_child(const std::pair<std::string, Text>& key) const {
    return std::ranges::any_of(kept, [&](const auto& e) {
      return e.first.first == key.first && e.first.second.size() == key.second.size() + page &&
             std::equal(key.second.begin(), key.second.end(), e.first.second.begin());
    });
  }
  size_t longest(const std::string& salt, const Text& text) const {
    size_t n = 0;
    while (n + page < text.size() &&
           kept.contains({salt, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n + page))}))
      n += page;
    return n;
  }
  void touch(const std::string& salt, const Text& text, size_t tokens) {
    for (size_t n = page; n <= tokens; n += page)
      kept[{salt, Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n))}].used = calls;
  }
};

}  // namespace

TEST_CASE(
    "a hit is the longest kept beginning of full pages, and at least one token remains to be computed") {
  OpenCache cache(3, 20, 4);
  tt::PrefixCache prefix(cache);
  const Text text = counting(1, 11);
  CHECK(prefix.match(0, text) == 0);
  compute(cache, 0, "", text);
  prefix.keep(0, text);
  CHECK(prefix.pages() == 2);  // the third page is not full
  CHECK(prefix.find(text) == 8);
  CHECK(prefix.find(counting(1, 9)) == 8);
  CHECK(prefix.find(counting(1, 8)) == 4);  // the last token of the prompt has to be computed
  CHECK(prefix.find(counting(1, 4)) == 0);
  CHECK(prefix.find({}) == 0);
  Text other = text;
  other[5] = 99;  // in the second page
  CHECK(prefix.find(other) == 4);
  other[0] = 99;  // the second page alone is no beginning
  other[5] = text[5];
  CHECK(prefix.find(other) == 0);

  CHECK(prefix.match(1, text) == 8);
  CHECK(cache.length(1) == 8);
  CHECK(cache.table(1)[0] == cache.table(0)[0]);
  CHECK(cache.table(1)[1] == cache.table(0)[1]);
  compute(cache, 1, "", text);
  CHECK(holds(cache, 1, "", text));
  CHECK(cache.pool().held() == 4);
  cache.clear();
  CHECK(cache.pool().held() == 0);
  CHECK(cache.pool().cached() == 2);
  CHECK(cache.pool().free() == 18);
  CHECK(prefix.match(2, text) == 8);
  CHECK(cache.pool().cached() == 0);
  const tt::PrefixCounts& n = prefix.counts();
  CHECK(n.hits == 2);
  CHECK(n.misses == 1);
  CHECK(n.asked == 33);
  CHECK(n.reused == 16);
  CHECK(n.kept == 2);
  CHECK(n.evicted + n.merged + n.collisions == 0);
}

TEST_CASE("pages enter when their tokens are computed; a truncated end and what is written over it do not") {
  OpenCache cache(2, 20, 4);
  tt::PrefixCache prefix(cache);
  const Text text = counting(1, 16);
  cache.begin(std::vector<int64_t>{16, 0});  // announced, not computed
  prefix.keep(0, text);
  CHECK(prefix.pages() == 0);
  cache.truncate(0, 0);
  compute(cache, 0, "", text);
  cache.truncate(0, 9);  // tokens 10 to 16 were drafts, say
  prefix.keep(0, text);
  CHECK(prefix.pages() == 2);
  // A kept page is not written: the sequence goes on in a copy.
  cache.truncate(0, 6);
  Text changed = counting(1, 6);
  for (int32_t t = 50; t < 56; ++t) changed.push_back(t);
  compute(cache, 0, "", changed);
  CHECK(holds(cache, 0, "", changed));
  CHECK(prefix.match(1, text) == 8);
  CHECK(holds(cache, 1, "", counting(1, 8)));
  prefix.keep(0, changed);
  CHECK(prefix.pages() == 4);  // 1-4; 5-8; 5 6 50 51; 52-55
  CHECK(prefix.find(counting(1, 9)) == 8);
}

TEST_CASE("salts separate users, and a collision of hashes is no hit") {
  for (const bool weak : {false, true}) {
    OpenCache cache(4, 40, 4);
    tt::PrefixOptions options;
    if (weak) options.hash = [](uint64_t, std::span<const int32_t>) { return uint64_t{1}; };
    tt::PrefixCache prefix(cache, options);
    const Text text = counting(1, 13), other = counting(40, 13);
    compute(cache, 0, "alice", text);
    prefix.keep(0, text, "alice");
    compute(cache, 1, "alice", other);
    prefix.keep(1, other, "alice");
    CHECK(prefix.find(text, "alice") == 12);
    CHECK(prefix.find(other, "alice") == 12);
    CHECK(prefix.find(text, "bob") == 0);
    CHECK(prefix.find(text) == 0);
    Text mixed = text;
    std::copy(other.begin() + 4, other.end(), mixed.begin() + 4);
    CHECK(prefix.find(mixed, "alice") == 4);
    compute(cache, 2, "bob", text);
    prefix.keep(2, text, "bob");
    CHECK(prefix.pages() == 9);
    CHECK(prefix.match(3, text, "bob") == 12);
    CHECK(holds(cache, 3, "bob", counting(1, 12)));
    CHECK((prefix.counts().collisions > 0) == weak);
    // A sequence that shares alice's pages cannot enter them for bob.
    cache.truncate(3, 0);
    CHECK(prefix.match(3, text, "alice") == 12);
    prefix.keep(3, text, "carol");
    CHECK(prefix.find(text, "carol") == 0);
  }
}

TEST_CASE(
    "the page that was used longest ago goes first, but none that is held or that a longer prefix needs") {
  OpenCache cache(2, 8, 4);
  tt::PrefixCache prefix(cache);
  const auto keep = [&](const Text& text) {
    (void)prefix.match(0, text);
    compute(cache, 0, "", text);
    prefix.keep(0, text);
    cache.truncate(0, 0);
  };
  const Text a = counting(100, 9), b = counting(200, 9), c = counting(300, 9);
  keep(a), keep(b), keep(c);  // six cached pages, two free ones
  CHECK(cache.pool().cached() == 6);
  CHECK(prefix.match(1, b) == 8);  // b is held, and a the oldest
  compute(cache, 0, "", counting(400, 12));
  CHECK(prefix.find(a) == 4);  // its second page, which is the leaf
  CHECK(prefix.find(b) == 8);
  CHECK(prefix.find(c) == 8);
  cache.truncate(0, 0);
  CHECK(prefix.match(0, a) == 4);  // a is used now, and c the oldest
  compute(cache, 0, "", counting(100, 20));
  CHECK(prefix.find(c) == 4);
  CHECK(prefix.counts().evicted == 2);
  // Free pages and evictable ones are 1; three do not fit, and nothing is evicted for them.
  CHECK(cache.pool().free() + cache.pool().cached() == 1);
  std::vector<int64_t> counts{0, 12};
  expect_error("TT-KV-06", "all 8 pages", [&] { cache.begin(counts); });
  CHECK(prefix.counts().evicted == 2);
  CHECK(prefix.find(c) == 4);
  prefix.clear();
  CHECK(prefix.find(c) == 0);
  CHECK(prefix.find(b) == 8);  // held
  CHECK(cache.pool().cached() == 0);
}

TEST_CASE("two texts that were computed at the same time share their pages afterwards") {
  OpenCache cache(2, 20, 4);
  tt::PrefixCache prefix(cache);
  const Text text = counting(1, 10);
  compute(cache, 0, "", text), compute(cache, 1, "", text);
  CHECK(cache.pool().held() == 6);
  prefix.keep(0, text), prefix.keep(1, text);
  CHECK(cache.pool().held() == 4);
  CHECK(prefix.counts().merged == 2);
  CHECK(holds(cache, 1, "", text));
  Text longer = counting(1, 14);
  compute(cache, 1, "", longer);
  CHECK(holds(cache, 1, "", longer));
  prefix.keep(1, longer);
  CHECK(prefix.find(longer) == 12);
}

TEST_CASE(
    "free + held + cached = total through 100,000 random calls, and the kept pages are those of a model") {
  for (const bool weak : {false, true}) {
    constexpr int64_t kSequences = 5, kPages = 17;
    constexpr size_t kPage = 3;
    OpenCache cache(kSequences, kPages, kPage);
    tt::PrefixOptions options;
    if (weak)
      options.hash = [](uint64_t before, std::span<const int32_t> t) {
        return (before + static_cast<uint64_t>(t[0])) % 4;
      };
    tt::PrefixCache prefix(cache, options);
    Model model{.kept = {}, .page = kPage};
    tt::Generator g(weak ? 2 : 1);
    std::vector<Text> texts(kSequences), covered(kSequences);  // covered: with the rest of the last page
    std::vector<std::string> salts(kSequences);
    int64_t evicted = 0, refused = 0;
    // The leaves that no sequence holds, the oldest first.
    const auto evict_in_model = [&](const std::pair<std::string, Text>& copied) {
      auto oldest = model.kept.end();
      for (auto i = model.kept.begin(); i != model.kept.end(); ++i) {
        bool held = false;
        const Text& entry = i->first.second;
        for (size_t s = 0; s < texts.size(); ++s) {
          const bool begins = salts[s] == i->first.first && covered[s].size() >= entry.size() &&
                              std::equal(entry.begin(), entry.end(), covered[s].begin());
          const auto table = cache.table(static_cast<int64_t>(s));
          held =
              held || (begins && (cache.pool().kept(table[entry.size() / kPage - 1]) || i->first == copied));
        }
        if (held || model.has_child(i->first)) continue;
        if (oldest == model.kept.end() || i->second.used < oldest->second.used) oldest = i;
      }
      if (oldest == model.kept.end()) FAIL("nothing to evict");
      model.kept.erase(oldest);
    };
    const int calls = weak ? 20'000 : 80'000;
    for (int call = 0; call < calls; ++call) {
      const auto s = static_cast<size_t>(g.below(kSequences));
      const auto n = static_cast<int64_t>(s);
      const uint64_t what = g.below(10);
      if (texts[s].empty()) {  // a new text, of two tokens, so that beginnings are often equal
        salts[s] = g.below(4) == 0 ? "u" : "";
        Text text(1 + g.below(20));
        for (int32_t& t : text) t = static_cast<int32_t>(g.below(8) == 0);
        ++model.calls;
        const size_t wanted = model.longest(salts[s], text);
        const auto found = static_cast<size_t>(prefix.match(n, text, salts[s]));
        if (found != wanted) FAIL("call ", call, ": ", found, " instead of ", wanted);
        model.touch(salts[s], text, found);
        covered[s] = texts[s] = Text(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(found));
      } else if (what < 2) {
        const auto kept = static_cast<size_t>(g.below(texts[s].size() + 1));
        cache.truncate(n, static_cast<int64_t>(kept));
        texts[s].resize(kept);
        covered[s].resize(std::min(covered[s].size(), (kept + kPage - 1) / kPage * kPage));
      } else if (what < 5) {
        ++model.calls;
        prefix.keep(n, texts[s], salts[s]);
        model.touch(salts[s], texts[s], texts[s].size() / kPage * kPage);
      }
      if (what >= 5 && texts[s].size() < 40) {
        Text longer = texts[s];
        for (uint64_t i = 0; i <= g.below(6); ++i) longer.push_back(static_cast<int32_t>(g.below(8) == 0));
        // The last page is held until it is copied, which is the first thing that a new page is needed for.
        const bool copies = texts[s].size() % kPage > 0 && cache.pool().kept(cache.table(n).back());
        int64_t takes = cache.pool().free();
        try {
          compute(cache, n, salts[s], longer);
          for (; evicted < prefix.counts().evicted; ++evicted, ++takes)
            evict_in_model({salts[s], takes == 0 && copies ? covered[s] : Text()});
          covered[s] = texts[s] = longer;
        } catch (const tt::Error&) {
          ++refused;
          CHECK(evicted == prefix.counts().evicted);
          cache.truncate(n, 0), texts[s].clear(), covered[s].clear();
        }
      }
      std::map<int32_t, int64_t> holders;
      for (int64_t b = 0; b < kSequences; ++b)
        for (const int32_t page : cache.table(b)) ++holders[page];
      int64_t cached = 0, kept = 0;
      for (int32_t p = 0; p < kPages; ++p) {
        const bool keeps = cache.pool().kept(p);
        kept += keeps, cached += keeps && !holders.contains(p);
        if (cache.pool().holders(p) != (holders.contains(p) ? holders[p] : 0) + keeps) FAIL("call ", call);
      }
      const tt::BlockPool& pool = cache.pool();
      if (pool.held() != std::ssize(holders) || pool.cached() != cached || prefix.pages() != kept ||
          pool.free() + pool.held() + pool.cached() != pool.total() ||
          prefix.pages() != std::ssize(model.kept))
        FAIL("call ", call);
      if (!holds(cache, n, salts[s], texts[s])) FAIL("call ", call, ": a page of another text");
    }
    CHECK(refused > 100);
    CHECK(evicted > 1000);
    CHECK(prefix.counts().hits > 1000);
    CHECK(prefix.counts().merged > 100);
    CHECK((prefix.counts().collisions > 0) == weak);
    cache.clear(), prefix.clear();
    CHECK(cache.pool().free() == kPages);
  }
}

TEST_CASE("a model's logits have the same bits after a hit as without a prefix cache") {
  tt::Llama llama = small_llama();
  tt::Gpt2 gpt2 = small_gpt2();
  const tt::NoGrad no_grad;
  const tt::backend::cpu::ProductsByRows by_rows;  // bits do not depend on the length of a step
  for (tt::LanguageModel* model :
       {static_cast<tt::LanguageModel*>(&gpt2), static_cast<tt::LanguageModel*>(&llama)}) {
    for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i8}) {
      const tt::Tensor tokens = some_tokens(1, 60);
      const std::vector<int64_t> ids = tokens.to_vector<int64_t>();
      const Text text(ids.begin(), ids.end());
      tt::PagedCache cache(model->kv_shape(), {.sequences = 3, .capacity = 80, .dtype = dtype},
                           {.pages = 30, .page = 16});
      tt::PrefixCache prefix(cache);
      const auto feed = [&](int64_t sequence, int64_t from, int64_t to) {
        std::vector<int64_t> counts(3, 0);
        counts[static_cast<size_t>(sequence)] = to - from;
        cache.begin(counts);
        return model->forward(tt::slice(tokens, 1, from, to), &cache);
      };
      const tt::Tensor cold = tt::slice(feed(0, 0, 60), 1, 48, 60);
      prefix.keep(0, text);
      CHECK(prefix.match(1, text) == 48);
      CHECK(difference(feed(1, 48, 60), cold) == 0);
      // With the end of the text written over, the kept pages stay as they are.
      cache.truncate(1, 40);
      (void)feed(1, 50, 60);
      CHECK(prefix.match(2, text) == 48);
      CHECK(difference(feed(2, 48, 60), cold) == 0);
    }
  }
}

TEST_CASE("misuse is refused, and a prefix cache that ends gives its pages back") {
  OpenCache cache(2, 20, 4);
  {
    tt::PrefixCache prefix(cache);
    expect_error("TT-KV-01", "one prefix cache", [&] { tt::PrefixCache second(cache); });
    compute(cache, 0, "", counting(1, 9));
    expect_error("TT-KV-03", "already has tokens", [&] { prefix.match(0, counting(1, 9)); });
    prefix.keep(0, counting(1, 9));
    cache.clear();
    CHECK(cache.pool().cached() == 2);
  }
  CHECK(cache.pool().free() == 20);
  tt::PrefixCache again(cache);
  CHECK(again.find(counting(1, 9)) == 0);
}
