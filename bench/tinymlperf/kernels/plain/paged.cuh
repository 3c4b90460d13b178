// Kernels on a paged KV cache: token t of sequence b is row t % page of page table[b, t / page].

struct PagedStep {
  const int* table;
  const long long *lengths, *first_row;
  int width, page;

  __device__ int sequence_of(int row) const {
    int b = 0;
    while (first_row[b + 1] <= row) ++b;
    return b;
  }
  __device__ long long position_of(int b, int row) const { return lengths[b] - (first_row[b + 1] - row); }
  // The row of a token within the pool, for head h of g.
  __device__ size_t place(int b, long long token, int h, int g) const {
    return (size_t(table[size_t(b) * width + token / page]) * g + h) * page + token % page;
  }
};

// A block for each row of the step and query head. Two passes over the tokens: the maximum and the sum of a
// running softmax, then the weighted values, so that no score is stored.
__global__ void attention_paged(const float* q, const float* keys, const float* values, const int* table,
                                const long long* lengths, const long long* first_row, float* out, int heads,
                                int g, int d, int width, int page) {
  const PagedStep step{table, lengths, first_row, width, page};
  const int row = blockIdx.x, h = blockIdx.y, group = h / (heads / g);
  const int b = step.sequence_of(row);
  const long long seen = step.position_of(b, row) + 1;
  q += (size_t(row) * heads + h) * d, out += (size_t(row) * heads + h) * d;
  const auto score = [&](long long t) {
    const float* const key = keys + step.place(b, t, group, g) * d;
    float dot = 0;
    for (int i = 0; i < d; ++i) dot += q[i] * key[i];
    return dot / sqrtf(d);
  };
  float most = -INFINITY, sum = 0;
  for (long long t = threadIdx.x; t < seen; t += kThreads) most = fmaxf(most, score(t));
  most = reduce_block<kThreads>(most, [](float a, float b) { return fmaxf(a, b); });
  __shared__ float weights[kThreads];
  float mean = 0;  // of feature threadIdx.x
  for (long long first = 0; first < seen; first += kThreads) {
    const long long t = first + threadIdx.x;
    __syncthreads();
    weights[threadIdx.x] = t < seen ? expf(score(t) - most) : 0;
    sum += weights[threadIdx.x];
    __syncthreads();
    for (int j = 0; j < kThreads && first + j < seen && int(threadIdx.x) < d; ++j)
      mean += weights[j] * values[step.place(b, first + j, group, g) * d + threadIdx.x];
  }
  sum = sum_of(sum);
  if (int(threadIdx.x) < d) out[threadIdx.x] = mean / sum;
}

__device__ inline unsigned short rounded_to_bf16(float x) {
  const unsigned bits = __float_as_int(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
// A block for each new row and head; the values lie `half` elements behind the keys.
__global__ void kv_append(const float* k, const float* v, const int* table, const long long* lengths,
                          const long long* first_row, unsigned short* out, int g, int d, int width, int page,
                          long long half) {
  const PagedStep step{table, lengths, first_row, width, page};
  const int row = blockIdx.x, h = blockIdx.y, b = step.sequence_of(row);
  const size_t to = step.place(b, step.position_of(b, row), h, g) * d, from = (size_t(row) * g + h) * d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    out[to + i] = rounded_to_bf16(k[from + i]);
    out[half + to + i] = rounded_to_bf16(v[from + i]);
  }
}
