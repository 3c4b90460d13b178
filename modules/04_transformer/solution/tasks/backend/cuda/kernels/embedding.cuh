// Embedding: rows of a table picked by index, and the gradient that adds rows back (contracts:
// backend/cpu/embedding.hpp). An index outside the table gives a row of zeros, and adds nothing.
//
// In the gradient, many positions may name one row. atomicAdd would be right except for the last bits: which
// of two positions comes first is chance, and floating-point sums depend on their order. Here each row has
// one owner, the block of the first position that names it, and the owner adds the others in the order of
// their positions. It compares N indices with N: production code sorts the positions by row instead (the
// library's kernels/rows/grouped.cuh).
//
// Task 4.17: embedding_kernel, embedding_grad_kernel, embedding_grad. The given parts of this header are in
// modules/04_transformer/frame/tinytorch/backend/cuda/kernels/embedding.cuh, which includes this file.
#pragma once

namespace tinytorch::inline TT_BUILD::backend::cuda {

// out[n, c] = table[index[n], c], or 0 where index[n] is -1; a thread per element.
template <class C>
static __global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_kernel(const __grid_constant__ Elements<C> out, const __grid_constant__ Elements<C> table,
                     const __grid_constant__ RowIndices index, int64_t columns) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kEmbeddingThreads + threadIdx.x;
  if (i >= out.count) return;
  const int64_t row = index[i / columns];
  out.write(out.place(i), row < 0 ? C(0) : table.read(table.place(row * columns + i % columns)));
}

// The row of dw that position n = blockIdx.x names, for columns blockIdx.y * kEmbeddingThreads + threadIdx.x,
// if n is the first of all `positions` to name it; dw is zero before. In three parts:
//
//   1. Is n the first? All threads look through the positions before it, each at every kEmbeddingThreads-th,
//      and one that finds the row says so in `taken`. Barriers: after the variable is cleared, and before it
//      is read. If it is taken, the whole block returns.
//   2. Which positions name the row? From n on, kEmbeddingThreads of them at a time: each thread looks at one
//      and __ballot_sync makes of a warp's answers a word, bit l for lane l, which lane 0 stores in
//      votes[warp]. Barrier.
//   3. Each thread goes through the words' bits, from the lowest on (__ffs gives its number + 1, word &= word
//      - 1 clears it), and adds its column of dy at that position. Barrier, before the next votes.
//
// All threads go through all steps, also those beyond the last column: a warp votes as a whole. The sum is in
// C, and written once: of 16-bit sums the second hundred rows would be lost to rounding.
template <class C>
static __global__ void __launch_bounds__(kEmbeddingThreads)
    embedding_grad_kernel(const __grid_constant__ Elements<C> dw, const __grid_constant__ Elements<C> dy,
                          const __grid_constant__ RowIndices index, int64_t positions, int64_t columns) {
  __shared__ int taken;
  __shared__ unsigned votes[kEmbeddingWarps];
  const int64_t n = blockIdx.x, row = index[n];
  if (row < 0) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kEmbeddingThreads + threadIdx.x;
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  bool found = false;
  for (int64_t k = threadIdx.x; k < n && !found; k += kEmbeddingThreads) found = index[k] == row;
  if (found) atomicExch(&taken, 1);
  __syncthreads();
  if (taken) return;
  C sum = 0;
  for (int64_t first = n; first < positions; first += kEmbeddingThreads) {
    const int64_t mine = first + threadIdx.x;
    const unsigned named = __ballot_sync(kAllLanes, mine < positions && index[mine] == row);
    if (lane == 0) votes[warp] = named;
    __syncthreads();
    for (int w = 0; w < kEmbeddingWarps; ++w) {
      for (unsigned word = votes[w]; word != 0; word &= word - 1) {
        const int64_t position = first + w * kWarp + __ffs(static_cast<int>(word)) - 1;
        if (column < columns) sum += dy.read(dy.place(position * columns + column));
      }
    }
    __syncthreads();
  }
  if (column < columns) dw.write(dw.place(row * columns + column), sum);
}

// dw = 0, then a block for each position and each kEmbeddingThreads columns.
void embedding_grad(const View& dw, const View& dy, const View& index) {
  const RowIndices rows{Elements<float>(index), dw.shape[0]};
  const int64_t positions = index.numel(), columns = dw.shape[1];
  dispatch_floating(dw.dtype, [&]<class C>(C*) {
    launch(zero_table_kernel<C>, over(dw.numel(), kEmbeddingThreads), Elements<C>(dw));
    const LaunchConfig grid{
        dim3(static_cast<unsigned>(positions), static_cast<unsigned>(ceil_div(columns, kEmbeddingThreads))),
        dim3(kEmbeddingThreads)};
    launch(embedding_grad_kernel<C>, grid, Elements<C>(dw), Elements<C>(dy), rows, positions, columns);
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
