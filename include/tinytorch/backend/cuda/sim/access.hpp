// Access checker: checks each memory access of a kernel before it happens, for bounds, lifetime, alignment,
// data races, uninitialized shared memory and host pointers.
//
// A kernel may access the stacks of its threads, its arguments, constants, allocated device memory, the
// shared memory of its block, and pinned host memory. Any other access is a fault, which ends the grid.
#pragma once

#include <atomic>
#include <string_view>
#include <tinytorch/backend/cuda/sim/counters.hpp>
#include <tinytorch/backend/cuda/sim/memory.hpp>
#include <tinytorch/backend/cuda/sim/symbols.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline std::string place_text(Loc where) {
  return std::string(where.file) + ":" + std::to_string(where.line);
}

struct Access {
  const char* address;
  size_t bytes;
  bool write, atomic;
  const void* code;       // return address of the instrumentation call
  Loc where{nullptr, 0};  // source line, if it is known
};

// Pinned host memory, which the device may read and write.
struct PinnedRanges {
  std::mutex mutex;
  std::map<const char*, size_t> ranges;
  static PinnedRanges& instance() {
    static auto* const all = new PinnedRanges;
    return *all;
  }
  bool holds(const char* p, size_t bytes) {
    const std::lock_guard lock(mutex);
    auto after = ranges.upper_bound(p);
    if (after == ranges.begin()) return false;
    --after;
    return p + bytes <= after->first + after->second;
  }
};

class AccessChecker {
 public:
  void begin_grid(const void* kernel, const std::string& name, const unsigned char* dynamic,
                  size_t dynamic_bytes, const unsigned char* arena, size_t arena_bytes, const void* arguments,
                  size_t argument_bytes, uint64_t blocks, uint64_t threads) {
    module_ = &module_of(kernel);
    dynamic_ = {reinterpret_cast<const char*>(dynamic), dynamic_bytes};
    arena_ = {reinterpret_cast<const char*>(arena), arena_bytes};
    arguments_ = {static_cast<const char*>(arguments), argument_bytes};
    dynamic_cells_.resize(std::max(dynamic_cells_.size(), dynamic_bytes / 4 + 1));
    static_cells_.resize(std::max(static_cells_.size(), module_->shared_bytes / 4 + 2));
    counting_ = CountTable::instance().on;
    counter_ = {};
    counter_.sum.kernel = name;
    counter_.sum.launches = 1;
    counter_.sum.blocks = blocks;
    counter_.sum.threads = blocks * threads;
  }
  void end_grid() {
    if (counting_) CountTable::instance().add(counter_.sum);
  }
  void begin_block() {
    block_ = epoch_ = next_epoch();
    warp_epochs_.fill(0);
  }
  void end_block() {
    if (counting_) counter_.end_block();
  }
  void pass_barrier() {
    epoch_ = next_epoch();
    ++counter_.sum.barriers;
  }
  void pass_warp_barrier(unsigned warp) { ++warp_epochs_[warp]; }

  void check(const Access& a) {
    const DeviceMemory& memory = DeviceMemory::instance();
    if (memory.contains(a.address)) {
      const Allocation* const in = memory.find(a.address);
      if (!in || in->freed || a.address < in->begin || a.address + a.bytes > in->begin + in->bytes)
        out_of_bounds(a);
      each_word(a, [&, cells = memory.cell(a.address)](size_t word, uint8_t bytes) {
        touch(cells[word], a, bytes, "device memory");
      });
      if (counting_) note(a, false);
    } else if (arena_.holds(a.address)) {
      if (!dynamic_.holds(a.address) || !dynamic_.holds(a.address + a.bytes - 1)) {
        report(a, "out of bounds of the " + std::to_string(dynamic_.bytes) +
                      " bytes of dynamic shared memory, " + std::to_string(a.address - dynamic_.begin) +
                      " bytes from its start" + index_of(a, a.address - dynamic_.begin, dynamic_.bytes));
      }
      check_shared(dynamic_cells_.data() + (a.address - dynamic_.begin) / 4, a, "dynamic shared memory");
    } else if (static_cast<size_t>(a.address - module_->shared_begin) < module_->shared_bytes) {
      check_static(a);
    } else {
      check_other(a);
    }
  }
  [[noreturn]] void misaligned(const Access& a) { report(a, "misaligned"); }

 private:
  struct Range {
    const char* begin = nullptr;
    size_t bytes = 0;
    bool holds(const char* p) const { return static_cast<size_t>(p - begin) < bytes; }
  };

  static uint32_t next_epoch() {
    static std::atomic<uint32_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  uint32_t offset_of(const void* code) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(code) - module_->base);
  }
  void note(const Access& a, bool shared) {
    counter_.note(a.address, a.bytes, a.write, shared, offset_of(a.code), execution.thread_number);
  }

  // Calls f(word, bit mask of its bytes) for each 4-byte word of the access.
  template <class F>
  static void each_word(const Access& a, F&& f) {
    const unsigned shift = static_cast<unsigned>(reinterpret_cast<uintptr_t>(a.address) % 4);
    const size_t end = shift + a.bytes;
    for (size_t word = 0; word * 4 < end; ++word) {
      unsigned bytes = end - word * 4 >= 4 ? 0xf : (1u << (end - word * 4)) - 1;
      if (word == 0) bytes &= 0xfu << shift;
      f(word, static_cast<uint8_t>(bytes));
    }
  }
  // Reports a data race with the previous accesses to the word, and records this access.
  void touch(Cell& cell, const Access& a, uint8_t bytes, std::string_view memory) {
    const auto number = static_cast<uint16_t>(execution.thread_number);
    const AccessRecord now{epoch_, offset_of(a.code), number, warp_epochs_[number / kLanes], a.atomic};
    const Race race = a.write ? record_write(cell, now, bytes) : record_read(cell, now, bytes);
    if (race.thread >= 0) report_race(a, race, memory);
  }

  void check_shared(SharedCell* cells, const Access& a, std::string_view name) {
    each_word(a, [&](size_t word, uint8_t bytes) {
      SharedCell& cell = cells[word];
      if (cell.block != block_) {
        cell.block = block_;
        cell.written = 0;
      }
      if ((!a.write || a.atomic) && (cell.written & bytes) != bytes) {
        report(a, "uninitialized " + std::string(name));
      }
      if (a.write) cell.written = static_cast<uint8_t>(cell.written | bytes);
      touch(cell.cell, a, bytes, name);
    });
    if (counting_) note(a, true);
  }

  void check_static(const Access& a) {
    const auto at = static_cast<size_t>(a.address - module_->shared_begin);
    const Symbol* const variable = Module::find(module_->variables, at);
    if (!module_->variables.empty() && (!variable || at + a.bytes > variable->begin + variable->bytes)) {
      const Symbol* near = variable;
      for (const Symbol& v : module_->variables) near = v.begin <= at ? &v : near;
      report(a, "out of bounds of shared memory" +
                    (near ? ", " + std::to_string(at - near->begin) + " bytes from the start of " +
                                name_of(*near) + " of " + std::to_string(near->bytes) + " bytes" +
                                index_of(a, static_cast<int64_t>(at - near->begin), near->bytes)
                          : std::string()));
    }
    thread_local std::unordered_map<const Symbol*, std::string> names;
    std::string& name = names[variable];
    if (name.empty()) name = variable ? "shared memory " + name_of(*variable) : "shared memory";
    // Words begin at multiples of 4 bytes, but the shared memory may begin between them.
    const char* const begin = module_->shared_begin - reinterpret_cast<uintptr_t>(module_->shared_begin) % 4;
    check_shared(static_cells_.data() + (a.address - begin) / 4, a, name);
  }
  // The last part of the variable's name, in quotes: 'tile'.
  static std::string name_of(const Symbol& variable) {
    const std::string whole = demangled(variable.mangled);
    const size_t at = whole.rfind("::");
    return "'" + (at == std::string::npos ? whole : whole.substr(at + 2)) + "'";
  }

  void check_other(const Access& a) {
    if (arguments_.holds(a.address)) return;
    for (const auto& [begin, end] : module_->constants) {
      if (!a.write && a.address >= begin && a.address + a.bytes <= end) return;
    }
    if (PinnedRanges::instance().holds(a.address, a.bytes)) return;
    if (a.address < reinterpret_cast<const char*>(4096)) report(a, "a null pointer");
    report(a, "a host pointer");
  }

  [[noreturn]] void out_of_bounds(const Access& a) {
    const DeviceMemory& memory = DeviceMemory::instance();
    const Allocation* const in = memory.find(a.address);
    const Allocation* const near = in ? in : memory.before(a.address);
    if (!near) report(a, "outside of all device memory");
    report(a, (near->freed ? "use after free, " : "out of bounds, ") +
                  std::to_string(a.address - near->begin) + " bytes from the start of an allocation of " +
                  std::to_string(near->bytes) + " bytes" +
                  (near->freed ? std::string() : index_of(a, a.address - near->begin, near->bytes)));
  }
  // " (index 100 of 100 elements of 4 bytes)" for an access at a whole element of an array, else nothing.
  static std::string index_of(const Access& a, int64_t offset, size_t bytes) {
    const auto size = static_cast<int64_t>(a.bytes);
    if (offset < 0 || offset % size != 0 || static_cast<int64_t>(bytes) < size) return "";
    return " (index " + std::to_string(offset / size) + " of " + std::to_string(bytes / a.bytes) +
           " elements of " + std::to_string(size) + " bytes)";
  }
  [[noreturn]] void report_race(const Access& a, const Race& race, std::string_view memory) {
    report(a,
           "a race in " + std::string(memory) +
               " between two threads of a block, without a barrier between them",
           std::string("\nagainst a ") + (race.wrote ? "write" : "read") + " by " +
               sim::describe_thread(static_cast<unsigned>(race.thread)) +
               (race.code ? module_->lines_of(race.code) : std::string()));
  }
  [[noreturn]] void report(const Access& a, const std::string& why, const std::string& other = "") {
    execution.active = false;
    char address[32];
    (void)std::snprintf(address, sizeof address, "0x%llx",
                        static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(a.address)));
    stop_with(why +
              (a.atomic  ? ": an atomic access"
               : a.write ? ": a write"
                         : ": a read") +
              " of " + std::to_string(a.bytes) + " bytes at " + address + " by " +
              sim::describe_thread(execution.thread_number) +
              (a.where.file ? "\n  at " + place_text(a.where) : module_->lines_of(offset_of(a.code))) +
              other);
  }
  [[noreturn]] static void stop_with(const std::string& fault);

  const Module* module_ = nullptr;
  Range dynamic_, arena_, arguments_;
  std::vector<SharedCell> dynamic_cells_, static_cells_;
  uint32_t block_ = 0, epoch_ = 0;
  std::array<uint16_t, kMostWarps> warp_epochs_{};
  GridCounter counter_;
  bool counting_ = false;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
