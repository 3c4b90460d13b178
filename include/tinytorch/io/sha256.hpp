// SHA-256: a checksum of 32 bytes that changes with every bit of the data (FIPS 180-4).
//
//   Sha256 sum;
//   sum.add(first), sum.add(second);
//   std::string hex = sum.hex();       // 64 digits; the same for any division of the bytes
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <tinytorch/io/bytes.hpp>

namespace tinytorch::inline TT_BUILD {

class Sha256 {
 public:
  void add(Bytes bytes) {
    length_ += bytes.size();
    while (!bytes.empty()) {
      const size_t n = std::min(bytes.size(), block_.size() - filled_);
      std::memcpy(block_.data() + filled_, bytes.data(), n);
      filled_ += n, bytes = bytes.subspan(n);
      if (filled_ == block_.size()) mix();
    }
  }
  void add(std::string_view text) { add(as_bytes(text)); }

  // The checksum of what was added, in lower-case digits. More may be added afterwards.
  std::string hex() const {
    Sha256 end = *this;
    end.finish();
    constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const uint32_t word : end.state_)
      for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[word >> shift & 15];
    return out;
  }

 private:
  // A bit 1, zeros, and the number of bits at the end of a block.
  void finish() {
    const uint64_t bits = length_ * 8;
    block_[filled_++] = std::byte{0x80};
    if (filled_ > 56) {
      std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::byte{0});
      mix();
    }
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::byte{0});
    for (size_t i = 0; i < 8; ++i) block_[63 - i] = static_cast<std::byte>(bits >> 8 * i & 255);
    mix();
  }
  void mix() {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i) w[i] = io::load<uint32_t>(block_, 4 * i, std::endian::big);
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = w[i - 15], b = w[i - 2];
      const uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3,
                     s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10;
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25),
                     s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i],
                     t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t mixed[] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
    filled_ = 0;
  }

  // The first 32 bits of the fractions of the square roots of the first primes, and of their cube roots.
  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  static constexpr uint32_t kRound[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  std::array<std::byte, 64> block_{};
  size_t filled_ = 0;
  uint64_t length_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD
