// Who touched a word of memory last: what data races and uninitialized reads are found by.
//
// Two accesses of one block race when they are of different threads, at least one writes, not both are
// atomic, and no barrier stands between them: no __syncthreads for threads of the block, no __syncwarp for
// lanes of a warp. Time is counted in epochs, one per block and barrier. A cell is of 4 bytes; of threads
// that share it byte by byte it knows the last one alone, so there a race can go unseen, and none is
// invented.
#pragma once

#include <cstdint>
#include <tinytorch/backend/cuda/sim/emulator.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Cell {
  uint32_t write_epoch = 0, read_epoch = 0;  // 0: never
  uint32_t write_code = 0, read_code = 0;    // where, as an offset in the program
  uint16_t writer = 0, reader = 0;           // threads of the block
  uint16_t other_reader = 0;                 // if many: one before the reader; of another warp, if many_warps
  uint16_t write_warp_epoch = 0, read_warp_epoch = 0;
  uint8_t write_bytes = 0, read_bytes = 0;                      // one bit each
  bool atomic = false, many_lanes = false, many_warps = false;  // many: others than the reader have read, too
};

struct AccessRecord {
  uint32_t epoch, code;
  uint16_t thread, warp_epoch;
  bool atomic;
};

// The earlier thread that an access races with, or -1; also notes the access.
struct Race {
  int thread = -1;
  bool wrote = false;
  uint32_t code = 0;  // 0: not known
};

inline bool unordered(const AccessRecord& now, uint16_t thread, uint16_t warp_epoch) {
  return thread != now.thread && (thread / kLanes != now.thread / kLanes || warp_epoch == now.warp_epoch);
}

inline Race after_write(const Cell& cell, const AccessRecord& now, uint8_t bytes) {
  if (cell.write_epoch != now.epoch || !(cell.write_bytes & bytes) || (cell.atomic && now.atomic)) return {};
  if (!unordered(now, cell.writer, cell.write_warp_epoch)) return {};
  return {cell.writer, true, cell.write_code};
}

inline Race record_read(Cell& cell, const AccessRecord& now, uint8_t bytes) {
  const Race race = after_write(cell, now, bytes);
  const bool again = cell.read_epoch == now.epoch && cell.reader != now.thread;
  const bool same_warp = cell.reader / kLanes == now.thread / kLanes;
  if (again && !(same_warp && cell.many_warps)) cell.other_reader = cell.reader;
  cell.many_warps = cell.read_epoch == now.epoch && (cell.many_warps || (again && !same_warp));
  // Reads before the warp's last __syncwarp are ordered.
  cell.many_lanes = cell.read_epoch == now.epoch && cell.read_warp_epoch == now.warp_epoch && same_warp &&
                    (cell.many_lanes || again);
  cell.read_bytes = cell.read_epoch == now.epoch ? static_cast<uint8_t>(cell.read_bytes | bytes) : bytes;
  cell.read_epoch = now.epoch;
  cell.read_code = now.code;
  cell.reader = now.thread;
  cell.read_warp_epoch = now.warp_epoch;
  return race;
}

inline Race record_write(Cell& cell, const AccessRecord& now, uint8_t bytes) {
  Race race = after_write(cell, now, bytes);
  if (race.thread < 0 && cell.read_epoch == now.epoch && cell.read_bytes == bytes) {
    const bool other = cell.many_warps || (cell.many_lanes && cell.reader / kLanes == now.thread / kLanes &&
                                           cell.read_warp_epoch == now.warp_epoch);
    if (unordered(now, cell.reader, cell.read_warp_epoch)) {
      race = {cell.reader, false, cell.read_code};
    } else if (other) {
      race = {cell.other_reader, false, 0};
    }
  }
  cell.write_epoch = now.epoch;
  cell.write_code = now.code;
  cell.writer = now.thread;
  cell.write_warp_epoch = now.warp_epoch;
  cell.write_bytes = bytes;
  cell.atomic = now.atomic;
  return race;
}

// Of shared memory: also which of its bytes the present block has written.
struct SharedCell {
  Cell cell;
  uint32_t block = 0;  // its first epoch
  uint8_t written = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
