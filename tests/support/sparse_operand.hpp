// Operands of the tests of sparse tensor cores in the emulator: a 2:4 sparse matrix with random places, and
// how the lanes of warps load it.
#pragma once

#include <random>
#include <support/device_array.hpp>
#include <support/faults.hpp>
#include <tinytorch/backend/cuda/device/tensor_core_sparse.cuh>

namespace test {

namespace cuda = tinytorch::backend::cuda;

// The kept pairs of two products that are 32 deep, from kept [rows, 32], and a lane's word of places, from
// words [rows, 4] of 16 columns each.
template <class T>
__device__ void load_left(unsigned (&left)[2][4], unsigned& places, const T* kept, const uint16_t* words) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, row = thread / 32 * 16 + lane / 4;
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 4; ++j) {
      left[j / 2][j % 2 * 2 + half] =
          *reinterpret_cast<const unsigned*>(kept + (row + half * 8) * 32 + (lane % 4 + j * 4) * 2);
    }
  }
  places = words[row * 4 + lane % 4] | static_cast<unsigned>(words[(row + 8) * 4 + lane % 4]) << 16;
}
template <int kCount>
__device__ void move_sums(float* out, float (&sum)[kCount][4], bool load) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, row = thread / 32 * 16 + lane / 4;
  for (int n = 0; n < kCount; ++n) {
    for (int i = 0; i < 4; ++i) {
      float& at = out[(row + i / 2 * 8) * kCount * 8 + n * 8 + lane % 4 * 2 + i % 2];
      (load ? sum[n][i] : at) = load ? at : sum[n][i];
    }
  }
}

// A sparse matrix [rows, 64] with random places.
struct Sparse {
  DeviceArray kept;
  std::vector<uint16_t> words;
  std::vector<double> dense;
  DeviceBytes on_device;

  Sparse(DType t, int64_t rows, unsigned seed)
      : kept(DeviceArray::random(t, {rows, 32}, seed)),
        words(static_cast<size_t>(rows * 4)),
        dense(static_cast<size_t>(rows * 64)),
        on_device(words.size() * 2) {
    std::mt19937 random(seed);
    const std::vector<double> values = kept.values();
    for (size_t g = 0; g < words.size() * 4; ++g) {
      unsigned low = random() % 4, high = random() % 4;
      while (high == low) high = random() % 4;
      if (low > high) std::swap(low, high);
      words[g / 4] = static_cast<uint16_t>(words[g / 4] | (low | high << 2) << (g % 4 * 4));
      dense[g * 4 + low] = values[g * 2], dense[g * 4 + high] = values[g * 2 + 1];
    }
    send();
  }
  void send() {
    cuda::copy_bytes(on_device.data(), on_cuda(0), words.data(), tinytorch::cpu, on_device.size());
  }
  const uint16_t* places() const { return reinterpret_cast<const uint16_t*>(on_device.data()); }
};

template <class T, int kCount, class Kernel>
void check_product(Kernel* kernel, int64_t rows, size_t shared, unsigned seed) {
  constexpr DType kType = tinytorch::dtype_of<T>;
  const int64_t columns = kCount * 8;
  INFO(rows, " x ", columns);
  Sparse a(kType, rows, seed);
  DeviceArray b = DeviceArray::random(kType, {columns, 64}, seed + 1),
              out = DeviceArray::random(f32, {rows, columns}, seed + 2);
  std::vector<double> want = out.values();
  const std::vector<double> y = b.values();
  for (size_t i = 0; i < want.size(); ++i) {
    const size_t row = i / static_cast<size_t>(columns), column = i % static_cast<size_t>(columns);
    for (size_t k = 0; k < 64; ++k) want[i] += a.dense[row * 64 + k] * y[column * 64 + k];
  }
  CHECK(fault_of(kernel, {dim3(1), dim3(static_cast<unsigned>(rows * 2)), shared},
                 out.view().template as<float>(), a.kept.view().template as<const T>(), a.places(),
                 b.view().template as<const T>()) == "");
  check_close(out.values(), want, f32, 64);
}

}  // namespace test
