// What the judge knows of an op: its inputs, its output, its shapes, what is right, and how much work it is.
//
// An answer is looked at row by row (the last side of the output), and the oracle gives one row at a time, in
// f64, by its definition, without the library: so large answers are checked in rows that are drawn after they
// came.
#pragma once

#include <tinymlperf/channel/tensor.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>

namespace tinymlperf::judge::kernels {

// A Shape is the sides of a tensor, or the numbers from which those of an op follow: m, k, n of a product.

// What an input holds.
// Any numbers; rows of which an index names some; none below 0; i64, of something with so many places.
enum class Role { data, table, square, index };
struct Operand {
  Shape shape;
  Role role = Role::data;
  int64_t places = 0;
};

// What stands in the input that is stressed; the others are ordinary, but for zero_one, which is in all.
enum class Distribution {
  ordinary,    // about 1 in size, both signs
  zero_one,    // 0 or 1: sums of products are whole numbers, so any order gives the same bits
  offset,      // 1000 + ordinary: what is subtracted leaves few digits
  huge,        // 1e15 times as large
  zeros,       // nothing but 0
  subnormal,   // 1e-40 times as large
  one_hot,     // one 1 in each row
  duplicates,  // one number in each row
  not_finite,  // ordinary, with infinities and a NaN in some rows
};
inline constexpr std::array kDistributionNames{"ordinary",  "zero_one", "offset",     "huge",      "zeros",
                                               "subnormal", "one_hot",  "duplicates", "not_finite"};
inline std::string name_of(Distribution d) { return kDistributionNames[static_cast<size_t>(d)]; }

enum class Exact { never, for_zero_one, always };  // in which case another bit is a wrong answer

struct KernelTask {
  std::string name, text;            // "softmax"; what it computes of what, in a line
  std::vector<Shape> shapes;         // that everybody knows, and that are ranked
  std::vector<Shape> device_shapes;  // instead of them on a GPU, which takes microseconds for those
  Shape least, most;                 // between which hidden shapes are drawn
  Exact exact = Exact::never;
  size_t stressed = 0;  // the input that a distribution is about
  std::vector<Distribution> adversarial;
  std::vector<Operand> (*operands)(const Shape&) = nullptr;
  Shape (*output)(const Shape&) = nullptr;
  void (*oracle)(std::span<const channel::Tensor> in, int64_t row, std::span<double> out) = nullptr;
  double (*multiply_adds)(const Shape&) = nullptr;
};

inline int64_t count(std::span<const int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// What must be read at least.
inline double read_bytes_of(const KernelTask& task, const Shape& sides) {
  double bytes = 0;
  for (const Operand& o : task.operands(sides)) {
    const int64_t all = count(o.shape);
    const int64_t read = o.role == Role::table ? std::min(all, count(task.output(sides))) : all;
    bytes += (o.role == Role::index ? 8.0 : 4.0) * static_cast<double>(read);
  }
  return bytes;
}
// The least bytes that an op must move: those of its inputs and of its output.
inline double bytes_of(const KernelTask& task, const Shape& sides) {
  return read_bytes_of(task, sides) + 4 * static_cast<double>(count(task.output(sides)));
}

// One of each kind: as small as can be, and twice with sides that are prime numbers, where the range has one.
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

// Sums of four uniform numbers: mean 0, variance 1, all bits of a float in use.
inline void fill_bell(std::span<float> out, tinytorch::Generator& random) {
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

// The same seed gives the same inputs; every query of a match has its own.
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
      detail::fill_bell(values, random);
    }
    if (i == task.stressed) detail::stress(values, o.shape.back(), d, random);
    if (o.role == Role::square)
      for (float& v : values) v *= v;
    out.push_back(channel::make_tensor(o.shape, values));
  }
  return out;
}

}  // namespace tinymlperf::judge::kernels
