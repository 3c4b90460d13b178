// The trial of a new kernel against the interpreter: it must give the same bits, and be faster.
//
// Inputs are random numbers and the special values of floating point: zeros of both signs, subnormal numbers,
// infinities, NaN, and numbers where a function changes its formula. Lengths are one element, around one
// vector, primes, and several vectors. A NaN equals every NaN, because the sign and the payload of the NaN of
// a + b depend on the order in which the compiler writes the operands.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tinytorch/acceleration/emit_cpu.hpp>
#include <tinytorch/backend/cpu/loops/pack.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

// True if all bits are equal, where a NaN equals every NaN. Both views are contiguous and of one dtype.
inline bool same_bits(const View& a, const View& b) {
  const int64_t n = a.numel();
  const auto bytes = static_cast<size_t>(n) * size_of(a.dtype);
  if (bytes == 0 || std::memcmp(a.data, b.data, bytes) == 0) return true;
  if (!is_floating(a.dtype)) return false;
  for (int64_t i = 0; i < n; ++i) {
    double x = 0, y = 0;
    backend::read_flat(&x, a, i, 1), backend::read_flat(&y, b, i, 1);
    if (x != x && y != y) continue;
    const size_t size = size_of(a.dtype), at = static_cast<size_t>(i) * size;
    if (std::memcmp(a.as<char>() + at, b.as<char>() + at, size) != 0) return false;
  }
  return true;
}

// A call of a kernel with inputs of its class of layout, and memory for the results.
class KernelTrial {
 public:
  // Rows of n elements: 3 rows, or one if the layout has no rows.
  KernelTrial(const PointwiseProgram& program, const KernelLayout& layout, int64_t rows, int64_t n,
              uint64_t seed, bool special)
      : program_(program) {
    shape_ = layout.rows ? Shape{rows, n} : Shape{n};
    Generator random(seed);
    for (size_t k = 0; k < program.inputs.size(); ++k) {
      strides_.push_back(strides_of(layout, k, n));
      add_input(program.inputs[k], random, special);
    }
    for (const int v : program.outputs) {
      const DType dtype = program.dtype_of_value(v);
      for (std::vector<View>* to : {&mine_, &expected_}) {
        memory_.emplace_back(static_cast<size_t>(shape_.numel()) * size_of(dtype) + 64, std::byte{0});
        to->push_back({memory_.back().data(), dtype, shape_, contiguous_strides()});
      }
    }
    call_ = kernel_call(program, shape_, strides_, false);
    for (const View& v : mine_) out_data_.push_back(v.data);
    for (const View& v : in_) in_data_.push_back(v.data);
  }
  void run_kernel(KernelFunction kernel) const {
    kernel(out_data_.data(), in_data_.data(), call_.arguments.data(), 0, shape_.numel());
  }
  void run_interpreter() const { backend::cpu::pointwise(program_, expected_, in_); }
  // The operands, the memory for the results of the kernel and of the interpreter, and the kernel's
  // arguments.
  const std::vector<View>& in() const { return in_; }
  const std::vector<View>& mine() const { return mine_; }
  const std::vector<View>& expected() const { return expected_; }
  const KernelCall& call() const { return call_; }
  bool agrees(KernelFunction kernel) const {
    run_interpreter();
    run_kernel(kernel);
    return results_agree();
  }
  bool results_agree() const {
    for (size_t k = 0; k < mine_.size(); ++k)
      if (!same_bits(mine_[k], expected_[k])) return false;
    return true;
  }

 private:
  Strides contiguous_strides() const { return shape_.size() == 2 ? Strides{shape_[1], 1} : Strides{1}; }
  static Strides strides_of(const KernelLayout& layout, size_t k, int64_t n) {
    const bool full = k % 2 == 1;  // inputs with contiguous rows: one row for all rows, or each its own
    switch (layout.inputs[k]) {
      case InputLayout::constant:
        return Strides::filled(layout.rows ? 2 : 1, 0);
      case InputLayout::contiguous:
        return layout.rows ? Strides{full ? n : 0, 1} : Strides{1};
      case InputLayout::repeated:
        return layout.rows ? Strides{1, 0} : Strides{0};
      case InputLayout::strided:
        break;
    }
    return layout.rows ? Strides{2 * n + 1, 2} : Strides{2};
  }
  static double value(Generator& random, bool special) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    static constexpr double kSpecial[] = {0.0,
                                          -0.0,
                                          1e-310,
                                          -1e-310,
                                          1e-42,
                                          -1e-42,
                                          kInfinity,
                                          -kInfinity,
                                          std::numeric_limits<double>::quiet_NaN(),
                                          1,
                                          -1,
                                          0.5,
                                          -0.5,
                                          3e38,
                                          -3e38,
                                          1e300,
                                          6e-8,
                                          65504,
                                          87.5,
                                          -87.5,
                                          104.5,
                                          -104.5,
                                          10.5,
                                          -11,
                                          20.5,
                                          2e6,
                                          -3e7,
                                          1.5,
                                          2.5,
                                          -3,
                                          3,
                                          6,
                                          0x1p-126,
                                          0x1p-1022,
                                          0x1.fffffep-1};
    constexpr uint64_t kCount = std::size(kSpecial);
    if (special && random.uniform() < 0.4) return kSpecial[random.below(kCount)];
    const double x = random.uniform(-3, 3);
    return special && random.uniform() < 0.2 ? x * 40 : x;
  }
  void add_input(DType dtype, Generator& random, bool special) {
    int64_t elements = 1;
    for (int d = 0; d < shape_.size(); ++d) elements += (shape_[d] - 1) * strides_.back()[d];
    memory_.emplace_back(static_cast<size_t>(elements) * size_of(dtype) + 64, std::byte{0});
    const View flat{memory_.back().data(), dtype, {elements}, {1}};
    std::vector<double> values(static_cast<size_t>(elements));
    for (double& x : values)
      x = dtype == DType::boolean ? static_cast<double>(random.below(2)) : value(random, special);
    backend::write_flat(flat, 0, values.data(), elements);
    in_.push_back({flat.data, dtype, shape_, strides_.back()});
  }

  const PointwiseProgram& program_;
  Shape shape_;
  std::vector<Strides> strides_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<View> in_, mine_, expected_;
  std::vector<void*> out_data_;
  std::vector<const void*> in_data_;
  KernelCall call_;
};

// True if the kernel gives the bits of the interpreter in all trials.
inline bool agrees_with_interpreter(const PointwiseProgram& program, const KernelLayout& layout,
                                    KernelFunction kernel) {
  uint64_t seed = 1;
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 97, 1009}) {
    for (const bool special : {false, true}) {
      if (!KernelTrial(program, layout, 3, n, seed++, special).agrees(kernel)) return false;
    }
  }
  return KernelTrial(program, layout, 3, 4099, seed, true).agrees(kernel);
}

// The time of the interpreter divided by that of the kernel, for 16 Ki elements on one thread; the least of a
// few rounds each.
inline double speed_against_interpreter(const PointwiseProgram& program, const KernelLayout& layout,
                                        KernelFunction kernel) {
  using Clock = std::chrono::steady_clock;
  const KernelTrial trial(program, layout, 128, layout.rows ? 128 : 128 * 128, 1, false);
  const auto time = [](auto&& f) {
    const auto start = Clock::now();
    f();
    return Clock::now() - start;
  };
  auto theirs = Clock::duration::max(), mine = Clock::duration::max();
  for (int round = 0; round < 7; ++round) {
    theirs = std::min(theirs, time([&] { trial.run_interpreter(); }));
    mine = std::min(mine, time([&] { trial.run_kernel(kernel); }));
  }
  return static_cast<double>(theirs.count()) / static_cast<double>(std::max<int64_t>(1, mine.count()));
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
