// Shape and Strides: up to eight 64-bit values, stored inline so that no tensor operation allocates for them.
//
// Legend of dimension letters, used in every comment of the library:
//   B batch  T time  C channels (features)  H heads  D head size  V vocabulary  M N K matrix product
//   images are [N, C, H, W]: samples, channels, height, width
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <tinytorch/core/error.hpp>
#include <type_traits>

namespace tinytorch::inline TT_BUILD {

// a / b rounded up: the number of parts of size b that cover a. Requires b > 0 and a > -b. The result has the
// type of a + b, so numbers of 32 bits are divided as such.
template <std::integral A, std::integral B>
constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}
// The smallest multiple of b that is at least a. Requires b > 0 and a > -b.
template <std::integral A, std::integral B>
constexpr auto round_up(A a, B b) {
  return ceil_div(a, b) * b;
}

inline constexpr int kMaxRank = 8;

// A short list of 64-bit integers with the interface of a vector. A copy copies only the values in use, one
// by one. An operation copies about thirty of these lists, and a wide load of all eight values would stall on
// a narrow store just before it.
class Dims {
 public:
  constexpr Dims() = default;
  constexpr Dims(const Dims& other) { *this = other; }
  constexpr Dims& operator=(const Dims& other) {
    rank_ = other.rank_;
    TT_UNROLL
    for (int i = 0; i < kMaxRank; ++i) {
      if (i == rank_) break;
      values_[i] = other.values_[i];
    }
    return *this;
  }
  // One size or dimension may be written without braces: zeros(3), sum(x, 1).
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) constexpr Dims(T value) {
    push_back(static_cast<int64_t>(value));
  }
  constexpr Dims(std::initializer_list<int64_t> values) {
    for (int64_t v : values) push_back(v);
  }
  template <class It>
  constexpr Dims(It first, It last) {
    for (; first != last; ++first) push_back(static_cast<int64_t>(*first));
  }
  static constexpr Dims filled(int rank, int64_t value) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(value);
    return d;
  }

  constexpr int size() const { return rank_; }
  constexpr bool empty() const { return rank_ == 0; }
  constexpr int64_t operator[](int i) const { return values_[i]; }
  constexpr int64_t& operator[](int i) { return values_[i]; }
  constexpr const int64_t* begin() const { return values_; }
  constexpr const int64_t* end() const { return values_ + rank_; }
  constexpr int64_t* begin() { return values_; }
  constexpr int64_t* end() { return values_ + rank_; }
  constexpr int64_t back() const { return values_[rank_ - 1]; }
  constexpr int64_t& back() { return values_[rank_ - 1]; }

  constexpr void push_back(int64_t v) {
    if (rank_ == kMaxRank)
      fail("TT-SHAPE-09", "a tensor has at most 8 dimensions\n  hint: merge some with reshape");
    values_[rank_++] = v;
  }
  constexpr void insert(int at, int64_t v) {
    push_back(v);
    for (int i = rank_ - 1; i > at; --i) values_[i] = values_[i - 1];
    values_[at] = v;
  }
  constexpr void erase(int at) {
    for (int i = at; i + 1 < rank_; ++i) values_[i] = values_[i + 1];
    --rank_;
  }
  constexpr void pop_back() { --rank_; }

  // Product of all values: the number of elements when this is a shape (1 for rank 0).
  constexpr int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= values_[i];
    return n;
  }
  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }
  // "[2, 3]", the form used in messages and printed tensors.
  std::string str() const {
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(values_[i]);
    return s + "]";
  }

 private:
  int64_t values_[kMaxRank] = {};
  int rank_ = 0;
};

// The largest number of elements that a tensor may have. Up to this limit, no count of elements or bytes, and
// no sum of a few such counts, overflows 64 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 58;

// True if a tensor can have these sizes: none is negative, and their product is at most kMaxElements. A size
// of 0 is left out of the product, because strides are products of the other sizes.
constexpr bool is_valid_shape(const Dims& sizes) {
  int64_t product = 1;
  for (int64_t s : sizes) {
    if (s < 0 || (s > 0 && __builtin_mul_overflow(product, s, &product)) || product > kMaxElements)
      return false;
  }
  return true;
}

using Shape = Dims;    // sizes
using Strides = Dims;  // distance in elements between adjacent positions along each dimension

}  // namespace tinytorch::inline TT_BUILD
