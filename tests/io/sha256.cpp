#include <doctest/doctest.h>

#include <random>
#include <support/fresh.hpp>
#include <tinytorch/io/sha256.hpp>

using namespace tinytorch;

namespace {

std::string sha256(std::string_view text) {
  Sha256 sum;
  sum.add(text);
  return sum.hex();
}

}  // namespace

TEST_CASE("the checksums of FIPS 180-4's examples") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("the division of the bytes does not matter, and every bit does") {
  static test::Fresh fresh;
  std::mt19937_64 g(fresh.next());
  for (size_t n = 0; n < 200; ++n) {
    std::string text(n, ' ');
    for (char& c : text) c = static_cast<char>(g());
    const std::string whole = sha256(text);
    Sha256 parts;
    for (size_t at = 0; at < n;) {
      const size_t some = std::min<size_t>(n - at, g() % 70);
      parts.add(std::string_view(text).substr(at, some));
      (void)parts.hex();
      at += some;
    }
    CHECK(parts.hex() == whole);
    if (n == 0) continue;
    text[g() % n] ^= static_cast<char>(1 << g() % 8);
    CHECK(sha256(text) != whole);
  }
}
