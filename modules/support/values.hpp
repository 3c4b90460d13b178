// Values: a block of numbers for a check, in any dtype and memory layout, on the CPU or a CUDA device. Its
// own code reads and writes the numbers, so that missing or wrong functions of a student cannot affect it.
//
//   Values x = Values::random(f32, {3, 5}, Layout::gaps);
//   cpu::unary(UnaryFn::relu, y.view(), x.view());
//   expect_close("relu", y, reference);
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <tinytorch/backend/view.hpp>
#include <tinytorch/core/dtype.hpp>
#include <vector>
#if TINYTORCH_WITH_CUDA
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#endif

namespace course {

using namespace tinytorch;
using backend::View;
using Numbers = std::vector<double>;

// contiguous: row-major without gaps; gaps: every second element of a larger block; transposed: the first
// dimension has the smallest stride; reversed: negative strides.
enum class Layout { contiguous, gaps, transposed, reversed };
inline constexpr Layout kLayouts[] = {Layout::contiguous, Layout::gaps, Layout::transposed, Layout::reversed};
const char* name_of_layout(Layout layout);

// Every run draws new numbers. A failure prints the seed, and TT_SEED repeats a run.
uint64_t seed();
std::mt19937_64& random_source();
double uniform(double low, double high);

class Values {
 public:
  // Memory is filled with a pattern that no correct result has, so that elements that were never written are
  // found.
  Values(DType dtype, const Shape& shape, Layout layout = Layout::contiguous);
  static Values of(DType dtype, const Shape& shape, const Numbers& numbers,
                   Layout layout = Layout::contiguous);
  static Values random(DType dtype, const Shape& shape, Layout layout = Layout::contiguous, double low = -1,
                       double high = 1);

  // The argument for a kernel. On a CUDA device the numbers are copied there, and numbers() copies them back.
  View view();
  // The numbers in row-major order, as rounded to the dtype.
  Numbers numbers();
  // The value of an element that was never written.
  static double unwritten(DType dtype);
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }

#if TINYTORCH_WITH_CUDA
  Values&& on_device() && {
    on_device_ = true;
    return std::move(*this);
  }
#endif

 private:
  static constexpr unsigned char kUnwritten = 0x7b;
  static constexpr int64_t kSlack = 8;  // elements after the last one; memory of a device has none

  int64_t element() const { return static_cast<int64_t>(size_of(dtype_)); }
  unsigned char* place_of(int64_t linear);
  double get(int64_t i);
  void put(int64_t i, double number);

  DType dtype_;
  Shape shape_;
  Strides strides_;
  int64_t first_ = 0;  // position of the element with index 0, 0, ...
  std::vector<unsigned char> bytes_;
#if TINYTORCH_WITH_CUDA
  static constexpr Device kDevice{DeviceType::cuda, 0};
  size_t size_on_device() const;
  unsigned char* to_device();
  bool on_device_ = false;
  std::shared_ptr<unsigned char> device_;
#endif
};

}  // namespace course
