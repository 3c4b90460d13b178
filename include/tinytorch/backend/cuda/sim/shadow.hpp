// Shadow memory: the last accesses to each word of memory, to detect data races and uninitialized reads.
//
// Two accesses of one block race if they are by different threads, at least one is a write, not both are
// atomic, and no barrier separates them: no __syncthreads for threads of the block, no __syncwarp for lanes
// of a warp. Time is counted in epochs: each block and each barrier begins a new epoch. A cell covers 4
// bytes. If several threads access different bytes of a cell, it stores only the last thread, so a race can
// be missed there, but there are no false reports.
#pragma once

#include <cstdint>
#include <tinytorch/backend/cuda/sim/emulator.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Cell {
  uint32_t write_epoch = 0, read_epoch = 0;  // 0: never
  uint32_t write_code = 0, read_code = 0;    // offset of the instruction in the program
  uint16_t writer = 0, reader = 0;           // numbers of the threads in the block
  uint16_t other_reader = 0;                 // an earlier reader, if many; in another warp, if many_warps
  uint16_t write_warp_epoch = 0, read_warp_epoch = 0;
  uint8_t write_bytes = 0, read_bytes = 0;                      // bit masks
  bool atomic = false, many_lanes = false, many_warps = false;  // many: there are readers besides `reader`
};

struct AccessRecord {
  uint32_t epoch, code;
  uint16_t thread, warp_epoch;
  bool atomic;
};

// The earlier access that an access races with. record_read() and record_write() return it and record the
// access.
struct Race {
  int thread = -1;  // -1: no race
  bool wrote = false;
  uint32_t code = 0;  // 0: unknown
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

// A cell of shared memory, with a bit mask of the bytes that the current block has written.
struct SharedCell {
  Cell cell;
  uint32_t block = 0;  // first epoch of the block
  uint8_t written = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
