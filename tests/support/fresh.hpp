// Fresh: random operands on the device, different in every run. A failure prints the seed;
// TINYTORCH_TEST_SEED=<seed> repeats the run.
#pragma once

#include <cstdlib>
#include <random>
#include <string>
#include <support/device_array.hpp>

namespace test {

class Fresh {
 public:
  Fresh() : seed_(first_seed()) {}
  std::string text() const { return "TINYTORCH_TEST_SEED=" + std::to_string(seed_); }
  uint64_t next() { return seed_ + uint64_t{0x10001} * ++made_; }

  DeviceArray array(DType dtype, const Shape& shape, double low = -1, double high = 1,
                    Layout layout = Layout::dense) {
    return DeviceArray::random(dtype, shape, next(), low, high, layout);
  }
  // Random integers in [low, high).
  std::vector<double> whole(int64_t count, double low, double high) {
    Generator generator(next());
    std::vector<double> values(static_cast<size_t>(count));
    for (double& v : values) v = std::floor(generator.uniform(low, high));
    return values;
  }
  DeviceArray integers(DType dtype, const Shape& shape, double low, double high,
                       Layout layout = Layout::dense) {
    return DeviceArray::from(dtype, shape, whole(shape.numel(), low, high), layout);
  }

 private:
  static uint64_t first_seed() {
    if (const char* text = std::getenv("TINYTORCH_TEST_SEED")) return std::strtoull(text, nullptr, 10);
    return std::random_device{}();
  }
  uint64_t seed_, made_ = 0;
};

// Row-major positions of the elements that are reduced to the same result, when the dimensions d with
// reduced[d] are reduced: one list per result, in the order of the results.
inline std::vector<std::vector<size_t>> groups_of(const Shape& shape, const std::vector<bool>& reduced) {
  int64_t results = 1;
  for (int d = 0; d < shape.size(); ++d) results *= reduced[static_cast<size_t>(d)] ? 1 : shape[d];
  std::vector<std::vector<size_t>> groups(static_cast<size_t>(results));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t rest = i, at = 0, step = 1;
    for (int d = shape.size() - 1; d >= 0; --d) {
      if (!reduced[static_cast<size_t>(d)]) {
        at += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    groups[static_cast<size_t>(at)].push_back(static_cast<size_t>(i));
  }
  return groups;
}
inline std::vector<std::vector<size_t>> lines_of(const Shape& shape, int dim) {
  std::vector<bool> reduced(static_cast<size_t>(shape.size()), false);
  reduced[static_cast<size_t>(dim)] = true;
  return groups_of(shape, reduced);
}

// The dtype of statistics for values of a dtype.
inline DType wide_of(DType t) { return t == f64 ? f64 : f32; }

// The name of a dtype for doctest, which would print a const char* as an address.
inline std::string text_of(DType t) { return name_of(t); }

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace test
