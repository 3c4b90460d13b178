// Counters of the memory accesses of kernels: sectors, wavefronts (bank conflicts), bytes and barriers.
//
// A request is one instruction of one warp. The emulator runs lanes one after the other, so the n-th
// execution of an instruction by each lane counts as one request; this is exact if all lanes execute a loop
// equally often. Device memory serves sectors of 32 bytes. Shared memory serves wavefronts over 32 banks of 4
// bytes, one word per bank. The ideal numbers are those of the same bytes, contiguous.
//
// Source: CUDA C++ Best Practices Guide, "Coalesced Access", "Shared Memory and Memory Banks".
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tinytorch/backend/cuda/sim/emulator.hpp>
#include <unordered_map>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Request {
  unsigned lanes = 0;  // bit mask
  uint32_t bytes = 0;  // per lane
  std::array<uint64_t, kLanes> address{};
};

// {number of sectors, ideal number}
inline std::pair<uint64_t, uint64_t> sectors_of(const Request& r) {
  std::vector<uint64_t> sectors, addresses;
  for (unsigned l = 0; l < kLanes; ++l) {
    if (!(r.lanes >> l & 1)) continue;
    addresses.push_back(r.address[l]);
    for (uint64_t s = r.address[l] / 32; s <= (r.address[l] + r.bytes - 1) / 32; ++s) sectors.push_back(s);
  }
  const auto distinct = [](std::vector<uint64_t>& v) {
    std::sort(v.begin(), v.end());
    return static_cast<uint64_t>(std::unique(v.begin(), v.end()) - v.begin());
  };
  return {distinct(sectors), (distinct(addresses) * r.bytes + 31) / 32};
}

// {number of wavefronts, ideal number}. A wavefront serves at most 128 bytes: 32 lanes of 4 bytes, 16 of 8 or
// 8 of 16.
inline std::pair<uint64_t, uint64_t> wavefronts_of(const Request& r) {
  const unsigned together = r.bytes <= 4 ? 32 : (r.bytes <= 8 ? 16 : 8);
  uint64_t passes = 0, ideal = 0;
  for (unsigned first = 0; first < kLanes; first += together) {
    std::vector<uint64_t> words;
    for (unsigned l = first; l < first + together; ++l) {
      if (!(r.lanes >> l & 1)) continue;
      for (uint64_t w = r.address[l] / 4; w <= (r.address[l] + r.bytes - 1) / 4; ++w) words.push_back(w);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    std::array<unsigned, 32> of_bank{};
    for (const uint64_t w : words) ++of_bank[w % 32];
    passes += *std::max_element(of_bank.begin(), of_bank.end());
    ideal += (words.size() + 31) / 32;
  }
  return {passes, ideal};
}

// The counts of all grids, by kernel, for all host threads.
class CountTable {
 public:
  static CountTable& instance() {
    static auto* const table = new CountTable;
    return *table;
  }
  bool on = false;

  void add(const KernelCounts& c) {
    const std::lock_guard lock(mutex_);
    KernelCounts& sum = kernels_[c.kernel];
    sum.kernel = c.kernel;
    for (const auto member : kMembers) sum.*member += c.*member;
  }
  std::vector<KernelCounts> all() {
    const std::lock_guard lock(mutex_);
    std::vector<KernelCounts> out;
    for (const auto& [name, c] : kernels_) out.push_back(c);
    return out;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    kernels_.clear();
  }
  std::string text() {
    std::string out =
        "launches    blocks barriers      read B   written B | sectors/request  ideal | passes/request  "
        "ideal | kernel\n";
    for (const KernelCounts& c : all()) {
      const auto per = [](uint64_t n, uint64_t of) {
        return of ? static_cast<double>(n) / static_cast<double>(of) : 0.0;
      };
      char line[256];
      (void)std::snprintf(
          line, sizeof line, "%8llu %9llu %8llu %11llu %11llu | %15.2f %6.2f | %14.2f %6.2f | ",
          static_cast<unsigned long long>(c.launches), static_cast<unsigned long long>(c.blocks),
          static_cast<unsigned long long>(c.barriers), static_cast<unsigned long long>(c.bytes_read),
          static_cast<unsigned long long>(c.bytes_written), per(c.sectors, c.requests),
          per(c.ideal_sectors, c.requests), per(c.wavefronts, c.shared_requests),
          per(c.ideal_wavefronts, c.shared_requests));
      out += line + c.kernel + "\n";
    }
    return out;
  }

 private:
  static constexpr std::array kMembers = {
      &KernelCounts::launches,        &KernelCounts::blocks,     &KernelCounts::threads,
      &KernelCounts::barriers,        &KernelCounts::bytes_read, &KernelCounts::bytes_written,
      &KernelCounts::requests,        &KernelCounts::sectors,    &KernelCounts::ideal_sectors,
      &KernelCounts::shared_requests, &KernelCounts::wavefronts, &KernelCounts::ideal_wavefronts};

  CountTable() {
    const char* const asked = std::getenv("TINYTORCH_SIM_COUNT");
    on = asked && std::string(asked) != "0";
    if (on) (void)std::atexit([] { (void)std::fputs(instance().text().c_str(), stderr); });
  }
  std::mutex mutex_;
  std::map<std::string, KernelCounts> kernels_;
};

// The counts of one grid.
class GridCounter {
 public:
  KernelCounts sum;

  void note(const void* address, size_t bytes, bool write, bool shared, uint32_t code, unsigned thread) {
    if (!shared) (write ? sum.bytes_written : sum.bytes_read) += bytes;
    Site& site = sites_[uint64_t{code} << 6 | uint64_t{thread / kLanes} << 1 | shared];
    const unsigned lane = thread % kLanes;
    const uint32_t at = site.next[lane]++;
    if (at == site.requests.size()) site.requests.emplace_back();
    Request& request = site.requests[at];
    request.lanes |= 1u << lane;
    request.bytes = std::max(request.bytes, static_cast<uint32_t>(bytes));
    request.address[lane] = reinterpret_cast<uint64_t>(address);
  }
  void end_block() {
    for (const auto& [key, site] : sites_) {
      for (const Request& request : site.requests) {
        const bool shared = key & 1;
        const auto [real, ideal] = shared ? wavefronts_of(request) : sectors_of(request);
        (shared ? sum.shared_requests : sum.requests) += 1;
        (shared ? sum.wavefronts : sum.sectors) += real;
        (shared ? sum.ideal_wavefronts : sum.ideal_sectors) += ideal;
      }
    }
    sites_.clear();
  }

 private:
  struct Site {
    std::array<uint32_t, kLanes> next{};  // number of executions by each lane
    std::vector<Request> requests;
  };
  std::unordered_map<uint64_t, Site> sites_;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
