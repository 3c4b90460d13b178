#include <tinytorch/quantization/block_codes.hpp>

#include <quantization/planted.hpp>
#include <support/errors.hpp>
#include <tinytorch/backend/cpu/blocks/block_rows.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;

namespace {

std::vector<const tt::BlockFormat*> formats() {
  std::vector<const tt::BlockFormat*> out;
  for (const tt::BlockFormat& f : tt::block_formats()) out.push_back(&f);
  return out;
}
tt::InputStatistics observed(const tt::Tensor& x) {
  tt::InputStatistics s(x.size(-1));
  s.observe(x);
  return s;
}
// Sum of squared errors, weighted by column.
double squared_error(const tt::Tensor& w, const tt::QuantizedTensor& q,
                     const std::vector<double>& importance) {
  const auto x = w.to_vector<double>(), y = q.dequantize().to_vector<double>();
  const size_t K = importance.size();
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i) error += importance[i % K] * (x[i] - y[i]) * (x[i] - y[i]);
  return error;
}
// A format whose scale is its only content besides one bit for each number: too few bits for a code.
struct OneBit {
  static constexpr const char* kName = "one_bit";
  static constexpr int32_t kGgufType = -1;
  static constexpr int64_t kBlock = 8, kBytes = 5;
  static void pack(const float* x, uint8_t* block) {
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += std::abs(x[i]);
    std::memcpy(block, &sum, 4);
    block[4] = 0;
    for (int i = 0; i < 8; ++i) block[4] = static_cast<uint8_t>(block[4] | (x[i] < 0 ? 1 << i : 0));
  }
  static void unpack(const uint8_t* block, float* x) {
    float sum = 0;
    std::memcpy(&sum, block, 4);
    for (int i = 0; i < 8; ++i) x[i] = (block[4] >> i & 1) != 0 ? -sum / 8 : sum / 8;
  }
};

}  // namespace

TEST_CASE("the codes of each format are found, and writing them gives the values of the table") {
  for (const tt::BlockFormat* const f : formats()) {
    CAPTURE(f->name);
    const tt::BlockCodes codes(*f);
    REQUIRE(codes.found());
    const std::string_view name = f->name;
    CHECK(codes.levels() == (name[1] == '8' ? 256 : name[1] == '6' ? 64 : 16));
    tt::Generator g(5);
    const tt::Tensor x = tt::randn({f->block}, tt::f32, tt::cpu, g);
    std::vector<uint8_t> block(static_cast<size_t>(f->bytes));
    f->pack(x.data<float>(), 1, block.data());
    std::vector<float> own(static_cast<size_t>(f->block)),
        table(static_cast<size_t>(f->block * codes.levels()));
    f->unpack(block.data(), 1, own.data());
    codes.values(block.data(), table.data());
    // The packed value of each number is in its column, and the nearest code gives it back.
    std::vector<uint8_t> rewritten = block;
    for (int64_t i = 0; i < f->block; ++i) {
      const float value = own[static_cast<size_t>(i)];
      const int64_t code = codes.nearest(table.data(), i, static_cast<double>(value));
      CHECK(table[static_cast<size_t>(code * f->block + i)] == value);
      codes.set(rewritten.data(), i, code);
    }
    std::vector<float> again(own.size());
    f->unpack(rewritten.data(), 1, again.data());
    CHECK(again == own);
    // Any codes, each written on its own.
    const tt::Tensor drawn = tt::randint(0, 127, {f->block}, tt::i64, tt::cpu, g);
    for (int64_t i = 0; i < f->block; ++i)
      codes.set(rewritten.data(), i, drawn.data<int64_t>()[i] % codes.levels());
    f->unpack(rewritten.data(), 1, again.data());
    for (int64_t i = 0; i < f->block; ++i) {
      const int64_t code = drawn.data<int64_t>()[i] % codes.levels();
      CHECK(again[static_cast<size_t>(i)] == table[static_cast<size_t>(code * f->block + i)]);
    }
  }
}

TEST_CASE("clipping never has a larger weighted error than rounding, and gains on heavy tails") {
  const std::vector<float> t5 = student_t5(24 * 256, 11);
  const tt::Tensor w = tt::from_data(t5, {24, 256}, tt::cpu);
  std::vector<double> ones(256, 1), uneven(256);
  for (size_t j = 0; j < 256; ++j) uneven[j] = j % 7 == 0 ? 100 : 0.1;
  for (const tt::BlockFormat* const f : formats()) {
    CAPTURE(f->name);
    const tt::QuantizedTensor plain = tt::quantize(w, *f), clipped = tt::quantize_clipped(w, *f);
    CHECK(squared_error(w, clipped, ones) <= squared_error(w, plain, ones));
    const tt::QuantizedTensor weighted = tt::quantize_clipped(w, *f, uneven);
    CHECK(squared_error(w, weighted, uneven) <= squared_error(w, clipped, uneven));
    for (int64_t r = 0; r < 24; ++r) {  // also in each row, which is packed as if it were alone
      const tt::Tensor row = w.slice(0, r, r + 1);
      CHECK(squared_error(row, clipped.rows(r, r + 1), ones) <=
            squared_error(row, plain.rows(r, r + 1), ones));
      CHECK(same_numbers(tt::quantize_clipped(row, *f).dequantize(), clipped.rows(r, r + 1).dequantize()));
    }
  }
  CHECK(squared_error(w, tt::quantize_clipped(w, tt::block_format("Q4_0")), ones) <
        0.95 * squared_error(w, tt::quantize(w, "Q4_0"), ones));
}

TEST_CASE("a weight is clipped if it is more than half a step beyond the values of its block") {
  // d = -1, so the values are 8, 7, ..., -7.
  const auto share = [](float x) {
    std::vector<float> block(32, 1.0f);
    block[0] = 8, block[9] = x;
    const tt::Tensor w = tt::from_data(block, {1, 32}, tt::cpu);
    return tt::clipped_share(w, tt::quantize(w, "Q4_0"));
  };
  CHECK(share(-7.4f) == 0);
  CHECK(share(-7.6f) == 1.0 / 32);
  CHECK(share(3) == 0);
  CHECK(tt::clipped_share(tt::zeros({3, 64}), tt::quantize(tt::zeros({3, 64}), "Q8_0")) == 0);
  CHECK(tt::clipped_share(tt::zeros({0, 64}), tt::quantize(tt::zeros({0, 64}), "Q8_0")) == 0);
  tt::Generator g(2);
  const tt::Tensor w = tt::randn({16, 256}, tt::f32, tt::cpu, g);
  for (const tt::BlockFormat* const f : formats()) CHECK(tt::clipped_share(w, tt::quantize(w, *f)) < 0.1);
}

TEST_CASE("GPTQ into blocks answers correlated inputs, in each format of 4 bits") {
  const Layer layer = planted_layer(false);
  const tt::InputStatistics inputs = observed(layer.x);
  for (const char* const name : {"Q4_0", "Q4_1", "Q4_K", "MXFP4"}) {
    CAPTURE(name);
    const tt::BlockFormat& f = tt::block_format(name);
    const double plain = output_sqnr(layer, layer.x, tt::quantize(layer.w, f).dequantize()),
                 gptq = output_sqnr(layer, layer.x, tt::gptq_pack(layer.w, inputs, f).dequantize());
    MESSAGE(name, ": nearest ", plain, " dB, gptq ", gptq, " dB");
    CHECK(gptq > plain + 1.5);
  }
}

TEST_CASE("GPTQ rounds each row on its own, and inputs without correlation to nearest") {
  const Layer layer = planted_layer(false, 8);
  const tt::Tensor x = layer.x.slice(1, 0, 64).contiguous(), w = layer.w.slice(1, 0, 64).contiguous();
  const tt::InputStatistics inputs = observed(x);
  const tt::BlockFormat& f = tt::block_format("Q4_0");
  const tt::QuantizedTensor all = tt::gptq_pack(w, inputs, f);
  CHECK(same_numbers(tt::gptq_pack(w, inputs, f).blocks(), all.blocks()));
  for (const int64_t r : {0, 15, 16, 255})
    CHECK(same_numbers(tt::gptq_pack(w.slice(0, r, r + 1), inputs, f).blocks(), all.rows(r, r + 1).blocks()));
  // X^T X is a multiple of the identity: no column can answer for another one.
  const tt::InputStatistics apart = observed(tt::eye(64, tt::f32, tt::cpu) * 3.0);
  for (const char* const name : {"Q4_0", "Q8_0", "NVFP4"}) {
    const tt::BlockFormat& g = tt::block_format(name);
    const tt::Tensor got = tt::gptq_pack(w, apart, g).dequantize(),
                     want = tt::quantize_clipped(w, g).dequantize();
    const auto error = [&](const tt::Tensor& v) { return tt::sum(tt::square(v - w)).item<double>(); };
    CHECK(error(got) <= error(want));
    CHECK(error(got) > 0.98 * error(want));
  }
}

TEST_CASE("GPTQ into blocks: dead channels, bf16, no rows, and formats without separate codes") {
  const tt::BlockFormat& f = tt::block_format("Q4_0");
  tt::Generator g(4);
  const tt::Tensor w = tt::randn({5, 32}, tt::f32, tt::cpu, g);
  tt::Tensor x = tt::randn({40, 32}, tt::f32, tt::cpu, g);
  for (int64_t r = 0; r < 40; ++r) x.data<float>()[r * 32 + 7] = 0;
  const tt::InputStatistics inputs = observed(x);
  for (const float v : tt::gptq_pack(w, inputs, f).dequantize().to_vector()) CHECK(std::isfinite(v));
  const tt::Tensor half = w.to(tt::bf16);
  CHECK(same_numbers(tt::gptq_pack(half, inputs, f).blocks(),
                     tt::gptq_pack(half.to(tt::f32), inputs, f).blocks()));
  CHECK(same_numbers(tt::gptq_pack(w.t().contiguous().t(), inputs, f).blocks(),
                     tt::gptq_pack(w, inputs, f).blocks()));
  CHECK(tt::gptq_pack(tt::zeros({0, 32}), inputs, f).bytes() == 0);
  const auto code = [](auto&& run) { return errors::thrown_by(run).code; };
  CHECK(code([&] { tt::gptq_pack(w, inputs, tt::block_format("Q8_1")); }) == "TT-QUANT-10");
  constexpr tt::BlockFormat kOneBit = tt::backend::cpu::block_format<OneBit>();
  CHECK_FALSE(tt::BlockCodes(kOneBit).found());
  CHECK(code([&] { tt::gptq_pack(w, inputs, kOneBit); }) == "TT-QUANT-10");
  CHECK(code([&] { tt::gptq_pack(w, inputs, tt::block_format("Q4_K")); }) == "TT-QUANT-03");
  CHECK(code([&] { tt::gptq_pack(w, tt::InputStatistics(32), f); }) == "TT-CALIB-02");
  CHECK(code([&] { tt::gptq_pack(tt::full({5, 32}, NAN), inputs, f); }) == "TT-QUANT-04");
  CHECK(code([&] { tt::gptq_pack(w, inputs, f, -1); }) == "TT-CALIB-03");
}
