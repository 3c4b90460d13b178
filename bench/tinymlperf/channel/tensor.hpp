// Tensors as the payload of a frame: a count, then the type, the shape and the values of each, as in memory.
//
//   count u32 | type u8, dimensions u8, zero u16, then i64 per dimension, then the values | ...
#pragma once

#include <cstdint>
#include <numeric>
#include <tinymlperf/channel/frame.hpp>
#include <utility>

namespace tinymlperf::channel {

enum class DType : uint8_t { f32, f64, f16, bf16, i8, u8, i32, i64 };

inline size_t bytes_of_one(DType dtype) {
  constexpr size_t kBytes[] = {4, 8, 2, 2, 1, 1, 4, 8};
  return kBytes[static_cast<size_t>(dtype)];
}

struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  Bytes bytes;  // row-major; as many as shape and dtype say

  template <class T>
  std::span<const T> values() const {
    if (sizeof(T) != bytes_of_one(dtype))
      throw ProtocolError("values<T>(): the size of T differs from that of the tensor's type");
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> mutable_values() {
    const auto all = values<T>();
    return {const_cast<T*>(all.data()), all.size()};
  }
};
using Tensors = std::vector<Tensor>;

template <class T>
Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::span<const T> values) {
  const int64_t elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  if (elements != static_cast<int64_t>(values.size()) || sizeof(T) != bytes_of_one(dtype))
    throw ProtocolError("make_tensor: the shape has " + std::to_string(elements) + " elements of " +
                        std::to_string(bytes_of_one(dtype)) + " bytes, but there are " +
                        std::to_string(values.size()) + " values of " + std::to_string(sizeof(T)) + " bytes");
  const auto raw = std::as_bytes(values);
  return {dtype, std::move(shape), {raw.begin(), raw.end()}};
}

inline Tensor make_tensor(std::vector<int64_t> shape, std::span<const float> values) {
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

inline Bytes encode(std::span<const Tensor> tensors) {
  Bytes out;
  detail::append(out, static_cast<uint32_t>(tensors.size()));
  for (const Tensor& tensor : tensors) {
    detail::append(out, static_cast<uint8_t>(tensor.dtype));
    detail::append(out, static_cast<uint8_t>(tensor.shape.size()));
    detail::append(out, uint16_t{0});
    for (const int64_t side : tensor.shape) detail::append(out, side);
    out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return out;
}

namespace detail {

constexpr uint32_t kMostTensors = 64;
constexpr uint8_t kMostDimensions = 8;

// Removes and returns the first `count` bytes. Throws ProtocolError if there are fewer.
inline std::span<const std::byte> take(std::span<const std::byte>& bytes, uint64_t count) {
  if (count > bytes.size())
    throw ProtocolError("expected " + std::to_string(count) + " more bytes of tensors, found " +
                        std::to_string(bytes.size()));
  const auto front = bytes.first(count);
  bytes = bytes.subspan(count);
  return front;
}

inline Tensor parse_tensor(std::span<const std::byte>& bytes) {
  const auto start = take(bytes, 4);
  const auto dtype = number_at<uint8_t>(start, 0), dimensions = number_at<uint8_t>(start, 1);
  if (dtype > static_cast<uint8_t>(DType::i64))
    throw ProtocolError("expected a tensor of type 0 to 7, found type " + std::to_string(dtype));
  if (dimensions > kMostDimensions || number_at<uint16_t>(start, 2) != 0)
    throw ProtocolError(
        "expected a tensor of at most 8 dimensions and two zero bytes after their number, found " +
        std::to_string(dimensions) + " dimensions");
  Tensor out{static_cast<DType>(dtype), {}, {}};
  const auto sides = take(bytes, uint64_t{8} * dimensions);
  uint64_t elements = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    const auto side = number_at<int64_t>(sides, 8 * i);
    // The bytes that are left bound the product, so it cannot overflow.
    if (side < 0 || (side > 0 && elements > bytes.size() / static_cast<uint64_t>(side)))
      throw ProtocolError("expected a shape of no more elements than the frame has bytes, found a side of " +
                          std::to_string(side));
    elements *= static_cast<uint64_t>(side);
    out.shape.push_back(side);
  }
  const auto values = take(bytes, elements * bytes_of_one(out.dtype));
  out.bytes.assign(values.begin(), values.end());
  return out;
}

}  // namespace detail

// Throws ProtocolError unless the whole payload consists of tensors.
inline Tensors parse_tensors(std::span<const std::byte> payload) {
  const auto count = detail::number_at<uint32_t>(detail::take(payload, 4), 0);
  if (count > detail::kMostTensors)
    throw ProtocolError("expected at most 64 tensors, found " + std::to_string(count));
  Tensors out;
  for (uint32_t i = 0; i < count; ++i) out.push_back(detail::parse_tensor(payload));
  if (!payload.empty())
    throw ProtocolError("expected the end of the tensors, found " + std::to_string(payload.size()) +
                        " more bytes");
  return out;
}

}  // namespace tinymlperf::channel
