template <int threads>
__global__ void softmax_rows(const float* x, float* out, int n) {
  softmax_row<threads>(x + size_t(blockIdx.x) * n, out + size_t(blockIdx.x) * n, n);
}
