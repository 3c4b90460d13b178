// The ops of `krn` in plain CUDA: each as it is written first, right for every input, and slow. A submission
// starts from a copy of this folder and replaces one kernel after the other; plan.json says how they are
// launched.
#include "blocks.cuh"

#include "matmul.cuh"
#include "softmax.cuh"
#include "sum_rows.cuh"

constexpr int kThreads = 256;

// x [m, k] times the transpose of w [n, k], plus b [n]
__global__ void linear_tiles(const float* x, const float* w, const float* b, float* out, int m, int k,
                             int n) {
  __shared__ float left[kTile][kTile],
      right[kTile][kTile + 1];  // + 1: a column's floats lie in different banks
  const int i = blockIdx.y * kTile + threadIdx.y, first = blockIdx.x * kTile, j = first + threadIdx.x;
  float sum = 0;
  for (int p = threadIdx.x; p < k + int(threadIdx.x); p += kTile) {
    left[threadIdx.y][threadIdx.x] = i < m && p < k ? x[size_t(i) * k + p] : 0;
    const int row = first + threadIdx.y;
    right[threadIdx.y][threadIdx.x] = row < n && p < k ? w[size_t(row) * k + p] : 0;
    __syncthreads();
    for (int q = 0; q < kTile; ++q) sum += left[threadIdx.y][q] * right[threadIdx.x][q];
    __syncthreads();
  }
  if (i < m && j < n) out[size_t(i) * n + j] = sum + b[j];
}

// x [images, channels, height, width] with w [filters, channels, 3, 3]; a thread for each element of the
// output
__global__ void conv2d(const float* x, const float* w, const float* b, float* out, int channels, int filters,
                       int height, int width, long long size) {
  const size_t at = element();
  if (at >= size) return;
  const int column = at % width, row = at / width % height, filter = at / width / height % filters;
  const size_t image = at / width / height / filters;
  float sum = b[filter];
  for (int c = 0; c < channels; ++c) {
    const float* plane = x + (image * channels + c) * height * width;
    const float* taps = w + (size_t(filter) * channels + c) * 9;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        const int y = row + dy, z = column + dx;
        if (y >= 0 && y < height && z >= 0 && z < width)
          sum += plane[y * width + z] * taps[(dy + 1) * 3 + dx + 1];
      }
    }
  }
  out[at] = sum;
}

__global__ void add(const float* x, const float* b, float* out, int n, long long size) {
  const size_t at = element();
  if (at < size) out[at] = x[at] + b[at % n];
}
__global__ void gelu(const float* x, float* out, long long size) {
  const size_t at = element();
  if (at < size) out[at] = 0.5f * x[at] * (1 + erff(x[at] * 0.70710678f));
}

// A block for each row.
__device__ inline float sum_of(float x) {
  return reduce_block<kThreads>(x, [](float a, float b) { return a + b; });
}
__global__ void log_softmax(const float* x, float* out, int n) {
  x += size_t(blockIdx.x) * n, out += size_t(blockIdx.x) * n;
  float most = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < n; j += kThreads) most = fmaxf(most, x[j]);
  most = reduce_block<kThreads>(most, [](float a, float b) { return fmaxf(a, b); });
  for (int j = threadIdx.x; j < n; j += kThreads) sum += expf(x[j] - most);
  const float log_sum = logf(sum_of(sum));
  for (int j = threadIdx.x; j < n; j += kThreads) out[j] = x[j] - most - log_sum;
}
__global__ void layer_norm(const float* x, const float* w, const float* b, float* out, int n) {
  x += size_t(blockIdx.x) * n, out += size_t(blockIdx.x) * n;
  float sum = 0, squares = 0;
  for (int j = threadIdx.x; j < n; j += kThreads) sum += x[j];
  const float mean = sum_of(sum) / n;
  for (int j = threadIdx.x; j < n; j += kThreads) squares += (x[j] - mean) * (x[j] - mean);
  const float scale = 1 / sqrtf(sum_of(squares) / n + 1e-5f);
  for (int j = threadIdx.x; j < n; j += kThreads) out[j] = (x[j] - mean) * scale * w[j] + b[j];
}
__global__ void rms_norm(const float* x, const float* w, float* out, int n) {
  x += size_t(blockIdx.x) * n, out += size_t(blockIdx.x) * n;
  float squares = 0;
  for (int j = threadIdx.x; j < n; j += kThreads) squares += x[j] * x[j];
  const float scale = 1 / sqrtf(sum_of(squares) / n + 1e-6f);
  for (int j = threadIdx.x; j < n; j += kThreads) out[j] = x[j] * scale * w[j];
}

// Maximum over windows of planes [height, width]. A NaN counts as the maximum.
__global__ void max_pool2d(const float* x, float* out, int height, int width, long long size) {
  const size_t at = element();
  if (at >= size) return;
  const int columns = width / 2, rows = height / 2;
  const size_t plane = at / columns / rows;
  const float* corner = x + (plane * height + at / columns % rows * 2) * width + at % columns * 2;
  float most = corner[0];
  for (const float other : {corner[1], corner[width], corner[width + 1]})
    if (other > most || other != other) most = other;
  out[at] = most;
}

// A block for each query of each head, q, k and v [heads, t, d]; its scores lie in shared memory [t].
__global__ void attention(const float* q, const float* k, const float* v, float* out, int t, int d) {
  extern __shared__ float scores[];
  const size_t head = blockIdx.y, query = blockIdx.x, seen = query + 1;
  q += (head * t + query) * d, k += head * t * d, v += head * t * d, out += (head * t + query) * d;
  float most = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < seen; j += kThreads) {
    float score = 0;
    for (int i = 0; i < d; ++i) score += q[i] * k[size_t(j) * d + i];
    scores[j] = score / sqrtf(d);
    most = fmaxf(most, scores[j]);
  }
  most = reduce_block<kThreads>(most, [](float a, float b) { return fmaxf(a, b); });
  for (int j = threadIdx.x; j < seen; j += kThreads) {
    scores[j] = expf(scores[j] - most);
    sum += scores[j];
  }
  sum = sum_of(sum);
  for (int i = threadIdx.x; i < d; i += kThreads) {
    float mean = 0;
    for (int j = 0; j < seen; ++j) mean += scores[j] * v[size_t(j) * d + i];
    out[i] = mean / sum;
  }
}

__global__ void embedding(const float* table, const long long* index, float* out, int d) {
  const float* row = table + index[blockIdx.x] * d;
  for (int j = threadIdx.x; j < d; j += kThreads) out[size_t(blockIdx.x) * d + j] = row[j];
}

// Step 10: p, m and v one after the other. Loshchilov and Hutter, "Decoupled weight decay regularization",
// 2019.
__global__ void adamw(const float* p, const float* g, const float* m, const float* v, float* out,
                      long long n) {
  const size_t at = element();
  if (at >= n) return;
  const float first = 0.9f * m[at] + 0.1f * g[at], second = 0.999f * v[at] + 0.001f * g[at] * g[at];
  const float mean = first / float(1 - pow(0.9, 10)), square = second / float(1 - pow(0.999, 10));
  out[at] = p[at] * (1 - 1e-3f * 0.01f) - 1e-3f * mean / (sqrtf(square) + 1e-8f);
  out[n + at] = first;
  out[2 * n + at] = second;
}

#include "paged.cuh"
#include "quantized.cuh"
#include "sparse24.cuh"
