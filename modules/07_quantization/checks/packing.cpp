#include <support/check.hpp>
#include <tinytorch/backend/cpu/blocks/pack.hpp>

#include <atomic>
#include <new>

#include "golden_blocks.hpp"

using namespace course;
namespace cpu = tinytorch::backend::cpu;

namespace {

std::atomic<size_t> bytes_allocated{0};

}  // namespace

// Counts what a program allocates, so that a copy of the numbers cannot hide.
void* operator new(size_t size) {
  bytes_allocated += size;
  if (void* const p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace {

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

Bytes bytes_of(const char* hexadecimal) {
  Bytes out;
  for (const char* p = hexadecimal; *p != '\0'; p += 2) {
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    out.push_back(static_cast<uint8_t>(digit(p[0]) << 4 | digit(p[1])));
  }
  return out;
}
Floats floats_of(const char* hexadecimal) {
  const Bytes bytes = bytes_of(hexadecimal);
  Floats out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

struct Format {
  const char* name;
  int64_t block, bytes;
  void (*pack)(const float*, uint8_t*);
  void (*unpack)(const uint8_t*, float*);
};
// Calls, not addresses, so that a function that is not written yet names itself.
const Format kFormats[] = {
    {"Q8_0", 32, 34, [](const float* x, uint8_t* b) { cpu::pack_q8_0(x, b); },
     [](const uint8_t* b, float* x) { cpu::unpack_int8_codes(b, 2, x); }},
    {"Q4_0", 32, 18, [](const float* x, uint8_t* b) { cpu::pack_q4_0(x, b); },
     [](const uint8_t* b, float* x) { cpu::unpack_q4_0(b, x); }},
    {"Q4_K", 256, 144, [](const float* x, uint8_t* b) { cpu::pack_q4_k(x, b); },
     [](const uint8_t* b, float* x) { cpu::unpack_q4_k(b, x); }},
};
const Format& q8_0 = kFormats[0];
const Format& q4_0 = kFormats[1];
const Format& q4_k = kFormats[2];

// The packed bytes, between guards that must stay as they are.
Bytes packed(const Format& f, const Floats& x) {
  const int64_t blocks = std::ssize(x) / f.block;
  Bytes out;
  for (int64_t b = 0; b < blocks; ++b) {
    Bytes block(static_cast<size_t>(f.bytes + 16), 0xa5);
    f.pack(x.data() + b * f.block, block.data() + 8);
    for (size_t i = 0; i < 8; ++i)
      expect(std::string(f.name) + ": a block has " + shown(f.bytes) + " bytes, and no others are written",
             block[i] == 0xa5 && block[block.size() - 1 - i] == 0xa5);
    out.insert(out.end(), block.begin() + 8, block.end() - 8);
  }
  return out;
}
Floats unpacked(const Format& f, const Bytes& bytes) {
  const int64_t blocks = std::ssize(bytes) / f.bytes;
  Floats out(static_cast<size_t>(blocks * f.block), -1e30f);
  for (int64_t b = 0; b < blocks; ++b) f.unpack(bytes.data() + b * f.bytes, out.data() + b * f.block);
  return out;
}

// f16 from its bits and back, by the definition.
double half_of(const uint8_t* p) {
  const int bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

void expect_bytes(const std::string& what, const Bytes& got, const Bytes& want, int64_t block) {
  for (size_t i = 0; i < want.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    expect_equal(what + ": byte " + shown(at % block) + " of block " + shown(at / block),
                 static_cast<int>(got.at(i)), static_cast<int>(want[i]));
  }
}
void expect_floats(const std::string& what, const Floats& got, const Floats& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    const float off = std::abs(got.at(i) - want[i]);
    expect(what + ": number " + shown(static_cast<int64_t>(i)) + " is " + shown(want[i]) + "; got " +
               shown(got[i]),
           off <= 1e-6f * std::abs(want[i]) + 1e-12f);
  }
}

Floats random_numbers(int64_t n, double size = 1) {
  std::student_t_distribution<double> heavy(5);
  Floats x(static_cast<size_t>(n));
  for (float& v : x) v = static_cast<float>(size * heavy(random_source()));
  return x;
}

double db(const Format& f, const Floats& x) {
  const Floats y = unpacked(f, packed(f, x));
  double signal = 0, error = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    signal += a * a, error += (a - b) * (a - b);
  }
  return 10 * std::log10(signal / error);
}

}  // namespace

TEST_CASE("7.4 Q8_0: a scale in f16 and 32 codes, of which the largest magnitude has 127") {
  Floats x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(4 * static_cast<int>(i)) - 63.5f;
  x[9] = -127;
  const Bytes block = packed(q8_0, x);
  expect_equal("bytes of a block", std::ssize(block), int64_t{34});
  expect_equal("the scale, bytes 0 and 1, where the largest magnitude is 127", half_of(block.data()), 1.0);
  for (size_t i = 0; i < 32; ++i)
    expect_equal("code of " + shown(x[i]) + ", byte " + shown(static_cast<int64_t>(i) + 2) +
                     "; halves go away from zero",
                 static_cast<int>(static_cast<int8_t>(block[2 + i])),
                 static_cast<int>(std::round(static_cast<double>(x[i]))));
}

TEST_CASE("7.4 Q4_0: byte i has codes i and i + 16, and the number of the largest magnitude is -8") {
  Floats x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(static_cast<int>(7 * i % 16) - 8);
  for (const float sign : {1.0f, -1.0f}) {
    Floats y = x;
    for (float& v : y) v *= sign;
    const Bytes block = packed(q4_0, y);
    expect_equal("bytes of a block", std::ssize(block), int64_t{18});
    expect_equal("the extreme number is " + shown(-8 * sign) + ", so the scale is", half_of(block.data()),
                 static_cast<double>(sign));
    for (size_t i = 0; i < 16; ++i) {
      const std::string byte = "byte " + shown(static_cast<int64_t>(i) + 2);
      expect_equal(byte + ", low half: number " + shown(static_cast<int64_t>(i)) + " is " + shown(y[i]) +
                       ", scale " + shown(sign) + ", code",
                   block[2 + i] & 15, static_cast<int>(x[i]) + 8);
      expect_equal(byte + ", high half: number " + shown(static_cast<int64_t>(i) + 16) + " is " +
                       shown(y[i + 16]) + ", scale " + shown(sign) + ", code",
                   block[2 + i] >> 4, static_cast<int>(x[i + 16]) + 8);
    }
  }
}

TEST_CASE("7.4 the bytes of Q8_0 and Q4_0 are those that another program packs") {
  for (const PackedRow& r : kPackedRows) {
    const Floats x = floats_of(r.numbers);
    expect_bytes(std::string("Q8_0, row '") + r.row + "'", packed(q8_0, x), bytes_of(r.q8_0), 34);
    expect_bytes(std::string("Q4_0, row '") + r.row + "'", packed(q4_0, x), bytes_of(r.q4_0), 18);
  }
}

TEST_CASE("7.4 the numbers of random blocks are those that another program decodes") {
  for (const DecodedBlocks& d : kDecodedBlocks) {
    for (const Format& f : kFormats)
      if (std::string(f.name) == d.format)
        expect_floats(std::string("blocks of ") + f.name, unpacked(f, bytes_of(d.bytes)),
                      floats_of(d.numbers));
  }
}

TEST_CASE("7.4 every code comes back") {
  Floats x(256);
  for (int i = 0; i < 256; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 255 - 127) / 4;
  for (size_t g = 0; g < 256; g += 32) x[g] = 127.0f / 4;  // so that each block has the scale 1/4
  expect_floats("Q8_0: quarters from -127 / 4 to 127 / 4", unpacked(q8_0, packed(q8_0, x)), x);
  Floats y(32);
  for (int i = 0; i < 32; ++i) y[static_cast<size_t>(i)] = -0.5f * static_cast<float>(i % 16 - 8);
  expect_floats("Q4_0: 16 codes with the scale -1/2", unpacked(q4_0, packed(q4_0, y)), y);
  Bytes q8_1(36, 0);
  q8_1[1] = 0x3c, q8_1[3] = 0x44;  // d = 1, and a sum
  for (int i = 0; i < 32; ++i) q8_1[static_cast<size_t>(4 + i)] = static_cast<uint8_t>(-3 * i);
  Floats z(32);
  cpu::unpack_int8_codes(q8_1.data(), 4, z.data());
  for (int i = 0; i < 32; ++i)
    expect_equal("codes that begin at byte 4, as in Q8_1: number " + shown(i), z[static_cast<size_t>(i)],
                 static_cast<float>(-3 * i));
}

TEST_CASE("7.4 Q4_K: 8 scales and 8 offsets of 6 bits in 12 bytes") {
  for (int round = 0; round < 50; ++round) {
    int s[8], m[8], s_back[8], m_back[8];
    for (int g = 0; g < 8; ++g)
      s[g] = round == g ? 63 : static_cast<int>(uniform(0, 64)) * (round > 7),
      m[g] = round == g ? 0 : static_cast<int>(uniform(0, 64)) * (round > 7);
    uint8_t want[12], got[12] = {};
    for (int g = 0; g < 4; ++g) {
      want[g] = static_cast<uint8_t>(s[g] + 64 * (s[g + 4] / 16));
      want[4 + g] = static_cast<uint8_t>(m[g] + 64 * (m[g + 4] / 16));
      want[8 + g] = static_cast<uint8_t>(s[g + 4] % 16 + 16 * (m[g + 4] % 16));
    }
    cpu::pack_q4_k_scales(s, m, got);
    const std::string what =
        "scales " + shown(std::vector<int>(s, s + 8)) + ", offsets " + shown(std::vector<int>(m, m + 8));
    expect_equal(what + ": the 12 bytes", std::vector<int>(got, got + 12), std::vector<int>(want, want + 12));
    cpu::unpack_q4_k_scales(want, s_back, m_back);
    expect_equal(what + ": scales from the 12 bytes", std::vector<int>(s_back, s_back + 8),
                 std::vector<int>(s, s + 8));
    expect_equal(what + ": offsets from the 12 bytes", std::vector<int>(m_back, m_back + 8),
                 std::vector<int>(m, m + 8));
  }
}

TEST_CASE("7.4 Q4_K: scales, offsets and codes follow from what fits each group") {
  for (int round = 0; round < 10; ++round) {
    Floats x = random_numbers(256);
    for (size_t i = 0; i < 256; ++i)
      x[i] = x[i] * (1 + static_cast<float>(i / 32)) + (i / 32 % 2 == 0 ? 1.0f : 0.0f);
    const Bytes block = packed(q4_k, x);
    double scale = 0, offset = 0;
    cpu::ScaleAndOffset fit[8];
    for (size_t g = 0; g < 8; ++g) {
      fit[g] = cpu::fit_scale_and_offset(x.data() + 32 * g);
      scale = std::max(scale, static_cast<double>(fit[g].scale));
      offset = std::max(offset, -static_cast<double>(fit[g].offset));
    }
    const double d = half_of(block.data()), e = half_of(block.data() + 2);
    expect("d, bytes 0 and 1: the largest scale / 63 = " + shown(scale / 63) + "; got " + shown(d),
           std::abs(d - scale / 63) <= scale / 63 / 1024);
    expect("e, bytes 2 and 3: the largest -offset / 63 = " + shown(offset / 63) + "; got " + shown(e),
           std::abs(e - offset / 63) <= offset / 63 / 1024);
    for (size_t g = 0; g < 8; ++g) {
      const uint8_t* const q = block.data() + 4;
      const size_t h = g % 4;
      const int s = g < 4 ? q[h] % 64 : q[8 + h] % 16 + q[h] / 64 * 16;
      const int m = g < 4 ? q[4 + h] % 64 : q[8 + h] / 16 + q[4 + h] / 64 * 16;
      const std::string group = "group " + shown(static_cast<int64_t>(g));
      expect(group + ": its scale " + shown(fit[g].scale) + " / d, to the nearest integer; got " + shown(s),
             std::abs(s - static_cast<double>(fit[g].scale) / d) <= 0.501 || s == 63);
      expect(group + ": -offset " + shown(-fit[g].offset) + " / e, to the nearest integer; got " + shown(m),
             std::abs(m + static_cast<double>(fit[g].offset) / e) <= 0.501 || m == 63);
      for (size_t i = 0; i < 32; ++i) {
        const int byte = block[16 + g / 2 * 32 + i], code = g % 2 == 0 ? byte % 16 : byte / 16;
        const double exact = (static_cast<double>(x[32 * g + i]) + e * m) / (d * s);
        expect(group + ", number " + shown(static_cast<int64_t>(i)) + ": the code is (x + e m) / (d s) = " +
                   shown(exact) + ", to the nearest of 0 to 15; got " + shown(code),
               std::abs(code - std::clamp(exact, 0.0, 15.0)) <= 0.501);
      }
    }
  }
}

TEST_CASE("7.4 heavy tails: 43.4 dB in Q8_0, 19.4 in Q4_0 and 20.9 in Q4_K") {
  const Floats x = random_numbers(256 * 64, 0.02);
  for (const auto& [f, want] : {std::pair{&q8_0, 43.4}, {&q4_0, 19.4}, {&q4_k, 20.9}}) {
    const double got = db(*f, x);
    expect(std::string(f->name) + ": at least " + shown(want - 0.5) + " dB; got " + shown(got),
           got >= want - 0.5);
  }
}

TEST_CASE("7.4 zeros, one number, constants, and numbers below the smallest scale") {
  for (const Format& f : kFormats) {
    const auto n = static_cast<size_t>(f.block);
    const Floats zeros(n);
    expect_floats(std::string(f.name) + ": zeros", unpacked(f, packed(f, zeros)), zeros);
    for (const float tiny : {1e-30f, -1e-40f})
      expect_floats(std::string(f.name) + ": numbers for which f16 has no scale",
                    unpacked(f, packed(f, Floats(n, tiny))), zeros);
    for (const float one : {4.0f, -4.0f}) {
      Floats x(n);
      x[n - 3] = one;
      const float back = unpacked(f, packed(f, x))[n - 3];
      expect(std::string(f.name) + ": one number, " + shown(one) + ", among zeros; it comes back as " +
                 shown(back),
             std::abs(back - one) <= 0.07f * std::abs(one));
    }
  }
}

TEST_CASE("7.4 packing keeps no copy of the numbers, and needs no memory but the block") {
  for (const Format& f : kFormats) {
    const Floats x = random_numbers(f.block);
    Bytes block(static_cast<size_t>(f.bytes));
    Floats y(x.size());
    const size_t before = bytes_allocated;
    const int64_t count = f.block > 32 ? 20 : 2000;
    for (int64_t i = 0; i < count; ++i) f.pack(x.data(), block.data()), f.unpack(block.data(), y.data());
    const auto allocated = static_cast<int64_t>(bytes_allocated - before);
    expect_equal(std::string(f.name) + ": bytes allocated while " + shown(count) + " blocks are packed",
                 allocated, int64_t{0});
    const Floats other = random_numbers(f.block);
    Bytes second(block.size());
    f.pack(other.data(), second.data());
    expect_floats(std::string(f.name) + ": the first block, decoded after a second one was packed",
                  unpacked(f, block), y);
  }
}
