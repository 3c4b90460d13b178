// Threads of a block that wait for each other: barriers, shuffles, votes, and deadlocks.
#include <support/device.hpp>
#include <tinytorch/core/error.hpp>

namespace tt = tinytorch;

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>

namespace cuda = tinytorch::backend::cuda;
using test::fault_of;
using test::tells;

namespace {

__global__ void early_end(int* out, int count) {
  if (static_cast<int>(threadIdx.x) >= count) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void two_barriers(int* out, bool same) {
  if (same || threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}

__global__ void sum_of_warp(int* out, unsigned mask, int lanes) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= lanes) return;
  int sum = lane;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(mask, sum, static_cast<unsigned>(step));
  out[lane] = sum;
}

__global__ void neighbour(int* out, unsigned mask, int from) {
  if (mask >> threadIdx.x & 1) out[threadIdx.x] = __shfl_sync(mask, static_cast<int>(threadIdx.x) * 10, from);
}

__global__ void votes(unsigned* out) {
  const bool odd = threadIdx.x % 2 == 1;
  const unsigned ballot = __ballot_sync(0xffffffffu, odd);
  const bool any = __any_sync(0xffffffffu, threadIdx.x == 40),
             all = __all_sync(0xffffffffu, threadIdx.x < 32);
  out[threadIdx.x] = ballot;
  out[64 + threadIdx.x] = static_cast<unsigned>(any) << 1 | static_cast<unsigned>(all);
}

__global__ void where_am_i(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 1000 + thread;
}

__global__ void note_block(int* order) { order[atomicAdd(order, 1)] = static_cast<int>(blockIdx.x); }

// Prefix sums with one barrier per step: each thread waits log2(n) times.
__global__ void running_sums(int* out) {
  __shared__ int sums[2][256];
  const unsigned t = threadIdx.x;
  int now = 0;
  sums[0][t] = static_cast<int>(t);
  for (unsigned step = 1; step < blockDim.x; step *= 2) {
    __syncthreads();
    sums[1 - now][t] = sums[now][t] + (t >= step ? sums[now][t - step] : 0);
    now = 1 - now;
  }
  out[t] = sums[now][t];
}

template <class T>
std::vector<T> read(const test::DeviceBytes& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  cuda::copy_bytes(out.data(), tt::cpu, bytes.data(), test::on_cuda(0), bytes.size());
  return out;
}

const test::DeviceBytes& memory() {
  static const test::DeviceBytes bytes(4096);
  bytes.fill(0);
  return bytes;
}
template <class T>
T* out() {
  return reinterpret_cast<T*>(memory().data());
}

}  // namespace

TEST_CASE("each thread has its own index in block and grid") {
  test::DeviceBytes bytes(12 * 30 * sizeof(unsigned));
  CHECK(fault_of(where_am_i, {dim3(2, 3, 2), dim3(5, 2, 3)}, reinterpret_cast<unsigned*>(bytes.data())) ==
        "");
  const auto places = read<unsigned>(bytes);
  bool good = true;
  for (unsigned i = 0; i < 360; ++i) good = good && places[i] == i / 30 * 1000 + i % 30;
  CHECK(good);
}

TEST_CASE("blocks run from first to last, or from last to first") {
  for (const bool reversed : {false, true}) {
    test::DeviceBytes bytes(4 * sizeof(int));
    auto* const order = reinterpret_cast<int*>(bytes.data());
    const int one = 1;
    cuda::copy_bytes(order, tt::Device{tt::DeviceType::cuda, 0}, &one, tt::cpu, sizeof(one));
    cuda::sim::set_last_block_first(reversed);
    CHECK(fault_of(note_block, {dim3(3), dim3(1)}, order) == "");
    cuda::sim::set_last_block_first(false);
    const auto ran = read<int>(bytes);
    CHECK(ran[1] == (reversed ? 2 : 0));
    CHECK(ran[3] == (reversed ? 0 : 2));
  }
}

TEST_CASE("barriers order a block of 256 threads") {
  test::DeviceBytes bytes(256 * sizeof(int));
  CHECK(fault_of(running_sums, {dim3(1), dim3(256)}, reinterpret_cast<int*>(bytes.data())) == "");
  const auto sums = read<int>(bytes);
  bool good = true;
  for (int i = 0; i < 256; ++i) good = good && sums[static_cast<size_t>(i)] == i * (i + 1) / 2;
  CHECK(good);
}

TEST_CASE("a barrier that some threads never reach is a deadlock") {
  const std::string text = fault_of(early_end, {dim3(1), dim3(64)}, out<int>(), 40);
  CHECK(tells(
      text,
      {"kernel early_end: deadlock: the threads wait for each other, at a divergent barrier or shuffle"}));
  CHECK(tells(text,
              {"24 of 64 threads, such as thread (40, 0, 0) of block (0, 0, 0), ended without reaching it"}));
  CHECK(tells(text,
              {"40 of 64 threads, such as thread (0, 0, 0) of block (0, 0, 0), wait at the barrier at "}));
  CHECK(tells(text, {"sim/block.cpp:"}));
  CHECK(fault_of(early_end, {dim3(1), dim3(64)}, out<int>(), 64) == "");
}

TEST_CASE("two different barriers for two halves of a block are a fault") {
  CHECK(tells(fault_of(two_barriers, {dim3(1), dim3(64)}, out<int>(), false),
              {"a divergent barrier: thread (0, 0, 0)"}));
  CHECK(fault_of(two_barriers, {dim3(1), dim3(64)}, out<int>(), true) == "");
}

TEST_CASE("shuffles in full and partial warps, and with missing lanes") {
  test::DeviceBytes bytes(64 * sizeof(int));
  auto* const to = reinterpret_cast<int*>(bytes.data());
  CHECK(fault_of(sum_of_warp, {dim3(1), dim3(32)}, to, 0xffffffffu, 32) == "");
  CHECK(read<int>(bytes)[0] == 31 * 32 / 2);
  const std::string text = fault_of(sum_of_warp, {dim3(1), dim3(32)}, to, 0xffffffffu, 20);
  CHECK(tells(
      text,
      {"20 of 32 threads, such as thread (0, 0, 0) of block (0, 0, 0), wait for lanes of their warp at "}));
  CHECK(fault_of(neighbour, {dim3(1), dim3(32)}, to, 0x0000ff00u, 9) == "");
  CHECK(read<int>(bytes)[15] == 90);
  CHECK(tells(fault_of(neighbour, {dim3(1), dim3(32)}, to, 0x0000ff00u, 3),
              {" of block (0, 0, 0) reads lane 3, which is not in the mask"}));
}

TEST_CASE("ballot, any and all count the lanes of each warp") {
  test::DeviceBytes bytes(128 * sizeof(unsigned));
  CHECK(fault_of(votes, {dim3(1), dim3(64)}, reinterpret_cast<unsigned*>(bytes.data())) == "");
  const auto found = read<unsigned>(bytes);
  CHECK(found[5] == 0xaaaaaaaau);
  CHECK(found[63] == 0xaaaaaaaau);
  CHECK(found[64] == 1);       // first warp: none is 40, all are below 32
  CHECK(found[64 + 63] == 2);  // second warp: one is 40
}

TEST_CASE("launch sizes that no device supports are refused") {
  CHECK(tells(fault_of(early_end, {dim3(1), dim3(1025)}, out<int>(), 0),
              {"TT-SIM-02: early_end: a block of 1025 threads"}));
  CHECK(tells(fault_of(early_end, {dim3(1, 70000), dim3(1)}, out<int>(), 0), {"70000"}));
}

#else
TEST_CASE("blocks: the test needs the emulator" * doctest::skip()) {}
#endif
