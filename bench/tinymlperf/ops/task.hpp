// KernelTask describes an op of the benchmark `krn`: its inputs, its output, its shapes, its oracle and its
// work.
//
// A row is a run of elements along the last dimension of the output. The judge checks answers row by row, and
// the oracle computes one row in f64 from the definition, without the library. Large answers are checked in a
// sample of rows, which is drawn after the answer has arrived.
#pragma once

#include <tinymlperf/channel/tensor.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>

namespace tinymlperf::judge::kernels {

// A Shape holds the sides of a tensor, or the numbers from which the shapes of an op's operands follow, for
// example m, k, n of a matrix product.

// The values of an input.
enum class Role {
  data,    // any numbers
  table,   // rows, of which an index selects some
  square,  // numbers of at least 0
  index    // i64, 0 to places - 1
};
struct Operand {
  Shape shape;
  Role role = Role::data;
  int64_t places = 0;  // rows of the indexed table
};

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
};
inline constexpr std::array kDistributionNames{"ordinary",  "zero_one", "offset",     "huge",      "zeros",
                                               "subnormal", "one_hot",  "duplicates", "not_finite"};
inline std::string name_of(Distribution d) { return kDistributionNames[static_cast<size_t>(d)]; }

enum class Exact { never, for_zero_one, always };  // the inputs for which every bit of an answer must agree

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
};

inline int64_t count(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// The minimal number of bytes that the op must read.
inline double read_bytes_of(const KernelTask& task, const Shape& sides) {
  double bytes = 0;
  for (const Operand& o : task.operands(sides)) {
    const int64_t all = count(o.shape);
    const int64_t read = o.role == Role::table ? std::min(all, count(task.output(sides))) : all;
    bytes += (o.role == Role::index ? 8.0 : 4.0) * static_cast<double>(read);
  }
  return bytes;
}
// The minimal number of bytes that the op must read and write.
inline double bytes_of(const KernelTask& task, const Shape& sides) {
  return read_bytes_of(task, sides) + 4 * static_cast<double>(count(task.output(sides)));
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

// Applies the distribution to ordinary values x with rows of length `row`.
inline void stress(std::span<float> x, int64_t row, Distribution d, tinytorch::Generator& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto each = static_cast<size_t>(row);
  for (size_t begin = 0; begin < x.size(); begin += each) {
    const std::span<float> r = x.subspan(begin, each);
    const size_t place = random.below(each);
    if (d == Distribution::offset)
      for (float& v : r) v += 1000;
    if (d == Distribution::huge)
      for (float& v : r) v *= 1e15f;
    if (d == Distribution::subnormal)
      for (float& v : r) v *= 1e-40f;
    if (d == Distribution::zeros || d == Distribution::one_hot) std::ranges::fill(r, 0.0f);
    if (d == Distribution::one_hot) r[place] = 1;
    if (d == Distribution::duplicates) std::ranges::fill(r, r[0]);
    if (d == Distribution::not_finite && random.below(2) == 0)
      r[place] = std::array{kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}[random.below(3)];
  }
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
    std::vector<float> values(n);
    if (d == Distribution::zero_one) {
      for (float& v : values) v = static_cast<float>(random.below(2));
    } else {
      detail::fill_nearly_normal(values, random);
    }
    if (i == task.stressed) detail::stress(values, o.shape.back(), d, random);
    if (o.role == Role::square)
      for (float& v : values) v *= v;
    out.push_back(channel::make_tensor(o.shape, values));
  }
  return out;
}

}  // namespace tinymlperf::judge::kernels
