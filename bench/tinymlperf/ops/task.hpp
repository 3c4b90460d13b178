// KernelTask describes an op of the benchmark `krn`: its inputs, its output, its shapes, its oracle and its
// work.
//
// A row is a run of elements along the last dimension of the output. The judge checks answers row by row, and
// the oracle computes one row in f64 from the definition, without the library. Large answers are checked in a
// sample of rows, which is drawn after the answer has arrived.
#pragma once

#include <tinymlperf/channel/tensor.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/core/dtype.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>

namespace tinymlperf::judge::kernels {

// A Shape holds the sides of a tensor, or the numbers from which the shapes of an op's operands follow, for
// example m, k, n of a matrix product.

// The values of an input.
enum class Role {
  data,     // any numbers, f32 or f16
  table,    // rows, of which an index selects some
  square,   // numbers of at least 0
  index,    // i64, 0 to places - 1
  codes,    // i8, all values
  arranged  // filled by KernelTask::arrange, for example packed blocks
};
struct Operand {
  Shape shape;
  Role role = Role::data;
  int64_t places = 0;  // rows of the indexed table
  channel::DType dtype = channel::DType::f32;
};
inline channel::DType dtype_of(const Operand& o) {
  return o.role == Role::index ? channel::DType::i64 : o.role == Role::codes ? channel::DType::i8 : o.dtype;
}

// The values of the stressed input. The other inputs are ordinary, except with zero_one, which applies to
// all.
enum class Distribution {
  ordinary,    // mean 0, variance 1
  zero_one,    // 0 or 1: sums of products are integers, so any order of summation gives the same bits
  offset,      // 1000 + ordinary: subtraction cancels most digits
  huge,        // 1e15 * ordinary
  zeros,       // only 0
  subnormal,   // 1e-40 * ordinary
  one_hot,     // a single 1 in each row, else 0
  duplicates,  // the same number throughout each row
  not_finite,  // ordinary, with one infinity or NaN in some rows
  extreme,     // integer codes at the ends of their range: sums of products exceed 16 bits. Of a 2:4 weight,
               // the last two of each four are kept
  ties         // multiples of 1/2 with 127 in each row: half of the 8-bit codes lie between two integers
};
inline constexpr std::array kDistributionNames{"ordinary",   "zero_one",  "offset",  "huge",
                                               "zeros",      "subnormal", "one_hot", "duplicates",
                                               "not_finite", "extreme",   "ties"};
inline std::string name_of(Distribution d) { return kDistributionNames[static_cast<size_t>(d)]; }

enum class Exact { never, for_zero_one, always };  // the inputs for which every bit of an answer must agree

struct Traffic {
  double read, written;
};

struct KernelTask {
  std::string name, text;            // for example "softmax"; a line about its operands and its result
  std::vector<Shape> shapes;         // published shapes, which are ranked
  std::vector<Shape> device_shapes;  // larger ones for a GPU, which needs only microseconds for `shapes`
  Shape least, most;                 // limits of the hidden shapes
  Exact exact = Exact::never;
  size_t stressed = 0;  // the input to which a distribution applies
  std::vector<Distribution> adversarial;
  std::vector<Operand> (*operands)(const Shape&) = nullptr;
  Shape (*output)(const Shape&) = nullptr;
  void (*oracle)(std::span<const channel::Tensor> in, int64_t row, std::span<double> out) = nullptr;
  double (*multiply_adds)(const Shape&) = nullptr;

  channel::DType result = channel::DType::f32;
  // The error, as a fraction of a row's largest value, that is right in any case: for ops whose text permits
  // a rounding that the library's kernel does not make. 0: none.
  double slack = 0;
  // Computes the sum of the squared products of each element, for ops that have it. Its root is the size that
  // a sum of terms of random signs has. The largest of a few elements may be much smaller, and their errors
  // are not: slack is then a fraction of twice the largest root.
  void (*squares)(std::span<const channel::Tensor> in, int64_t row, std::span<double> out) = nullptr;
  // The op writes only a part of its output; the rest keeps the NaN with which the output is given to it.
  bool partial = false;
  // A GPU runs an op before it is timed, on numbers of zeros; u8 operands then have this byte, since not
  // every packing has a meaning for bytes of zeros.
  uint8_t idle_byte = 0;
  // Fills the arranged operands, after all others were drawn.
  void (*arrange)(const Shape&, Distribution, tinytorch::Generator&, channel::Tensors&) = nullptr;
  // The fewest bytes that are read and written, for ops that do not use all of their operands.
  Traffic (*traffic)(const Shape&) = nullptr;
};

inline int64_t count(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// The minimal number of bytes that the op must read.
inline double read_bytes_of(const KernelTask& task, const Shape& sides) {
  if (task.traffic) return task.traffic(sides).read;
  double bytes = 0;
  for (const Operand& o : task.operands(sides)) {
    const int64_t all = count(o.shape);
    const int64_t read = o.role == Role::table ? std::min(all, count(task.output(sides))) : all;
    bytes += static_cast<double>(channel::bytes_of_one(dtype_of(o))) * static_cast<double>(read);
  }
  return bytes;
}
// The minimal number of bytes that the op must read and write.
inline double bytes_of(const KernelTask& task, const Shape& sides) {
  const double written = task.traffic ? task.traffic(sides).written
                                      : static_cast<double>(channel::bytes_of_one(task.result)) *
                                            static_cast<double>(count(task.output(sides)));
  return read_bytes_of(task, sides) + written;
}

// Draws three hidden shapes: one with sides close to the smallest, and two with prime sides, where the limits
// of a side include a prime number.
inline std::vector<Shape> draw_hidden_shapes(const KernelTask& task, tinytorch::Generator& random) {
  constexpr std::array<int64_t, 20> kPrimes{5,  7,  11, 13, 17, 19, 23, 29, 31,  37,
                                            41, 43, 53, 61, 67, 71, 79, 97, 101, 127};
  std::vector<Shape> out;
  for (int i = 0; i < 3; ++i) {
    Shape sides;
    for (size_t d = 0; d < task.least.size(); ++d) {
      std::vector<int64_t> choices;
      for (const int64_t p : kPrimes)
        if (i > 0 && p >= task.least[d] && p <= task.most[d]) choices.push_back(p);
      const int64_t small = task.least[d] + static_cast<int64_t>(random.below(3));
      sides.push_back(choices.empty() ? std::min(small, task.most[d])
                                      : choices[random.below(choices.size())]);
    }
    out.push_back(sides);
  }
  return out;
}

namespace detail {

using D = Distribution;
using Operands = std::vector<Operand>;

inline double product(const Shape& sides) { return static_cast<double>(count(sides)); }

// Fills with sums of four uniform numbers, which are close to normal with mean 0 and variance 1. All bits of
// a float are in use.
inline void fill_nearly_normal(std::span<float> out, tinytorch::Generator& random) {
  const uint64_t seed = random.state().seed, first = random.reserve(out.size());
  tinytorch::parallel_for(static_cast<int64_t>(out.size()), 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const tinytorch::PhiloxBlock b = tinytorch::philox(seed, first + static_cast<uint64_t>(i));
      double sum = 0;
      for (const uint32_t word : b.v) sum += word * 0x1p-32;
      out[static_cast<size_t>(i)] = static_cast<float>((sum - 2) * 1.7320508);
    }
  });
}

// Applies the distribution to ordinary values x with rows of length `row`. f16 has a smaller range.
inline void stress(std::span<float> x, int64_t row, Distribution d, tinytorch::Generator& random,
                   bool half = false) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto each = static_cast<size_t>(row);
  for (size_t begin = 0; begin < x.size(); begin += each) {
    const std::span<float> r = x.subspan(begin, each);
    const size_t place = random.below(each);
    if (d == Distribution::offset)
      for (float& v : r) v += 1000;
    if (d == Distribution::huge)
      for (float& v : r) v *= half ? 1e4f : 1e15f;
    if (d == Distribution::subnormal)
      for (float& v : r) v *= half ? 1e-6f : 1e-40f;
    if (d == Distribution::zeros || d == Distribution::one_hot) std::ranges::fill(r, 0.0f);
    if (d == Distribution::one_hot) r[place] = 1;
    if (d == Distribution::duplicates) std::ranges::fill(r, r[0]);
    if (d == Distribution::ties) {
      for (float& v : r) v = (static_cast<float>(random.below(509)) - 254) / 2;
      r[place] = 127;
    }
    if (d == Distribution::not_finite && random.below(2) == 0)
      r[place] = std::array{kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}[random.below(3)];
  }
}

// Codes of 8 bits with rows of length `row`; `least` is -128, or -127 for the codes of symmetric scales.
inline void fill_codes(std::span<int8_t> out, int64_t row, Distribution d, tinytorch::Generator& random,
                       int least = -128) {
  const auto each = static_cast<size_t>(row);
  for (size_t begin = 0; begin < out.size(); begin += each) {
    const std::span<int8_t> r = out.subspan(begin, each);
    // A third of the extreme rows is all at the lower end, a third at the upper end: no sign cancels.
    const uint64_t side = random.below(3);
    for (int8_t& v : r) {
      int value = least + static_cast<int>(random.below(static_cast<uint64_t>(128 - least)));
      if (d == Distribution::zero_one) value = static_cast<int>(random.below(2));
      if (d == Distribution::extreme) value = side == 0 || (side == 2 && random.below(2) == 0) ? least : 127;
      v = static_cast<int8_t>(value);
    }
    if (d == Distribution::zeros || d == Distribution::one_hot) std::ranges::fill(r, int8_t{0});
    if (d == Distribution::one_hot) r[random.below(each)] = 1;
    if (d == Distribution::duplicates) std::ranges::fill(r, r[0]);
  }
}

inline channel::Tensor draw_codes(const Shape& shape, Distribution d, tinytorch::Generator& random,
                                  int least = -128) {
  std::vector<int8_t> codes(static_cast<size_t>(count(shape)));
  fill_codes(codes, shape.back(), d, random, least);
  return channel::make_tensor<int8_t>(channel::DType::i8, shape, codes);
}

inline channel::Tensor as_halves(const Shape& shape, std::span<const float> values) {
  std::vector<uint16_t> bits;
  for (const float v : values) bits.push_back(tinytorch::Half(v).bits);
  return channel::make_tensor<uint16_t>(channel::DType::f16, shape, bits);
}

}  // namespace detail

// Draws the inputs of one query. The same seed gives the same inputs; every query of a match has its own
// seed.
inline channel::Tensors draw_inputs(const KernelTask& task, const Shape& sides, Distribution d,
                                    uint64_t seed) {
  tinytorch::Generator random(seed);
  channel::Tensors out;
  const std::vector<Operand> operands = task.operands(sides);
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    const auto n = static_cast<size_t>(count(o.shape));
    if (o.role == Role::index) {
      std::vector<int64_t> values(n);
      for (int64_t& v : values) v = static_cast<int64_t>(random.below(static_cast<uint64_t>(o.places)));
      out.push_back(channel::make_tensor<int64_t>(channel::DType::i64, o.shape, values));
      continue;
    }
    const Distribution own = i == task.stressed || d == Distribution::zero_one || d == Distribution::extreme
                                 ? d
                                 : Distribution::ordinary;
    if (o.role == Role::codes || o.role == Role::arranged) {
      const channel::DType dtype = dtype_of(o);
      out.push_back(o.role == Role::codes
                        ? detail::draw_codes(o.shape, own, random)
                        : channel::Tensor{dtype, o.shape, channel::Bytes(n * channel::bytes_of_one(dtype))});
      continue;
    }
    std::vector<float> values(n);
    if (d == Distribution::zero_one) {
      for (float& v : values) v = static_cast<float>(random.below(2));
    } else {
      detail::fill_nearly_normal(values, random);
    }
    const bool half = o.dtype == channel::DType::f16;
    if (i == task.stressed) detail::stress(values, o.shape.back(), d, random, half);
    if (o.role == Role::square)
      for (float& v : values) v *= v;
    out.push_back(half ? detail::as_halves(o.shape, values) : channel::make_tensor(o.shape, values));
  }
  if (task.arrange) task.arrange(sides, d, random, out);
  return out;
}

}  // namespace tinymlperf::judge::kernels
