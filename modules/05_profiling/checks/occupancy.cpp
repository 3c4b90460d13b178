#include <support/check.hpp>
#include <tinytorch/profiling/occupancy.hpp>

using namespace course;
using namespace profiling;

namespace {

const MultiprocessorLimits kHopper = limits_of(9, 0), kAda = limits_of(8, 9), kTuring = limits_of(7, 5);

void expect_blocks(const KernelNeeds& k, const MultiprocessorLimits& sm, int blocks, const std::string& limit,
                   const std::string& guess = "") {
  const Occupancy o = occupancy_of(k, sm);
  const std::string what = "blocks of " + shown(k.threads) + " threads with " + shown(k.registers) +
                           " registers each and " + shown(k.shared_bytes) +
                           " bytes of shared memory, capability " + shown(sm.major) + "." + shown(sm.minor);
  expect(what + ": " + shown(blocks) + " by " + limit + "; got " + shown(o.blocks) + " by " + o.limit,
         o.blocks == blocks && o.limit == limit, guess);
  const int warps = (k.threads + 31) / 32;
  expect_equal(what + ": warps", o.warps, blocks * warps);
  expect(what + ": share of the " + shown(sm.warps) + " warps of a multiprocessor: " +
             shown(static_cast<double>(blocks * warps) / sm.warps) + ", got " + shown(o.share),
         std::abs(o.share - static_cast<double>(blocks * warps) / sm.warps) < 1e-12);
}

}  // namespace

TEST_CASE("5.10 threads are allocated in whole warps") {
  expect_blocks({256, 16, 0}, kHopper, 8, "threads");
  expect_blocks({1024, 16, 0}, kHopper, 2, "threads");
  expect_blocks({1024, 16, 0}, kAda, 1, "threads",
                "48 warps hold one block of 32 warps, and 16 warps stay unused");
  expect_blocks({33, 8, 0}, kHopper, 32, "threads", "33 threads need two warps");
  expect_blocks({65, 8, 0}, kHopper, 21, "threads", "65 threads need three warps: 64 / 3, rounded down");
  expect_blocks({800, 16, 0}, kHopper, 2, "threads", "25 warps");
}

TEST_CASE("5.10 the number of blocks is limited, however small a block is") {
  expect_blocks({32, 16, 0}, kHopper, 32, "blocks");
  expect_blocks({1, 0, 0}, kAda, 24, "blocks");
  expect_blocks({32, 16, 0}, kTuring, 16, "blocks");
  expect_blocks({64, 16, 0}, kHopper, 32, "threads",
                "32 blocks of 2 warps are 64 warps: of equal limits the first in the list counts");
}

TEST_CASE("5.10 registers are allocated per warp, in units") {
  expect_blocks({256, 128, 0}, kHopper, 2, "registers", "a warp takes 4096 registers, a scheduler has 16384");
  expect_blocks({256, 32, 0}, kHopper, 8, "threads", "32 x 32 x 64 are all 65,536 registers");
  expect_blocks({256, 33, 0}, kHopper, 6, "registers", "33 x 32 = 1056 are rounded up to 1280");
  expect_blocks({128, 40, 0}, kHopper, 12, "registers", "1280 registers per warp, so 12 warps per scheduler");
  expect_blocks({128, 41, 0}, kHopper, 10, "registers", "1312 are rounded up to 1536");
  expect_blocks({64, 255, 0}, kHopper, 4, "registers",
                "8160 are rounded up to 8192, so 2 warps per scheduler");
  expect_blocks({128, 0, 0}, kHopper, 16, "threads", "a kernel without registers is not limited by them");
}

TEST_CASE("5.10 each scheduler's quarter of the registers holds whole warps") {
  expect_blocks({128, 168, 0}, kHopper, 3, "registers", "5376 registers per warp, so 3 warps in 16,384");
  expect_blocks({32, 160, 0}, kHopper, 12, "registers",
                "5120 registers per warp, so 3 warps per scheduler; 65,536 / 5120 would be 12.8");
  expect_blocks(
      {32, 144, 0}, kHopper, 12, "registers",
      "4608 registers per warp: 3 warps in a quarter, although all registers together would hold 14");
  expect_blocks({96, 104, 0}, kHopper, 5, "registers",
                "3328 registers per warp: 4 warps per scheduler, 16 on all four, so 5 blocks of 3");
}

TEST_CASE("5.10 a block that cannot run") {
  expect_blocks({1024, 96, 0}, kHopper, 0, "registers", "32 warps of 3072 registers are more than 65,536");
  expect_blocks({1024, 64, 0}, kHopper, 1, "registers");
  expect_blocks({160, 256, 0}, kHopper, 0, "registers", "a thread has 255 registers at most");
  expect_blocks({416, 128, 0}, kHopper, 1, "registers",
                "13 warps count as 16: 65,536 registers, which just fit");
  expect_blocks({544, 104, 0}, kHopper, 0, "registers", "17 warps of 3328 count as 20: 66,560 registers");
  expect_blocks({128, 32, 233472}, kHopper, 0, "shared memory",
                "the system's 1024 bytes do not fit any more");
}

TEST_CASE("5.10 shared memory is allocated in units, with a part for the system") {
  expect_blocks({128, 32, 100 * 1024}, kHopper, 2, "shared memory");
  expect_blocks({128, 32, 232448}, kHopper, 1, "shared memory",
                "232448 + 1024 = 233472, which is all shared memory");
  expect_blocks({128, 32, 56 * 1024}, kHopper, 4, "shared memory",
                "57 KiB per block, with the system's 1 KiB: 228 / 57");
  expect_blocks({128, 32, 56 * 1024 + 1}, kHopper, 3, "shared memory",
                "one byte more takes another unit of 128");
  expect_blocks({64, 32, 4096}, kTuring, 16, "threads");
  expect_blocks({64, 32, 4352}, kTuring, 15, "shared memory",
                "4352 is 17 x 256; the system takes nothing on 7.5");
  expect_blocks({64, 32, 4353}, kTuring, 14, "shared memory", "on 7.5 the unit is 256");
}

TEST_CASE("5.10 needs that no launch can have are refused") {
  for (const KernelNeeds& k :
       {KernelNeeds{0, 32, 0}, KernelNeeds{1025, 32, 0}, KernelNeeds{32, -1, 0}, KernelNeeds{32, 32, -1}}) {
    expect_throws("TT-PROF-03",
                  "occupancy_of " + shown(k.threads) + " threads, " + shown(k.registers) + " registers, " +
                      shown(k.shared_bytes) + " bytes",
                  [&] { occupancy_of(k, kHopper); });
  }
}
