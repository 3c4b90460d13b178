// Rings of stages that a producer fills by copies of boxes (stage_barrier.cuh, tensor_map.cuh), and numbered
// barriers, on the emulator.
#include <support/device_array.hpp>

#if TINYTORCH_CUDA_SIM
#include <support/faults.hpp>
#include <tinytorch/backend/cuda/device/tensor_map.cuh>

namespace cuda = tinytorch::backend::cuda;
using namespace test;

namespace block_phases_tests {

constexpr int kStages = 3, kRows = 16, kColumns = 64, kStageBytes = kRows * kColumns * 2;

enum class Fault { none, no_wait_for_place, no_wait, too_many_bytes };

// Two warps read boxes of 16 rows and 64 columns, one after the other along the columns, and write what they
// find to out [boxes, 16, 64]; the first thread of a third warp copies them.
__global__ void read_boxes(const __grid_constant__ cuda::TensorMap map, uint16_t* out, int boxes, int row,
                           int first, bool swizzled, Fault fault) {
  __shared__ cuda::StageState filled[kStages], emptied[kStages];
  const cuda::StageBarriers full(filled), empty(emptied);
  const unsigned shared = cuda::aligned_shared_memory();
  if (threadIdx.x == 0) full.init(kStages, 1), empty.init(kStages, 2);
  __syncthreads();
  cuda::RingPlace at;
  if (threadIdx.x == 64) {
    for (int i = 0; i < boxes; ++i, at.next(kStages)) {
      if (fault != Fault::no_wait_for_place) empty.wait_for_place(at);
      full.expect(at, kStageBytes + (fault == Fault::too_many_bytes ? 16 : 0));
      cuda::copy_box(shared + static_cast<unsigned>(at.place * kStageBytes), map, first + i * kColumns, row,
                     full, at);
    }
  }
  if (threadIdx.x >= 64) return;
  for (int i = 0; i < boxes; ++i, at.next(kStages)) {
    if (fault != Fault::no_wait) full.wait(at);
    for (unsigned e = threadIdx.x; e < kRows * kColumns; e += 64) {
      unsigned from = shared + static_cast<unsigned>(at.place * kStageBytes) + e * 2;
      if (swizzled) from = cuda::sim::swizzled(from);
      out[static_cast<unsigned>(i) * kRows * kColumns + e] =
          *reinterpret_cast<const uint16_t*>(cuda::shared_pointer(from));
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) empty.arrive(at);
  }
}

// The numbers of a matrix [rows, columns] are 1, 2, ... modulo 2^16.
struct Source {
  int64_t rows, columns, pitch;
  DeviceBytes memory;
  Source(int64_t r, int64_t c)
      : rows(r), columns(c), pitch((c + 7) / 8 * 8), memory(static_cast<size_t>(r * pitch * 2)) {
    std::vector<uint16_t> numbers(static_cast<size_t>(r * pitch), 0xdead);
    for (int64_t i = 0; i < r; ++i)
      for (int64_t k = 0; k < c; ++k)
        numbers[static_cast<size_t>(i * pitch + k)] = static_cast<uint16_t>(i * c + k + 1);
    cuda::copy_bytes(memory.data(), on_cuda(0), numbers.data(), cpu, memory.size());
  }
  cuda::TensorMap map(bool swizzled) const {
    return cuda::make_tensor_map(reinterpret_cast<const uint16_t*>(memory.data()), rows, columns, pitch * 2,
                                 kRows, kColumns, swizzled);
  }
  uint16_t at(int64_t i, int64_t k) const {
    return i < rows && k < columns ? static_cast<uint16_t>(i * columns + k + 1) : uint16_t{0};
  }
};
constexpr unsigned kShared = kStages * kStageBytes + static_cast<unsigned>(cuda::kTileAlignment);

std::string run(const Source& source, int boxes, int row, int first, bool swizzled, Fault fault,
                std::vector<uint16_t>* got = nullptr) {
  DeviceBytes out(static_cast<size_t>(boxes * kRows * kColumns * 2));
  const std::string told =
      fault_of(read_boxes, {dim3(1), dim3(96), kShared}, source.map(swizzled),
               reinterpret_cast<uint16_t*>(out.data()), boxes, row, first, swizzled, fault);
  if (got) {
    got->resize(out.size() / 2);
    cuda::copy_bytes(got->data(), cpu, out.data(), on_cuda(0), out.size());
  }
  return told;
}

}  // namespace block_phases_tests

TEST_CASE("boxes arrive whole, with zeros outside of the matrix, swizzled or not" * needs_devices()) {
  using namespace block_phases_tests;
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{16, 640}, {40, 300}, {5, 65}, {1, 1}, {17, 129}}) {
    const Source source(rows, columns);
    for (const bool swizzled : {false, true}) {
      for (const int row : {0, 16}) {
        std::vector<uint16_t> got;
        const int boxes = static_cast<int>((columns + kColumns - 1) / kColumns) + 2;  // the ring turns
        REQUIRE(run(source, boxes, row, 0, swizzled, Fault::none, &got) == "");
        int64_t wrong = 0;
        for (int i = 0; i < boxes; ++i) {
          for (int r = 0; r < kRows; ++r) {
            for (int k = 0; k < kColumns; ++k)
              wrong += got[static_cast<size_t>((i * kRows + r) * kColumns + k)] !=
                       source.at(row + r, i * kColumns + k);
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("a consumer or producer that does not wait is found, and bytes that do not come are a deadlock" *
          needs_devices()) {
  using namespace block_phases_tests;
  const Source source(16, 640);
  CHECK(tells(run(source, 8, 0, 0, true, Fault::no_wait), {"uninitialized dynamic shared memory"}));
  std::vector<uint16_t> got;
  // The emulator's producer runs ahead through the whole ring, so readers find later boxes.
  const std::string told = run(source, 8, 0, 0, true, Fault::no_wait_for_place, &got);
  CHECK((told != "" || got[0] != 1));
  CHECK(tells(run(source, 8, 0, 0, true, Fault::too_many_bytes), {"deadlock", "wait at the mbarrier at"}));
}

namespace block_phases_tests {
// Warps 0 and 1 pass values by one numbered barrier, warps 2 and 3 by another, another number of times.
__global__ void pass_by_pairs(float* out) {
  __shared__ float places[128];
  const int thread = static_cast<int>(threadIdx.x), pair = thread / 64, within = thread % 64;
  float sum = 0;
  for (int i = 0; i < 3 + pair; ++i) {
    places[thread] = static_cast<float>(thread + i);
    cuda::sync_threads_of<64>(1 + pair);
    sum += places[pair * 64 + 63 - within];
    cuda::sync_threads_of<64>(1 + pair);
  }
  out[thread] = sum;
}
__global__ void wait_alone(float* out) {
  if (threadIdx.x < 32) cuda::sync_threads_of<64>(3);
  out[threadIdx.x] = 1;
}
}  // namespace block_phases_tests

TEST_CASE("numbered barriers wait for their own threads, and report those that never come" *
          needs_devices()) {
  using namespace block_phases_tests;
  DeviceArray out = DeviceArray::random(f32, {128}, 1);
  REQUIRE(fault_of(pass_by_pairs, {dim3(1), dim3(128)}, out.view().as<float>()) == "");
  const std::vector<double> got = out.values();
  for (int t = 0; t < 128; ++t) {
    const int pair = t / 64, other = pair * 64 + 63 - t % 64, rounds = 3 + pair;
    REQUIRE(got[static_cast<size_t>(t)] == rounds * other + rounds * (rounds - 1) / 2);
  }
  CHECK(tells(fault_of(wait_alone, {dim3(1), dim3(64)}, out.view().as<float>()), {"deadlock"}));
}

#else
TEST_CASE("phases of blocks: the test needs the emulator" * doctest::skip()) {}
#endif
