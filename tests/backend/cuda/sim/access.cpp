// Kernels with deliberate faults: each fault is found and named, and the corrected kernel has no fault.
#include <support/device.hpp>
#include <tinytorch/core/error.hpp>

namespace tt = tinytorch;

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>

namespace cuda = tinytorch::backend::cuda;
using test::fault_of;
using test::tells;

namespace {

constexpr int kThreads = 64;

cuda::LaunchConfig two_blocks(size_t shared_bytes = 0) { return {dim3(2), dim3(kThreads), shared_bytes}; }

__global__ void scale(float* x, int count, int extra) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count + extra) x[i] = x[i] * 2;
}

__global__ void odd_vector(float4* out, const float* x, int offset) {
  if (threadIdx.x == 3) out[blockIdx.x] = *reinterpret_cast<const float4*>(x + offset);
}

__global__ void read_one(float* out, const float* x) {
  if (threadIdx.x == 1) out[blockIdx.x] = *x;
}

// Each thread passes its value to its left neighbour.
__global__ void shift_left(float* x, bool barrier) {
  __shared__ float tile[kThreads];
  tile[threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncthreads();
  const float right = tile[(threadIdx.x + 1) % kThreads];
  if (barrier) __syncthreads();
  if (blockIdx.x == 0) x[threadIdx.x] = right;
}

// Shifts like shift_left within each warp, so that __syncwarp is enough.
__global__ void shift_in_warp(float* x, bool barrier) {
  __shared__ float tile[kThreads];
  const unsigned warp = threadIdx.x / 32 * 32;
  tile[threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncwarp();
  const float right = tile[warp + (threadIdx.x + 1) % 32];
  if (blockIdx.x == 0) x[threadIdx.x] = right;
}

enum class Between { nothing, warp_barrier, barrier };

// Each thread takes its right neighbour's value, in place.
__global__ void rotate_in_place(float* x, Between between) {
  __shared__ float ring[kThreads];
  ring[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const float right = ring[(threadIdx.x + 1) % kThreads];
  if (between == Between::warp_barrier) __syncwarp();
  if (between == Between::barrier) __syncthreads();
  ring[threadIdx.x] = right;
  __syncthreads();
  if (blockIdx.x == 0) x[threadIdx.x] = ring[threadIdx.x];
}

__global__ void sum_without_start(float* out, bool start) {
  __shared__ float total;
  if (start && threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1.0f);
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

__global__ void reverse_dynamic(float* x, int reach) {
  float* const tile = cuda::dynamic_shared<float>();
  tile[threadIdx.x + static_cast<unsigned>(reach)] = x[threadIdx.x];
  __syncthreads();
  if (blockIdx.x == 0) x[threadIdx.x] = tile[kThreads - 1 - threadIdx.x + static_cast<unsigned>(reach)];
}

__global__ void small_tile(float* x, int reach) {
  __shared__ float tile[kThreads];
  tile[static_cast<int>(threadIdx.x) + reach] = 1;
  __syncthreads();
  x[threadIdx.x + blockIdx.x * kThreads] = tile[kThreads - 1 - static_cast<int>(threadIdx.x) + reach];
}

// Two neighbouring threads write the same element.
__global__ void crowd(int* x, bool atomic) {
  if (atomic) {
    atomicAdd(x + threadIdx.x / 2, 1);
  } else {
    x[threadIdx.x / 2] = 1;
  }
}

// Different bytes of one word, written by different threads, are no race.
__global__ void fill_bytes_of_words(unsigned char* x) { x[threadIdx.x + blockIdx.x * kThreads] = 1; }

class DeviceFloats {
 public:
  explicit DeviceFloats(int count, float value = 1) : bytes_(static_cast<size_t>(count) * sizeof(float)) {
    const std::vector<float> host(static_cast<size_t>(count), value);
    cuda::copy_bytes(bytes_.data(), test::on_cuda(0), host.data(), tt::cpu, host.size() * sizeof(float));
  }
  float* get() const { return reinterpret_cast<float*>(bytes_.data()); }
  std::vector<float> read() const {
    std::vector<float> out(bytes_.size() / sizeof(float));
    cuda::copy_bytes(out.data(), tt::cpu, bytes_.data(), test::on_cuda(0), bytes_.size());
    return out;
  }
  test::DeviceBytes& bytes() { return bytes_; }

 private:
  test::DeviceBytes bytes_;
};

const char* const kHere = "sim/access.cpp:";

}  // namespace

TEST_CASE("an access past the end of an allocation is reported") {
  const DeviceFloats x(100);
  CHECK(tells(fault_of(scale, two_blocks(), x.get(), 100, 1),
              {"TT-SIM-03: kernel scale: out of bounds, 400 bytes from the start of an allocation of 400 "
               "bytes (index 100 "
               "of 100 elements of 4 bytes): a ",
               " of 4 bytes", "thread (36, 0, 0) of block (1, 0, 0)", kHere}));
  CHECK(fault_of(scale, two_blocks(), x.get(), 100, 0) == "");
  CHECK(x.read()[99] == 4);  // doubled by the run that ended early and by the complete run
}

TEST_CASE("an access to freed memory is reported") {
  DeviceFloats x(100);
  float* const kept = x.get();
  x.bytes().free();
  CHECK(tells(fault_of(scale, two_blocks(), kept, 100, 0), {"use after free", "thread (0, 0, 0)", kHere}));
}

TEST_CASE("a misaligned vector access is reported") {
  const DeviceFloats x(64), out(8);
  auto* const to = reinterpret_cast<float4*>(out.get());
#if !defined(__clang__) || __clang_major__ >= 15  // clang 14 does not instrument the copy of a struct
  CHECK(tells(fault_of(odd_vector, two_blocks(), to, x.get(), 3),
              {"misaligned", "read of 16 bytes", "thread (3, 0, 0)", kHere}));
#endif
  CHECK(fault_of(odd_vector, two_blocks(), to, x.get(), 4) == "");
}

TEST_CASE("host pointers and null pointers are reported, pinned memory is allowed") {
  const DeviceFloats out(2), x(1);
  const std::vector<float> host(1);
  CHECK(tells(fault_of(read_one, two_blocks(), out.get(), host.data()),
              {"a host pointer", "read of 4 bytes", kHere}));
  const float value = 1;
  CHECK(tells(fault_of(read_one, two_blocks(), out.get(), &value), {"a host pointer"}));
  CHECK(tells(fault_of(read_one, two_blocks(), out.get(), nullptr), {"a null pointer"}));
  CHECK(fault_of(read_one, two_blocks(), out.get(), x.get()) == "");
  auto* const pinned = static_cast<float*>(cuda::allocate_pinned(sizeof(float)));
  *pinned = 5;
  CHECK(fault_of(read_one, two_blocks(), out.get(), pinned) == "");
  CHECK(out.read() == std::vector<float>{5, 5});
  cuda::deallocate_pinned(pinned);
}

TEST_CASE("a data race in shared memory is reported, with both threads") {
  const DeviceFloats x(kThreads);
  CHECK(tells(fault_of(rotate_in_place, two_blocks(), x.get(), Between::nothing),
              {"kernel rotate_in_place: a race in shared memory 'ring' between two threads of a block, "
               "without a barrier between them: a ",
               " of block (0, 0, 0)", kHere, "against a ", " by thread (", kHere}));
  // __syncwarp orders the lanes of a warp, but not thread 31 and its neighbour in the next warp.
  CHECK(tells(fault_of(rotate_in_place, two_blocks(), x.get(), Between::warp_barrier),
              {"a race in shared memory 'ring'"}));
  CHECK(fault_of(rotate_in_place, two_blocks(), x.get(), Between::barrier) == "");
  CHECK(fault_of(shift_in_warp, two_blocks(), x.get(), true) == "");
}

TEST_CASE("a read of uninitialized shared memory is reported") {
  const DeviceFloats out(2), x(kThreads);
  CHECK(tells(fault_of(shift_left, two_blocks(), x.get(), false),
              {"uninitialized shared memory 'tile'", "thread (0, 0, 0)", kHere}));
  CHECK(fault_of(shift_left, two_blocks(), x.get(), true) == "");
  CHECK(tells(fault_of(shift_in_warp, two_blocks(), x.get(), false),
              {"shared memory 'tile'", "thread (0, 0, 0)", kHere}));
  CHECK(tells(
      fault_of(sum_without_start, two_blocks(), out.get(), false),
      {"uninitialized shared memory 'total'", "an atomic access of 4 bytes", "of block (0, 0, 0)", kHere}));
  CHECK(fault_of(sum_without_start, two_blocks(), out.get(), true) == "");
  CHECK(out.read() == std::vector<float>{kThreads, kThreads});
}

TEST_CASE("an access past the end of shared memory is reported") {
  const DeviceFloats x(2 * kThreads);
  CHECK(fault_of(reverse_dynamic, two_blocks(kThreads * sizeof(float)), x.get(), 0) == "");
  CHECK(tells(fault_of(reverse_dynamic, two_blocks(kThreads * sizeof(float)), x.get(), 1),
              {"out of bounds of the 256 bytes of dynamic shared memory, 256 bytes from its start (index 64 "
               "of 64 elements "
               "of 4 bytes): a write",
               "thread (63, 0, 0)", kHere}));
  CHECK(fault_of(small_tile, two_blocks(), x.get(), 0) == "");
  CHECK(tells(fault_of(small_tile, two_blocks(), x.get(), 1 << 24), {"a host pointer: a write"}));
}

TEST_CASE("a data race in device memory is reported, atomic accesses are allowed") {
  const DeviceFloats x(kThreads, 0);
  auto* const counts = reinterpret_cast<int*>(x.get());
  CHECK(tells(fault_of(crowd, two_blocks(), counts, false),
              {"a race in device memory between two threads of a block", "a write of 4 bytes",
               "thread (1, 0, 0)", kHere, "against a write by thread (0, 0, 0) of block (0, 0, 0)", kHere}));
  CHECK(fault_of(crowd, two_blocks(), counts, true) == "");
  CHECK(fault_of(fill_bytes_of_words, two_blocks(), reinterpret_cast<unsigned char*>(counts)) == "");
}

#else
TEST_CASE("accesses: the test needs the emulator" * doctest::skip()) {}
#endif
