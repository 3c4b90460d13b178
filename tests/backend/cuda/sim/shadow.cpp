// Shadow memory: rules of data races on one word, access by access.
#include <doctest/doctest.h>

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/shadow.hpp>

using namespace tinytorch::backend::cuda::sim;

namespace {

constexpr uint8_t kWord = 0xf;
AccessRecord thread(uint16_t number, uint32_t epoch = 1, uint16_t warp_epoch = 0, bool atomic = false) {
  return {epoch, 100u + number, number, warp_epoch, atomic};
}

}  // namespace

TEST_CASE(
    "a write races with another thread's write and read in the same epoch, and the earlier access is named") {
  Cell cell;
  CHECK(record_write(cell, thread(3), kWord).thread == -1);
  CHECK(record_write(cell, thread(3), kWord).thread == -1);  // the same thread
  const Race second = record_write(cell, thread(4), kWord);
  CHECK(second.thread == 3);
  CHECK(second.wrote);
  CHECK(second.code == 103);
  CHECK(record_read(cell, thread(5), kWord).thread == 4);
  CHECK(record_read(cell, thread(5, 2), kWord).thread == -1);  // a barrier between
  const Race after_read = record_write(cell, thread(6, 2), kWord);
  CHECK(after_read.thread == 5);
  CHECK(!after_read.wrote);
  CHECK(after_read.code == 105);
}

TEST_CASE("many readers are no race, but a write after them is, even by one of them") {
  for (const uint16_t other : {uint16_t{1}, uint16_t{40}}) {
    Cell cell;
    CHECK(record_read(cell, thread(0), kWord).thread == -1);
    CHECK(record_read(cell, thread(other), kWord).thread == -1);
    const Race race = record_write(cell, thread(other), kWord);
    CHECK(race.thread == 0);  // not the writer, although it was the last reader
    CHECK(!race.wrote);
  }
  Cell two_of_the_writers_warp;
  for (const uint16_t reader : {uint16_t{0}, uint16_t{32}, uint16_t{33}}) {
    record_read(two_of_the_writers_warp, thread(reader), kWord);
  }
  CHECK(record_write(two_of_the_writers_warp, thread(33, 1, 1), kWord).thread ==
        0);  // lane 32's read is ordered
  Cell alone;
  CHECK(record_read(alone, thread(7), kWord).thread == -1);
  CHECK(record_write(alone, thread(7), kWord).thread == -1);
}

TEST_CASE("__syncwarp orders the lanes of its warp only") {
  Cell cell;
  record_write(cell, thread(1), kWord);
  CHECK(record_read(cell, thread(2, 1, 1), kWord).thread == -1);
  CHECK(record_read(cell, thread(33, 1, 1), kWord).thread == 1);
  Cell readers;
  record_read(readers, thread(1), kWord);
  record_read(readers, thread(2), kWord);
  CHECK(record_write(readers, thread(2, 1, 1), kWord).thread == -1);
  record_read(readers, thread(1, 2), kWord);
  record_read(readers, thread(40, 2), kWord);
  CHECK(record_write(readers, thread(40, 2, 1), kWord).thread == 1);
}

TEST_CASE("atomics race only with plain accesses, and different bytes of a word do not race") {
  Cell cell;
  record_write(cell, thread(1, 1, 0, true), kWord);
  CHECK(record_write(cell, thread(2, 1, 0, true), kWord).thread == -1);
  CHECK(record_read(cell, thread(3), kWord).thread == 2);
  Cell bytes;
  CHECK(record_write(bytes, thread(1), 0x1).thread == -1);
  CHECK(record_write(bytes, thread(2), 0x2).thread == -1);
  CHECK(record_write(bytes, thread(3), 0x2).thread == 2);
}

#else
TEST_CASE("shadow memory: the test needs the emulator" * doctest::skip()) {}
#endif
