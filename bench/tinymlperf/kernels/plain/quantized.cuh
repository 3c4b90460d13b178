// Kernels on 8-bit codes and on blocks of Q4_0: 18 bytes for 32 numbers d (code - 8), with d in f16.

// A block for each row. The result is the scales f32 [rows], then the codes i8 [rows, n].
__global__ void quantize_rows(const float* x, void* out, int rows, int n) {
  float* const scales = static_cast<float*>(out);
  signed char* const codes = reinterpret_cast<signed char*>(scales + rows) + size_t(blockIdx.x) * n;
  x += size_t(blockIdx.x) * n;
  int largest_bits = 0;  // of magnitudes, of which a NaN has the largest
  for (int j = threadIdx.x; j < n; j += kThreads)
    largest_bits = max(largest_bits, __float_as_int(x[j]) & 0x7fffffff);
  const float largest = reduce_block<kThreads>(__int_as_float(largest_bits), [](float a, float b) {
    return __int_as_float(max(__float_as_int(a), __float_as_int(b)));
  });
  const bool finite = __float_as_int(largest) < 0x7f800000;
  if (threadIdx.x == 0) scales[blockIdx.x] = finite ? __fdiv_rn(largest, 127) : __int_as_float(0x7fc00000);
  const float up = largest < 0x1p-100f ? 0x1p64f : 1.0f;
  const float inverse = largest > 0 ? __fdiv_rn(127, largest * up) : 0;
  for (int j = threadIdx.x; j < n; j += kThreads)
    codes[j] = finite ? static_cast<signed char>(__float2int_rn(__fmul_rn(__fmul_rn(x[j], up), inverse))) : 0;
}

// x [m, k] times the transpose of w [n, k]; a thread for each sum.
__global__ void gemm_int8(const signed char* x, const signed char* w, int* out, int k, int n,
                          long long size) {
  const size_t at = element();
  if (at >= size) return;
  x += at / n * k, w += at % n * k;
  int sum = 0;
  for (int i = 0; i < k; ++i) sum += x[i] * w[i];
  out[at] = sum;
}

__device__ inline float scale_of_block(const unsigned char* block) {
  return float_of_half(block[0] | unsigned(block[1]) << 8);
}

// A warp for each row of weights; x is code [i] scale [i / 32].
__global__ void gemv_q4_0(const signed char* code, const float* scale, const unsigned char* w, float* out,
                          int blocks, int n) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  float sum = 0;
  for (int b = lane; b < blocks; b += 32) {
    const unsigned char* const block = w + (size_t(row) * blocks + b) * 18;
    int products = 0;
    for (int i = 0; i < 16; ++i) {
      products += ((block[2 + i] & 15) - 8) * code[32 * b + i];
      products += ((block[2 + i] >> 4) - 8) * code[32 * b + 16 + i];
    }
    sum += scale_of_block(block) * scale[b] * float(products);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) out[row] = sum;
}

// x f16 [m, 32 blocks] times rows of Q4_0; a thread for each element of the result.
__global__ void gemm_w4a16(const unsigned short* x, const unsigned char* w, float* out, int blocks, int n,
                           long long size) {
  const size_t at = element();
  if (at >= size) return;
  x += at / n * blocks * 32, w += at % n * blocks * 18;
  float sum = 0;
  for (int b = 0; b < blocks; ++b, x += 32, w += 18) {
    float products = 0;
    for (int i = 0; i < 16; ++i) {
      products += float((w[2 + i] & 15) - 8) * float_of_half(x[i]);
      products += float((w[2 + i] >> 4) - 8) * float_of_half(x[16 + i]);
    }
    sum += scale_of_block(w) * products;
  }
  out[at] = sum;
}
