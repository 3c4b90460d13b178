__global__ void sum_quarters(const float* x, float* partial, int n) {
  const float sum =
      reduce_block<64>(quarter_of_row(x + size_t(blockIdx.x) * n, n), [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) partial[blockIdx.x * 4 + blockIdx.y] = sum;
}
__global__ void sum_of_quarters(const float* partial, float* out, int rows) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  out[row] = (partial[4 * row] + partial[4 * row + 1]) + (partial[4 * row + 2] + partial[4 * row + 3]);
}
