#include <tinytorch/backend/kv_format.hpp>

#include <doctest/doctest.h>

#include <support/kv_numbers.hpp>
#include <tinytorch/core/random.hpp>

using namespace tinytorch;
using backend::Float8;

TEST_CASE("numbers of 8 bits: every code has its value, and the value has its code") {
  for (int bits = 0; bits < 256; ++bits) {
    Float8 x;
    x.bits = static_cast<uint8_t>(bits);
    const double value = static_cast<double>(static_cast<float>(x)), wanted = test::of_float8(bits);
    CHECK((std::isnan(wanted) ? std::isnan(value) : value == wanted));
    CHECK(Float8(static_cast<float>(x)).bits == bits);
  }
}

TEST_CASE("floats are rounded to the nearest number of 8 bits, ties to even, and stop at 448") {
  for (int bits = 0; bits < 126; ++bits) {
    const double low = test::of_float8(bits), high = test::of_float8(bits + 1), middle = (low + high) / 2;
    for (const double sign : {1.0, -1.0}) {
      const auto code = [&](double x) {
        return static_cast<int>(Float8(static_cast<float>(sign * x)).bits) % 128;
      };
      CHECK(code(middle) == (bits % 2 == 0 ? bits : bits + 1));
      CHECK(code(static_cast<double>(std::nextafter(static_cast<float>(middle), 0.0f))) == bits);
      CHECK(code(static_cast<double>(std::nextafter(static_cast<float>(middle), 1e9f))) == bits + 1);
    }
  }
  Generator generator(1);
  for (int i = 0; i < 2000; ++i) {
    const double size = std::exp2(generator.uniform(-14, 9));
    const auto x = static_cast<float>(generator.uniform(-1, 1) * size);
    CHECK(static_cast<int>(Float8(x).bits) == test::nearest_float8(static_cast<double>(x)));
  }
  for (const float x : {449.0f, 464.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    CHECK(static_cast<float>(Float8(x)) == 448);
    CHECK(static_cast<float>(Float8(-x)) == -448);
  }
  CHECK(std::isnan(static_cast<float>(Float8(NAN))));
  CHECK(Float8(1e-30f).bits == 0);
}

TEST_CASE("bytes of a row in each format, with its scales") {
  const auto bytes = [](KvFormat format, DType dtype, int64_t D) {
    return backend::kv_row_layout(format, dtype, D).bytes();
  };
  CHECK(bytes(KvFormat::of_dtype, f32, 128) == 512);
  CHECK(bytes(KvFormat::of_dtype, bf16, 128) == 256);
  CHECK(bytes(KvFormat::of_dtype, i8, 128) == 132);
  CHECK(bytes(KvFormat::fp8, f32, 128) == 132);
  CHECK(bytes(KvFormat::i4, bf16, 128) == 72);  // 64 and four scales of two bytes: 4.5 bits a number
  CHECK(bytes(KvFormat::i4, f32, 64) == 36);
  CHECK(bytes(KvFormat::i4, f32, 33) == 36);  // whole groups
  CHECK(backend::hadamard_block(128) == 128);
  CHECK(backend::hadamard_block(80) == 16);
  CHECK(backend::hadamard_block(33) == 1);
}
