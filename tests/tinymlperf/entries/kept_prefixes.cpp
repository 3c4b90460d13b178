// Texts that were continued with kept beginnings are those of a model that keeps nothing, and salts are
// apart.
#include <doctest/doctest.h>

#include <tinymlperf/entries/kept_prefixes.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>

using namespace tinymlperf;

namespace {

std::vector<int32_t> random_text(tt::Generator& random, int64_t n) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>(random.below(256)));
  return out;
}

}  // namespace

TEST_CASE("a kept beginning changes no token, serves its own salt alone, and is compared token by token") {
  tt::manual_seed(3);
  tt::Gpt2 model({.vocabulary = 256, .context = 64, .features = 32, .layers = 2, .heads = 4});
  model.eval();
  KeptPrefixes kept(model);
  tt::Generator random(11);
  const std::vector<int32_t> system = random_text(random, 48);
  const auto continued = [&](const std::vector<int32_t>& prompt, std::string_view salt, int64_t count = 4) {
    std::vector<int32_t> out;
    kept.continue_prompt(prompt, count, salt, [&](int32_t t) { out.push_back(t); });
    const auto plain = tt::generate(model, prompt, {.max_tokens = count, .sampling = {.temperature = 0}});
    CHECK(out == plain.tokens);
    return out;
  };
  const auto reused_by = [&](const std::vector<int32_t>& prompt, std::string_view salt) {
    const int64_t before = kept.counts().reused;
    continued(prompt, salt);
    return kept.counts().reused - before;
  };
  const auto prompt = [&](int64_t own) {
    std::vector<int32_t> out = system;
    for (const int32_t t : random_text(random, own)) out.push_back(t);
    return out;
  };
  CHECK(reused_by(prompt(5), "ada") == 0);
  for (const int64_t own : {1, 2, 7, 12}) CHECK(reused_by(prompt(own), "ada") == 48);
  CHECK(reused_by(prompt(5), "bob") == 0);
  std::vector<int32_t> start = prompt(3), end = prompt(3);
  start[0] ^= 1, end[47] ^= 1;
  CHECK(reused_by(start, "ada") == 0);
  CHECK(reused_by(end, "ada") == 32);  // two of three pages
  // Hundreds of other prompts push the oldest pages out, and texts stay the same.
  for (int i = 0; i < 200; ++i) continued(random_text(random, 1 + i % 60), "ada");
  CHECK(kept.counts().evicted > 0);
  CHECK(continued(prompt(12), "ada", 0).empty());
}
