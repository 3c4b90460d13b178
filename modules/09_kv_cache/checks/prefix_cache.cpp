#include <tinytorch/kv_cache/prefix.hpp>

#include <support/check.hpp>

using namespace course;

namespace {

using Text = std::vector<int32_t>;

Text counting(int32_t first, int64_t count) {
  Text text(static_cast<size_t>(count));
  std::iota(text.begin(), text.end(), first);
  return text;
}
Text joined(Text text, const Text& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

// A paged cache with one number for each token, which stands for its key and value: it depends on the user
// and on all tokens up to it, as those of a model do. So a page of another text, or another user, shows.
class OpenCache : public PagedCache {
 public:
  OpenCache(int64_t sequences, int64_t pages, int64_t page)
      : PagedCache({1, 1, 1}, {.sequences = sequences, .capacity = 64, .device = cpu, .dtype = f64},
                   {.pages = pages, .page = page}) {}

  static double number_of(const std::string& user, const Text& text, size_t t) {
    double x = user.empty() ? 1 : 1 + user.front();
    for (size_t i = 0; i <= t; ++i) x = std::fmod(31 * x + text[i] + 7, 65521);
    return x;
  }
  // Computes the tokens of the text that the sequence does not have yet.
  void compute(int64_t sequence, const Text& text, const std::string& user = "") {
    Numbers x;
    for (auto t = static_cast<size_t>(length(sequence)); t < text.size(); ++t)
      x.push_back(number_of(user, text, t));
    std::vector<int64_t> counts(static_cast<size_t>(sequences()), 0);
    counts[static_cast<size_t>(sequence)] = std::ssize(x);
    begin(counts);
    const Tensor rows = from_data(x, {1, 1, std::ssize(x), 1});
    (void)attend(0, rows, rows, rows, {.causal = true});
  }
  void expect_text(int64_t sequence, const Text& text, const std::string& user = "") const {
    Numbers got, want;
    const double* const memory = layers_[0].values.view_of().as<const double>();
    for (int64_t t = 0; t < length(sequence); ++t) {
      got.push_back(memory[table(sequence)[static_cast<size_t>(t / page())] * page() + t % page()]);
      want.push_back(number_of(user, text, static_cast<size_t>(t)));
    }
    expect_equal("sequence " + shown(sequence) + " reads what was computed for its own text" +
                     (user.empty() ? "" : " and user " + user),
                 got, want);
  }
};

// Each page has the holders that are known: the sequences whose tables name it, and the prefix cache.
void expect_pages(const OpenCache& cache, const PrefixCache& prefix) {
  const BlockPool& pool = cache.pool();
  std::map<int32_t, int64_t> holders;
  for (int64_t b = 0; b < cache.sequences(); ++b)
    for (const int32_t page : cache.table(b)) ++holders[page];
  int64_t kept = 0, cached = 0;
  for (int32_t page = 0; page < pool.total(); ++page) {
    const int64_t sequences = holders.contains(page) ? holders[page] : 0;
    kept += pool.kept(page), cached += pool.kept(page) && sequences == 0;
    expect_equal("holders of page " + shown(page) + ": " + shown(sequences) + " sequences" +
                     (pool.kept(page) ? " and the prefix cache" : ""),
                 pool.holders(page), sequences + pool.kept(page));
  }
  expect_equal("pages that the prefix cache keeps", prefix.pages(), kept);
  expect_equal("cached pages, which no sequence holds", pool.cached(), cached);
  expect_equal("free + held + cached", pool.free() + pool.held() + pool.cached(), pool.total());
}

}  // namespace

TEST_CASE("9.8 a hit is the longest kept beginning of full pages") {
  OpenCache cache(3, 20, 4);
  PrefixCache prefix(cache);
  const Text text = counting(1, 11);
  expect_equal("match() of an empty prefix cache", prefix.match(0, text), int64_t{0});
  cache.compute(0, text);
  prefix.keep(0, text);
  expect_equal("kept pages of 4 tokens, of a text of 11", prefix.pages(), int64_t{2});
  Text changed = text;
  changed[5] = 99;
  expect_equal("a text that differs in its second page", prefix.find(changed), int64_t{4});
  expect_equal("match() of a text of which two pages are kept", prefix.match(1, text), int64_t{8});
  expect_equal("the length of its sequence", cache.length(1), int64_t{8});
  for (size_t i = 0; i < 2; ++i)
    expect_equal("page " + shown(static_cast<int64_t>(i)) + " of both sequences", cache.table(1)[i],
                 cache.table(0)[i]);
  expect_pages(cache, prefix);
  cache.compute(1, text);
  cache.expect_text(1, text);
  expect_throws("TT-KV-03", "match() for a sequence that has tokens", [&] { prefix.match(1, text); });
  cache.clear();
  expect_equal("cached pages when the sequences are gone", cache.pool().cached(), int64_t{2});
  expect_equal("the pages are still found", prefix.match(2, text), int64_t{8});
  cache.expect_text(2, text);
  expect_pages(cache, prefix);
  const PrefixCounts& n = prefix.counts();
  expect_equal("hits, misses, asked and reused tokens",
               std::vector<int64_t>{n.hits, n.misses, n.asked, n.reused}, std::vector<int64_t>{2, 1, 33, 16});
}

TEST_CASE("9.8 the last token of a prompt is always computed, because its logits are needed") {
  OpenCache cache(2, 20, 4);
  PrefixCache prefix(cache);
  cache.compute(0, counting(1, 12));
  prefix.keep(0, counting(1, 12));
  for (const auto& [length, found] :
       {std::pair<int64_t, int64_t>{13, 12}, {12, 8}, {9, 8}, {8, 4}, {4, 0}, {0, 0}})
    expect_equal("tokens found for a prompt of " + shown(length) + ", with pages of 4",
                 prefix.match(1, counting(1, length)), found),
        cache.truncate(1, 0);
  // A prompt that is longer than the cache's capacity of 64: the caller truncates or refuses it.
  OpenCache small(2, 40, 4);
  PrefixCache of_small(small);
  small.compute(0, counting(1, 64));
  of_small.keep(0, counting(1, 64));
  expect_equal("tokens found for a prompt of 90, with a capacity of 64", of_small.match(1, counting(1, 90)),
               int64_t{64});
}

TEST_CASE("9.8 a page is found only behind the tokens that were before it") {
  OpenCache cache(3, 30, 4);
  PrefixCache prefix(cache);
  const Text middle = counting(50, 4), a = joined(joined(counting(1, 4), middle), counting(80, 4)),
             b = joined(joined(counting(9, 4), middle), counting(80, 4));
  cache.compute(0, a);
  prefix.keep(0, a);
  expect_equal("pages 2 and 3 of the kept text, behind another first page", prefix.find(joined(b, {0})),
               int64_t{0});
  expect_equal("a text that begins with the second page", prefix.find(joined(middle, counting(80, 9))),
               int64_t{0});
  cache.compute(1, b);
  prefix.keep(1, b);
  expect_equal("kept pages of two texts of 3 pages that differ in the first", prefix.pages(), int64_t{6});
  for (const Text& text : {a, b}) {
    prefix.match(2, joined(text, {0}));
    expect_equal("tokens of a match", cache.length(2), int64_t{12});
    cache.expect_text(2, text);
    cache.truncate(2, 0);
  }
  // A text whose pages have equal tokens: each is the parent of the next one.
  const Text same(17, 3);
  cache.clear();
  cache.compute(0, same);
  prefix.keep(0, same);
  expect_equal("a text of 17 equal tokens", prefix.match(2, same), int64_t{16});
  cache.expect_text(2, same);
  expect_pages(cache, prefix);
}

TEST_CASE("9.8 the hash of a page begins with that of the tokens before it, and the first with the salt") {
  OpenCache cache(1, 20, 4);
  std::map<int32_t, uint64_t> before;  // of the page that begins with this token
  PrefixCache prefix(cache, {.hash = [&](uint64_t h, std::span<const int32_t> tokens) {
                       expect_equal("tokens that are hashed at once: a page", std::ssize(tokens), int64_t{4});
                       before[tokens[0]] = h;
                       return h + 1000 + static_cast<uint64_t>(tokens[0]);
                     }});
  const Text text = counting(1, 13);
  cache.compute(0, text);
  prefix.keep(0, text);
  expect_equal("before page 1: the hash of page 0", before[5], before[1] + 1001);
  expect_equal("before page 2: the hash of page 1", before[9], before[5] + 1005);
  std::set<uint64_t> first;
  for (const std::string salt : {"", "a", "b", "ab", "ba"}) prefix.find(text, salt), first.insert(before[1]);
  expect_equal("different hashes before the first page, for 5 salts", std::ssize(first), int64_t{5});
}

TEST_CASE("9.8 a collision of hashes is no hit") {
  OpenCache cache(4, 40, 4);
  PrefixCache prefix(cache, {.hash = [](uint64_t, std::span<const int32_t>) { return uint64_t{1}; }});
  const std::vector<Text> texts = {counting(1, 13), counting(100, 13),
                                   joined(counting(1, 4), counting(200, 9)),
                                   joined(counting(100, 4), counting(5, 9))};
  for (int64_t i = 0; i < 4; ++i) {
    cache.compute(0, texts[static_cast<size_t>(i)]);
    prefix.keep(0, texts[static_cast<size_t>(i)]);
    cache.truncate(0, 0);
    expect_pages(cache, prefix);
  }
  expect_equal("kept pages: 3 of each text, of which one page is common to two", prefix.pages(), int64_t{10});
  for (const Text& text : texts) {
    expect_equal("tokens found, although all hashes are equal", prefix.match(1, text), int64_t{12});
    cache.expect_text(1, text);
    cache.truncate(1, 0);
  }
  expect("collisions are counted", prefix.counts().collisions > 0);
  expect_equal("a text of which only the hashes are kept", prefix.find(counting(300, 13)), int64_t{0});
}

TEST_CASE("9.8 a page that goes takes no other with its hash along") {
  OpenCache cache(2, 5, 4);
  PrefixCache prefix(cache, {.hash = [](uint64_t, std::span<const int32_t>) { return uint64_t{1}; }});
  const auto text = [](int i) { return counting(100 * i, 5); };
  for (int i = 0; i < 4; ++i) {
    cache.compute(0, text(i));
    prefix.keep(0, text(i));
    cache.truncate(0, 0);
  }
  for (const int i : {0, 2}) prefix.match(0, text(i)), cache.truncate(0, 0);
  cache.compute(1, counting(900, 9));  // 3 pages, of which one is free: those of texts 1 and 3 go
  for (int i = 0; i < 4; ++i) {
    expect_equal("tokens found of text " + shown(i) + " of 4; 1 and 3 were evicted", prefix.find(text(i)),
                 int64_t{i % 2 == 0 ? 4 : 0});
  }
  expect_pages(cache, prefix);
}

TEST_CASE("9.8 users with different salts share nothing") {
  for (const bool weak : {false, true}) {
    OpenCache cache(4, 40, 4);
    PrefixOptions options;
    if (weak) options.hash = [](uint64_t, std::span<const int32_t>) { return uint64_t{1}; };
    PrefixCache prefix(cache, options);
    const std::string how = weak ? ", with equal hashes" : "";
    const Text text = counting(1, 13);
    cache.compute(0, text, "a");
    prefix.keep(0, text, "a");
    expect_equal("another user's text" + how, prefix.find(text, "b"), int64_t{0});
    expect_equal("the text without a salt" + how, prefix.find(text), int64_t{0});
    cache.compute(1, text, "b");
    prefix.keep(1, text, "b");
    expect_equal("kept pages: 3 of each user" + how, prefix.pages(), int64_t{6});
    for (const std::string user : {"a", "b"}) {
      expect_equal("a user's own text" + how, prefix.match(2, text, user), int64_t{12});
      cache.expect_text(2, text, user);
      cache.truncate(2, 0);
    }
    // A sequence holds user a's pages; under another name they are not kept.
    prefix.match(3, text, "a");
    prefix.keep(3, text, "c");
    expect_equal("the pages of user a, asked for as c" + how, prefix.find(text, "c"), int64_t{0});
    expect_pages(cache, prefix);
  }
}

TEST_CASE("9.8 pages are kept when their tokens are computed, not when they are announced") {
  OpenCache cache(2, 20, 4);
  PrefixCache prefix(cache);
  const Text text = counting(1, 16);
  cache.begin(std::vector<int64_t>{16, 0});
  prefix.keep(0, text);
  expect_equal("kept pages of a step that has only been announced", prefix.pages(), int64_t{0});
  cache.truncate(0, 0);
  cache.compute(0, text);
  cache.truncate(0, 9);  // the model rejected the tokens behind it
  prefix.keep(0, text);
  expect_equal("kept pages of 4 tokens, when 9 tokens of 16 are left", prefix.pages(), int64_t{2});
  cache.truncate(0, 6);
  const Text other = joined(counting(1, 6), counting(60, 6));
  cache.compute(0, other);  // a kept page is copied before it is written
  cache.expect_text(0, other);
  prefix.match(1, text);
  cache.expect_text(1, text);
  prefix.keep(0, other);
  expect_equal("kept pages of 1-8 and of 1-6, 60-65", prefix.pages(), int64_t{4});
  expect_pages(cache, prefix);
  cache.truncate(1, 0);
  prefix.keep(1, text);
  expect_equal("an empty sequence keeps nothing more", prefix.pages(), int64_t{4});
}

TEST_CASE("9.8 equal pages that were computed twice are needed once") {
  OpenCache cache(3, 20, 4);
  PrefixCache prefix(cache);
  const Text text = counting(1, 10);
  cache.compute(0, text), cache.compute(1, text);
  prefix.keep(0, text), prefix.keep(1, text);
  expect_equal("held pages: 2 that both sequences hold, and the last one of each", cache.pool().held(),
               int64_t{4});
  expect_equal("pages that were given up", prefix.counts().merged, int64_t{2});
  expect_pages(cache, prefix);
  cache.compute(1, counting(1, 14));
  cache.expect_text(1, counting(1, 14));
  cache.expect_text(0, text);
  prefix.keep(1, counting(1, 14));
  expect_equal("tokens found of the longer text", prefix.match(2, counting(1, 14)), int64_t{12});
  expect_pages(cache, prefix);
}

TEST_CASE("9.8 the page that was used longest ago goes first, and none that is held") {
  OpenCache cache(2, 8, 4);
  PrefixCache prefix(cache);
  const auto use = [&](const Text& text) {
    prefix.match(0, text);
    cache.compute(0, text);
    prefix.keep(0, text);
    cache.truncate(0, 0);
  };
  const auto found = [&](const Text& a, const Text& b, const Text& c) {
    return std::vector<int64_t>{prefix.find(a), prefix.find(b), prefix.find(c)};
  };
  const Text a = counting(100, 9), b = counting(200, 9), c = counting(300, 9);
  use(a), use(b), use(c);
  expect_equal("three texts of 2 pages are kept: cached pages", cache.pool().cached(), int64_t{6});
  prefix.match(1, b);
  cache.compute(0, counting(400, 12));  // 3 pages, of which 2 are free
  expect_equal("found of the texts a, b (held) and c after one eviction: the end of a has gone",
               found(a, b, c), std::vector<int64_t>{4, 8, 8});
  expect_pages(cache, prefix);
  cache.truncate(0, 0);
  prefix.match(0, a);  // a is used now, so that c is the oldest
  cache.truncate(0, 0);
  cache.compute(0, counting(500, 13));
  expect_equal("found after a was used, and 4 pages more were needed: the end of c has gone", found(a, b, c),
               std::vector<int64_t>{4, 8, 4});
  expect_equal("evicted pages", prefix.counts().evicted, int64_t{2});
  expect_throws("TT-KV-06", "3 more pages, of which 2 can be had", [&] {
    cache.begin(std::vector<int64_t>{0, 12});
  });
  expect_equal("found after the refusal: nothing was evicted for it", found(a, b, c),
               std::vector<int64_t>{4, 8, 4});
  cache.truncate(0, 0);
  prefix.clear();
  expect_equal("found after clear(): b, which is held", found(a, b, c), std::vector<int64_t>{0, 8, 0});
  expect_pages(cache, prefix);
  cache.clear(), prefix.clear();
  expect_equal("free pages at the end", cache.pool().free(), int64_t{8});
}

TEST_CASE("9.8 random texts: each sequence reads its own, and no page is lost") {
  constexpr int64_t kSequences = 4;
  for (const bool weak : {false, true}) {
    OpenCache cache(kSequences, 16, 3);
    PrefixOptions options;
    if (weak)
      options.hash = [](uint64_t before, std::span<const int32_t> t) {
        return (before + static_cast<uint64_t>(t[0])) % 3;
      };
    PrefixCache prefix(cache, options);
    std::vector<Text> texts(kSequences);
    std::vector<std::string> users(kSequences);
    for (int i = 0; i < 800; ++i) {
      const auto b = static_cast<int64_t>(uniform(0, kSequences));
      Text& text = texts[static_cast<size_t>(b)];
      std::string& user = users[static_cast<size_t>(b)];
      const auto action = static_cast<int>(uniform(0, 5));
      if (text.empty()) {  // of two tokens, so that beginnings are often equal
        user = uniform(0, 3) < 1 ? "u" : "";
        for (int64_t n = static_cast<int64_t>(uniform(1, 20)); n > 0; --n)
          text.push_back(uniform(0, 6) < 1 ? 1 : 0);
        text.resize(static_cast<size_t>(prefix.match(b, text, user)));
      } else if (action == 0) {
        text.resize(static_cast<size_t>(uniform(0, static_cast<double>(text.size() + 1))));
        cache.truncate(b, std::ssize(text));
      } else if (action == 1) {
        prefix.keep(b, text, user);
      } else if (text.size() < 30) {
        Text longer = text;
        for (int n = static_cast<int>(uniform(1, 6)); n > 0; --n) longer.push_back(uniform(0, 6) < 1 ? 1 : 0);
        const int64_t room = cache.pool().free() + cache.pool().cached();
        try {
          cache.compute(b, longer, user);
          text = longer;
        } catch (const Error& e) {
          if (e.code() != "TT-KV-06") throw;
          expect("a step of " + shown(std::ssize(longer) - std::ssize(text)) + " tokens is refused with " +
                     shown(room) + " pages free or cached",
                 room <= 3);
          cache.truncate(b, 0), text.clear();
        }
      }
      cache.expect_text(b, text, user);
      expect_equal("length", cache.length(b), std::ssize(text));
      expect_pages(cache, prefix);
    }
    cache.clear(), prefix.clear();
    expect_equal("free pages at the end", cache.pool().free(), int64_t{16});
  }
}
