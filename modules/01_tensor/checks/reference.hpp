// Reference results of this module's checks: plain loops over indices, in double.
#pragma once

#include <sys/mman.h>

#include <support/check.hpp>

namespace course {

// Strides of a row-major block of that shape.
inline Strides row_major_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int d = shape.size() - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}
inline int64_t offset_of(const Shape& index, const Strides& strides) {
  int64_t at = 0;
  for (int d = 0; d < index.size(); ++d) at += index[d] * strides[d];
  return at;
}
// Row-major number of the element of a tensor of shape `from` that a broadcast has at this index of a larger
// shape.
inline int64_t number_behind(const Shape& index, const Shape& from) {
  Shape own;
  const int shift = index.size() - from.size();
  for (int d = 0; d < from.size(); ++d) own.push_back(from[d] == 1 ? 0 : index[d + shift]);
  return offset_of(own, row_major_strides(from));
}
inline Numbers broadcast(const Numbers& x, const Shape& from, const Shape& to) {
  Numbers out(static_cast<size_t>(to.numel()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = x[static_cast<size_t>(number_behind(index_of(to, static_cast<int64_t>(i)), from))];
  }
  return out;
}
// The offsets of all elements of a view, in row-major order.
inline std::vector<int64_t> offsets_of(const Shape& shape, const Strides& strides) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < shape.numel(); ++i) out.push_back(offset_of(index_of(shape, i), strides));
  return out;
}

// The reduction of row-major numbers over the flagged dimensions, and the largest sum of magnitudes: {values,
// scale}.
struct Reduced {
  Numbers values;
  double scale = 1;
};
inline Reduced reduced(const Numbers& x, const Shape& shape, const bool* flags, double start,
                       const std::function<double(double, double)>& join) {
  Shape kept = shape;
  for (int d = 0; d < shape.size(); ++d) kept[d] = flags[d] ? 1 : shape[d];
  Reduced out{Numbers(static_cast<size_t>(kept.numel()), start), 1};
  Numbers sizes(out.values.size());
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const auto r = static_cast<size_t>(number_behind(index_of(shape, i), kept));
    out.values[r] = join(out.values[r], x[static_cast<size_t>(i)]);
    sizes[r] += std::abs(x[static_cast<size_t>(i)]);
    if (sizes[r] > out.scale) out.scale = sizes[r];
  }
  return out;
}

// out [M, N] = a [M, K] b [K, N].
inline Numbers product(const Numbers& a, const Numbers& b, int64_t M, int64_t N, int64_t K) {
  Numbers out(static_cast<size_t>(M * N));
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k = 0; k < K; ++k) {
        out[static_cast<size_t>(m * N + n)] +=
            a[static_cast<size_t>(m * K + k)] * b[static_cast<size_t>(k * N + n)];
      }
    }
  }
  return out;
}

// Two rows of three i8 whose distance in memory is more than 2^31 elements, so that the second one is reached
// only by an offset of 64 bits. The system gives memory to the pages that are used: two.
class FarRows {
 public:
  explicit FarRows(const Numbers& numbers) {
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    expect("the system has 2 GiB of addresses for a test", memory != MAP_FAILED);
    data_ = static_cast<int8_t*>(memory);
    for (int64_t i = 0; i < 6; ++i) at(i) = static_cast<int8_t>(numbers[static_cast<size_t>(i)]);
  }
  ~FarRows() { munmap(data_, kBytes); }
  FarRows(const FarRows&) = delete;
  FarRows& operator=(const FarRows&) = delete;
  View view() const { return {data_, i8, {2, 3}, {kStep, 1}}; }
  Numbers numbers() const {
    Numbers out;
    for (int64_t i = 0; i < 6; ++i) out.push_back(at(i));
    return out;
  }

 private:
  static constexpr int64_t kStep = (int64_t{1} << 31) + 4096;
  static constexpr size_t kBytes = static_cast<size_t>(kStep) + 4096;
  int8_t& at(int64_t i) const { return data_[i / 3 * kStep + i % 3]; }
  int8_t* data_;
};

}  // namespace course
