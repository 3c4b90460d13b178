// Prompts as queries, and what a continuation must be.
#include <doctest/doctest.h>

#include <tinymlperf/benchmarks/prompt.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

channel::Tensor bytes(const std::string& all) { return byte_tensor(all, {std::ssize(all)}); }

}  // namespace

TEST_CASE("a prompt is its text, the number of tokens and, if it has one, its salt") {
  const channel::Tensors plain = to_tensors({"once", 7}), salted = to_tensors({"once", 7, {"\0\xff", 2}});
  REQUIRE(plain.size() == 2);
  CHECK(plain[0].shape == std::vector<int64_t>{1, 4});
  CHECK(plain[0].dtype == channel::DType::u8);
  CHECK(plain[1].values<int64_t>()[0] == 7);
  REQUIRE(salted.size() == 3);
  CHECK(salted[2].shape == std::vector<int64_t>{2});
  CHECK(salted[2].values<uint8_t>()[1] == 255);
}

TEST_CASE("a continuation was streamed token by token, and is the answer that ends it") {
  const std::string text = "abcdefgh";
  std::vector<channel::Tensors> streamed;
  for (const char c : text) streamed.push_back({bytes(std::string(1, c))});
  CHECK(continuation_of(8, streamed, {bytes(text)}) == text);
  CHECK(continuation_of(0, {}, {bytes("")}).empty());
  const auto refused = [&](const std::vector<channel::Tensors>& tokens, const channel::Tensors& answer) {
    CHECK_THROWS_AS(continuation_of(8, tokens, answer), std::runtime_error);
  };
  auto fewer = streamed;
  fewer.pop_back();
  refused(fewer, {bytes(text)});            // one not streamed
  refused({{bytes(text)}}, {bytes(text)});  // all at once
  auto other = streamed;
  other[3] = {bytes("x")};
  refused(other, {bytes(text)});       // another than in the answer
  refused(fewer, {bytes("abcdefg")});  // both shorter than asked
  refused(streamed, {});
  refused(streamed, {bytes(text), bytes(text)});
  refused(streamed, {channel::make_tensor({2}, std::vector<float>{1, 2})});  // eight bytes of another dtype
}
