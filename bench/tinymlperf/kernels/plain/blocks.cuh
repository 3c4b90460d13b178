// Device functions that the plain kernels share: the reduction of a block, and the work of one block of some
// kernels.
#pragma once

constexpr int kTile = 16;

__device__ inline size_t element() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ inline float float_of_half(unsigned bits) {
  const unsigned sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return __int_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // The exponent of a float has a bias that is larger by 112; the product is exact, also for subnormal
  // halves.
  return __int_as_float(sign | __float_as_int(__int_as_float(magnitude << 13) * 0x1p112f));
}

// All threads get the result. The number of threads of the block must be a power of two.
template <int threads, class F>
__device__ float reduce_block(float mine, F combine) {
  __shared__ float all[threads];
  all[threadIdx.x] = mine;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) all[threadIdx.x] = combine(all[threadIdx.x], all[threadIdx.x + half]);
    __syncthreads();
  }
  const float result = all[0];
  __syncthreads();
  return result;
}

template <int threads>
__device__ void softmax_row(const float* x, float* out, int n) {
  float most = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < n; j += threads) most = fmaxf(most, x[j]);
  most = reduce_block<threads>(most, [](float a, float b) { return fmaxf(a, b); });
  for (int j = threadIdx.x; j < n; j += threads) sum += expf(x[j] - most);
  sum = reduce_block<threads>(sum, [](float a, float b) { return a + b; });
  for (int j = threadIdx.x; j < n; j += threads) out[j] = expf(x[j] - most) / sum;
}

// A tile of a [m, k] times b [k, n]; `round` is applied to what is read.
template <class Round>
__device__ void matmul_tile(const float* a, const float* b, float* out, int m, int k, int n, Round round) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  const int i = blockIdx.y * kTile + threadIdx.y, j = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; p += kTile) {
    left[threadIdx.y][threadIdx.x] =
        i < m && p + threadIdx.x < k ? round(a[size_t(i) * k + p + threadIdx.x]) : 0;
    right[threadIdx.y][threadIdx.x] =
        p + threadIdx.y < k && j < n ? round(b[size_t(p + threadIdx.y) * n + j]) : 0;
    __syncthreads();
    for (int q = 0; q < kTile; ++q) sum += left[threadIdx.y][q] * right[q][threadIdx.x];
    __syncthreads();
  }
  if (i < m && j < n) out[size_t(i) * n + j] = sum;
}

// Columns from a quarter to the next, to partial [rows, 4].
__device__ inline float quarter_of_row(const float* row, int n) {
  const int each = (n + 3) / 4, begin = blockIdx.y * each, end = min(begin + each, n);
  float sum = 0;
  for (int j = begin + threadIdx.x; j < end; j += 64) sum += row[j];
  return sum;
}

// The place, 0 to 3, of kept number i in its four: a 2:4 sparse row keeps two of each four neighbours, and a
// place has 2 bits.
__device__ inline int place_24(const unsigned char* places, int i) { return places[i / 4] >> i % 4 * 2 & 3; }

// x times a row with `kept` numbers, whose places are place(i).
template <class Place>
__device__ float product_24(const unsigned short* x, const unsigned short* values, int kept, Place place) {
  float sum = 0;
  for (int i = 0; i < kept; ++i) sum += float_of_half(values[i]) * float_of_half(x[i / 2 * 4 + place(i)]);
  return sum;
}
