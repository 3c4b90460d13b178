// The codes inside the blocks of a format, for methods that choose each code themselves.
//
//   pack_clipped   packs a block by the clip that has the least squared error of 41 ("mse")
//   gptq_pack      GPTQ whose values are those of a block format: scales by the format, codes one by one
//   clipped_share  how many weights lie outside the values that their block can have
//
// A format says only how to pack and unpack a block. Where its codes are is found by trying: a bit of a block
// that changes exactly one number is a bit of the code of this number; all other bits belong to scales. So a
// new format works here without another line.
#pragma once

#include <array>
#include <atomic>
#include <tinytorch/core/scalar_math.hpp>
#include <tinytorch/quantization/gptq.hpp>
#include <tinytorch/quantization/tensor.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD {

class BlockCodes {
 public:
  explicit BlockCodes(const BlockFormat& format) : format_(&format) {
    const auto block = static_cast<size_t>(format.block), bits = static_cast<size_t>(8 * format.bytes);
    std::vector<float> x(block), changed(block);
    std::vector<uint8_t> packed(bits / 8);
    std::vector<int64_t> owner(bits, -1);  // of each bit; -2: several numbers
    uint32_t state = 1;
    for (int sample = 0; sample < 8; ++sample) {  // one sample would miss the sign of a number that is 0
      for (float& v : x)                          // numbers from -1 to 1, so that no scale and no offset is 0
        state = state * 1664525u + 1013904223u, v = static_cast<float>(state >> 8) * 0x1p-23f - 1;
      format.pack(x.data(), 1, packed.data());
      format.unpack(packed.data(), 1, x.data());
      for (size_t bit = 0; bit < bits; ++bit) {
        const auto flip = [&] { packed[bit / 8] = static_cast<uint8_t>(packed[bit / 8] ^ 1 << bit % 8); };
        flip(), format.unpack(packed.data(), 1, changed.data()), flip();
        for (size_t i = 0; i < block; ++i) {
          if (std::memcmp(&x[i], &changed[i], sizeof(float)) == 0) continue;
          const auto number = static_cast<int64_t>(i);
          owner[bit] = owner[bit] == -1 || owner[bit] == number ? number : -2;
        }
      }
    }
    bits_.resize(block);
    for (size_t bit = 0; bit < bits; ++bit)
      if (owner[bit] >= 0) bits_[static_cast<size_t>(owner[bit])].push_back(static_cast<uint32_t>(bit));
    if (!found()) return;
    patterns_.resize(static_cast<size_t>(levels()) * packed.size()), code_bits_.resize(packed.size());
    for (int64_t code = 0; code < levels(); ++code)
      for (int64_t i = 0; i < format.block; ++i)
        set(patterns_.data() + static_cast<size_t>(code) * packed.size(), i, code);
    std::copy_n(patterns_.end() - format.bytes, format.bytes, code_bits_.begin());
  }

  // Returns true if each number of a block has a code of its own, and all codes have the same number of bits,
  // 2 to 8.
  bool found() const {
    const size_t n = bits_[0].size();
    const auto same = [&](const auto& b) { return b.size() == n; };
    return n >= 2 && n <= 8 && std::all_of(bits_.begin(), bits_.end(), same);
  }
  const BlockFormat& format() const { return *format_; }
  int64_t levels() const { return int64_t{1} << bits_[0].size(); }

  void set(uint8_t* block, int64_t i, int64_t code) const {
    const std::vector<uint32_t>& places = bits_[static_cast<size_t>(i)];
    for (size_t b = 0; b < places.size(); ++b) {
      const int mask = 1 << places[b] % 8, byte = block[places[b] / 8];
      block[places[b] / 8] = static_cast<uint8_t>((code >> b & 1) != 0 ? byte | mask : byte & ~mask);
    }
  }
  // values[code * format.block + i]: what number i of this block would be with each code. The code 128 of 8
  // bits, which no format packs because its negative does not exist, gets the value of its neighbour.
  void values(const uint8_t* block, float* out) const {
    const auto bytes = static_cast<size_t>(format_->bytes);
    std::array<uint8_t, 512> copy{};
    for (int64_t code = 0; code < levels(); ++code) {
      const uint8_t* const all = patterns_.data() + static_cast<size_t>(code == 128 ? 129 : code) * bytes;
      for (size_t i = 0; i < bytes; ++i) copy[i] = static_cast<uint8_t>((block[i] & ~code_bits_[i]) | all[i]);
      format_->unpack(copy.data(), 1, out + code * format_->block);
    }
  }
  // The code whose value is nearest to x; of two, the first one.
  int64_t nearest(const float* values, int64_t i, double x) const {
    int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t code = 0; code < levels(); ++code) {
      const double off = std::abs(static_cast<double>(values[code * format_->block + i]) - x);
      if (off < least && code != 128) least = off, best = code;
    }
    return best;
  }

 private:
  const BlockFormat* format_;
  std::vector<std::vector<uint32_t>> bits_;  // of each number, from the lowest
  std::vector<uint8_t> patterns_;   // for each code, a block in which all numbers have it; scales are 0
  std::vector<uint8_t> code_bits_;  // a block with all bits of codes set
};

// Sum of importance (x - y)^2 over n numbers; without importance, each number has 1.
inline double weighted_error(const float* x, const float* y, const double* importance, int64_t n) {
  double error = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double off = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    error = math::multiply_add(importance ? importance[i] * off : off, off, error);
  }
  return error;
}

// Packs one block. The numbers are clipped to c times their largest magnitude for c = 1, 0.98, 0.96, ..., on
// both sides or on one, and packed by the format; the bytes with the least weighted error to x are kept. A
// smaller range has finer steps. c = 1 is plain rounding, so the result is never worse.
inline void pack_clipped(const BlockFormat& format, const float* x, const double* importance, uint8_t* out) {
  std::array<float, 512> clipped{}, decoded{};
  std::array<uint8_t, 512> trial{};
  const int64_t n = format.block;
  float largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step <= 20; ++step) {
    const float near = largest * (static_cast<float>(50 - step) / 50), far = near * 1.015625f;
    // A format may give the number of largest magnitude one code more than its negative, so both signs are
    // tried as the largest.
    for (const bool up : {false, true}) {
      const float low = up ? -near : -far, high = up ? far : near;
      for (int64_t i = 0; i < n; ++i)
        clipped[static_cast<size_t>(i)] = step == 0 ? x[i] : std::clamp(x[i], low, high);
      format.pack(clipped.data(), 1, trial.data());
      format.unpack(trial.data(), 1, decoded.data());
      const double error = weighted_error(x, decoded.data(), importance, n);
      if (error < least) least = error, std::copy_n(trial.begin(), format.bytes, out);
      if (step == 0) break;
    }
  }
}

// Calls f(row, block, numbers, bytes) for each block of a weight f32 [N, K] on the CPU and its packed rows.
template <class F>
void for_each_block(const Tensor& weight, const BlockFormat& format, uint8_t* bytes, F&& f) {
  const int64_t N = weight.size(0), K = weight.size(1), blocks = K / format.block;
  const float* const x = weight.data<float>();
  parallel_for(N, std::max<int64_t>(1, 4096 / std::max<int64_t>(K, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t b = 0; b < blocks; ++b)
        f(r, b, x + r * K + b * format.block, bytes + (r * blocks + b) * format.bytes);
  });
}

// weight [N, K] -> packed by pack_clipped. `importance` [K] weighs the errors of the columns, such as the
// mean of X_j^2; empty: all alike. Errors as quantize().
inline QuantizedTensor quantize_clipped(const Tensor& weight, const BlockFormat& format,
                                        const std::vector<double>& importance = {}, TT_LOC) {
  const QuantizedTensor out = quantize(weight.to(cpu), format, loc);
  uint8_t* const bytes = out.blocks().view_of().as<uint8_t>();
  const Tensor values = calibration_values("quantize_clipped", weight, loc);
  for_each_block(values, format, bytes, [&](int64_t, int64_t b, const float* x, uint8_t* block) {
    pack_clipped(format, x, importance.empty() ? nullptr : importance.data() + b * format.block, block);
  });
  return out.to(weight.device(), loc);
}

// The two least and the two largest values that a number of a block can have, added one by one.
struct EndValues {
  float least = std::numeric_limits<float>::infinity(), second = least, largest = -least, next = -least;
  void add(float v) {
    if (v < least) second = std::exchange(least, v);
    if (v > least && v < second) second = v;
    if (v > largest) next = std::exchange(largest, v);
    if (v < largest && v > next) next = v;
  }
  // More than half of a step beyond the ends.
  bool clips(float x) const {
    if (least == largest) return false;  // a block of zeros
    return x < least - (second - least) / 2 || x > largest + (largest - next) / 2;
  }
};

// The share of weights that are more than half of a step beyond the values of their block.
inline double clipped_share(const Tensor& weight, const QuantizedTensor& packed, TT_LOC) {
  const BlockCodes codes(packed.format());
  const Tensor values = calibration_values("clipped_share", weight, loc), bytes = packed.blocks().to(cpu);
  if (!codes.found() || values.numel() == 0) return 0;
  std::atomic<int64_t> clipped = 0;
  const int64_t n = packed.format().block, levels = codes.levels();
  for_each_block(values, packed.format(), bytes.view_of().as<uint8_t>(),
                 [&](int64_t, int64_t, const float* x, uint8_t* block) {
                   std::vector<float> level(static_cast<size_t>(levels * n));
                   codes.values(block, level.data());
                   std::vector<EndValues> ends(static_cast<size_t>(n));
                   for (size_t i = 0; i < level.size(); ++i) ends[i % ends.size()].add(level[i]);
                   int64_t count = 0;
                   for (size_t i = 0; i < ends.size(); ++i) count += ends[i].clips(x[i]);
                   clipped += count;
                 });
  return static_cast<double>(clipped) / static_cast<double>(values.numel());
}

// Rows [begin, end) of GPTQ: w f64 [N, K] is overwritten by what was left of each column.
inline void gptq_pack_rows(const BlockCodes& codes, double* w, const double* U, int64_t K, uint8_t* bytes,
                           int64_t begin, int64_t end) {
  const BlockFormat& f = codes.format();
  const int64_t table = codes.levels() * f.block;
  std::vector<float> now(static_cast<size_t>(f.block)), values(static_cast<size_t>((end - begin) * table));
  std::vector<double> importance(static_cast<size_t>(f.block));
  for (int64_t j = 0; j < K; ++j) {
    const int64_t i = j % f.block;
    for (int64_t k = 0; i == 0 && k < f.block; ++k)  // an error e of a column costs (e / U_jj)^2
      importance[static_cast<size_t>(k)] = 1 / (U[(j + k) * K + j + k] * U[(j + k) * K + j + k]);
    for (int64_t r = begin; r < end; ++r) {
      double* const row = w + r * K;
      uint8_t* const block = bytes + (r * (K / f.block) + j / f.block) * f.bytes;
      float* const level = values.data() + (r - begin) * table;
      if (i == 0) {  // the scales of a block follow from its weights as they are now
        for (int64_t k = 0; k < f.block; ++k) now[static_cast<size_t>(k)] = static_cast<float>(row[j + k]);
        pack_clipped(f, now.data(), importance.data(), block);
        codes.values(block, level);
      }
      const int64_t code = codes.nearest(level, i, row[j]);
      codes.set(block, i, code);
      const double error = (row[j] - static_cast<double>(level[code * f.block + i])) / U[j * K + j];
      for (int64_t k = j + 1; k < K; ++k) row[k] = math::multiply_add(-error, U[j * K + k], row[k]);
    }
  }
}

// GPTQ into a block format: weight [N, K] -> packed rows, on the device of the weight. The result has the
// same bits for the same weight and statistics, for any number of threads. Throws TT-QUANT-03 and TT-QUANT-04
// as quantize() does, TT-QUANT-10 if the codes of the format are not separate, and TT-CALIB-03 for a damping
// below 0.
inline QuantizedTensor gptq_pack(const Tensor& weight, const InputStatistics& inputs,
                                 const BlockFormat& format, double damping = 0.01, TT_LOC) {
  const NoGrad no_grad;
  require_statistics("gptq_pack", weight, inputs, loc);
  if (!(damping >= 0) || std::isinf(damping))
    fail("TT-CALIB-03", "gptq: the damping is at least 0, got " + std::to_string(damping), loc);
  const BlockCodes codes(format);
  if (!codes.found() || std::string_view(format.name) == "Q8_1") {  // Q8_1 also stores the sum of its codes
    fail("TT-QUANT-10",
         std::string("gptq: the blocks of ") + format.name +
             " are more than scales and a code for each number\n  hint: use another format, or the method "
             "\"nearest\"",
         loc);
  }
  const QuantizedTensor out = quantize(weight.to(cpu), format, loc);
  const Tensor U = inverse_factor(inputs.gram(), damping, loc);
  const Tensor w = calibration_values("gptq_pack", weight, loc).to(DType::f64).contiguous().clone();
  parallel_for(w.size(0), 16, [&](int64_t begin, int64_t end) {
    gptq_pack_rows(codes, w.data<double>(), U.data<double>(), w.size(1), out.blocks().view_of().as<uint8_t>(),
                   begin, end);
  });
  return out.to(weight.device(), loc);
}

}  // namespace tinytorch::inline TT_BUILD
