// Watches what all processes of a run use together: bytes on disk, memory and processor time. The judge looks
// while it waits for the run, at most ten times a second.
//
// A cgroup limits memory by itself. Elsewhere the kernel limits each process only, and this watch their sum.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string>
#include <tinymlperf/sandbox/process.hpp>
#include <utility>

namespace tinymlperf::sandbox {

namespace detail {

// Bytes on disk of all files below a folder that an untrusted program writes to. Links are not followed.
// Returns INT64_MAX if there are more than 20000 files, since counting them would take too long.
inline int64_t bytes_below(const fs::path& folder) {
  constexpr int kMostFiles = 20000;
  int64_t bytes = 0;
  int files = 0;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && it != end; it.increment(error)) {
    struct stat about {};
    if (lstat(it->path().c_str(), &about) == 0) bytes += about.st_blocks * 512;
    if (++files > kMostFiles) return INT64_MAX;
  }
  return bytes;
}

// Bytes on disk of files that no folder names any more, but that a process keeps open or mapped. They are on
// the device of `folder`. Each file counts once.
inline int64_t bytes_without_name(const std::vector<Member>& members, const fs::path& folder) {
  struct stat about {};
  if (stat(folder.c_str(), &about) != 0) return 0;
  const dev_t device = about.st_dev;
  std::set<ino_t> seen;
  int64_t bytes = 0;
  for (const Member& m : members)
    for (const char* kept : {"/fd", "/map_files"}) {
      if (kept[1] == 'm' && text_of_proc(proc(m.pid) + "/maps").find(" (deleted)") == std::string::npos)
        continue;
      std::error_code error;
      for (fs::directory_iterator it(proc(m.pid) + kept, error), end; !error && it != end;
           it.increment(error))
        if (stat(it->path().c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 0 &&
            about.st_dev == device && seen.insert(about.st_ino).second)
          bytes += about.st_blocks * 512;
    }
  return bytes;
}

}  // namespace detail

class UsageWatch {
 public:
  explicit UsageWatch(const Policy& policy) : policy_(policy) {}

  // The limit that the run exceeds; Ending::exited if it exceeds none, or if the last look was just now.
  Ending look(const Process& process) {
    const Clock::time_point now = Clock::now();
    if (std::chrono::duration<double>(now - looked_).count() < 0.1) return Ending::exited;
    const std::vector<Member> members = process.members();
    note_peak(members);
    Ending found = Ending::exited;
    const int64_t named = detail::bytes_below(policy_.work);
    if (named > policy_.work_bytes ||
        named + detail::bytes_without_name(members, policy_.work) > policy_.work_bytes)
      found = Ending::files;
    else if (!process.cgroup().limits_memory() &&
             bytes_of(members, policy_.memory_bytes) > policy_.memory_bytes)
      found = Ending::memory;
    else if ((process.cgroup().present() ? process.cgroup().cpu_seconds()
                                         : seconds_of(members, process.keeper())) > policy_.cpu_seconds)
      found = Ending::time;
    looked_ = Clock::now();
    return found;
  }
  // The sum of the peaks of all processes that were alive at one of the looks.
  int64_t peak_bytes() const { return peak_bytes_; }
  void note_peak(const std::vector<Member>& members) {
    int64_t sum = 0;
    for (const Member& m : members) sum += peak_bytes_of(m);
    peak_bytes_ = std::max(peak_bytes_, sum);
  }

 private:
  Policy policy_;
  Clock::time_point looked_;
  int64_t peak_bytes_ = 0;
};

}  // namespace tinymlperf::sandbox
