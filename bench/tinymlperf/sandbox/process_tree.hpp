// The processes of a run, as the kernel shows them to the judge: the descendants of the keeper, with the
// states of their threads, their processor time and their memory.
//
// No process of a run escapes this walk, since the keeper adopts orphans (keeper.hpp). The files of /proc
// that it reads are open to every user, and the processor time of a process is a clock of the system, exact
// to the nanosecond. While processes run, a walk may miss one that was started meanwhile; among stopped
// processes it is complete.
#pragma once

#include <fcntl.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tinymlperf::sandbox {

struct Member {
  pid_t pid = 0;
  bool stopped = true;  // each of its threads is stopped, or has ended
  bool waiting = true;  // each is stopped, has ended, or waits in the kernel, where no signal wakes it
  double seconds = 0;   // processor time, with that of its children that it has waited for
  bool copied = false;  // it has not been loaded yet, and is still a copy of the judge
  int64_t own_nanoseconds = 0;  // processor time of its own
};

namespace detail {

inline std::string text_of_proc(const std::string& path) {
  std::string out;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return out;
  char part[4096];
  for (ssize_t got; (got = read(file, part, sizeof part)) > 0;) out.append(part, static_cast<size_t>(got));
  close(file);
  return out;
}

inline std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> out;
  for (size_t at = 0; (at = text.find_first_of("0123456789", at)) != text.npos;) {
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    out.push_back(std::atoll(std::string(text.substr(at, end - at)).c_str()));
    at = end;
  }
  return out;
}

inline std::string proc(pid_t pid) { return "/proc/" + std::to_string(pid); }

// The fields of /proc/.../stat after the program's name, which may hold any text: the state is the first.
inline std::string fields_of_stat(const std::string& path) {
  const std::string text = text_of_proc(path + "/stat");
  const size_t end = text.rfind(") ");
  return end == text.npos ? "" : text.substr(end + 2);
}

// Seconds of all children that this process has waited for, and of theirs.
inline double seconds_of_reaped(pid_t pid) {
  const std::vector<int64_t> fields = numbers_in(fields_of_stat(proc(pid)));
  constexpr size_t kUser = 12, kSystem = 13;  // cutime and cstime, with the state left out
  if (fields.size() <= kSystem) return 0;
  return static_cast<double>(fields[kUser] + fields[kSystem]) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

inline int64_t nanoseconds_of(pid_t pid) {
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(pid) << 3) | 2);  // of all its threads
  timespec now{};
  return clock_gettime(clock, &now) == 0 ? int64_t{now.tv_sec} * 1000000000 + now.tv_nsec : 0;
}

// Reads the states of the threads of a process, and appends its children.
inline Member member_of(pid_t pid, std::vector<pid_t>& children) {
  Member out{pid};
  std::error_code error;
  for (std::filesystem::directory_iterator it(proc(pid) + "/task", error), end; !error && it != end;
       it.increment(error)) {
    const std::string thread = it->path().string(), fields = fields_of_stat(thread);
    const char state = fields.empty() ? 'X' : fields[0];
    const bool stopped = std::string_view("TtZX").find(state) != std::string_view::npos;
    out.stopped = out.stopped && stopped;
    out.waiting = out.waiting && (stopped || state == 'D');
    for (const int64_t child : numbers_in(text_of_proc(thread + "/children")))
      children.push_back(static_cast<pid_t>(child));
  }
  out.own_nanoseconds = nanoseconds_of(pid);
  out.seconds = static_cast<double>(out.own_nanoseconds) * 1e-9 + seconds_of_reaped(pid);
  return out;
}

// True for a process that was forked and has not called exec.
inline bool is_forked_only(pid_t pid) {
  constexpr size_t kFlags = 5;
  constexpr int64_t kForkNoExec = 0x40;
  const std::vector<int64_t> fields = numbers_in(fields_of_stat(proc(pid)));
  return fields.size() > kFlags && (fields[kFlags] & kForkNoExec) != 0;
}

// The number after `key` in a file of lines such as "VmHWM:   1234 kB", in bytes; 0 if it is not there.
inline int64_t kilobytes_line(const std::string& path, const std::string& key) {
  const std::string text = "\n" + text_of_proc(path);
  const size_t at = text.find("\n" + key);
  return at == text.npos ? 0 : 1024 * std::atoll(text.c_str() + at + 1 + key.size());
}

}  // namespace detail

// All processes below the keeper. Its first child is the program, since orphans come after it.
inline std::vector<Member> members_of(pid_t keeper) {
  constexpr size_t kMost = 20000;  // no limit on processes is as high
  std::vector<pid_t> open;
  (void)detail::member_of(keeper, open);
  std::vector<Member> out;
  for (size_t i = 0; i < open.size() && i < kMost; ++i) {
    const pid_t next = open[i];
    out.push_back(detail::member_of(next, open));
  }
  if (!out.empty()) out.front().copied = detail::is_forked_only(out.front().pid);
  return out;
}

// Processor time of a whole run in seconds, with that of processes that have ended.
inline double seconds_of(const std::vector<Member>& members, pid_t keeper) {
  double sum = detail::seconds_of_reaped(keeper);
  for (const Member& m : members) sum += m.seconds;
  return sum;
}

// The most memory that a process ever had, since it was loaded. 0 before, and if it has ended.
inline int64_t peak_bytes_of(const Member& m) {
  return m.copied ? 0 : detail::kilobytes_line(detail::proc(m.pid) + "/status", "VmHWM:");
}

// The memory that these processes have filled themselves, and which is resident now: without the pages of
// programs and libraries.
inline int64_t filled_bytes_of(const std::vector<Member>& members) {
  int64_t sum = 0;
  for (const Member& m : members)
    for (const char* kind : {"RssAnon:", "RssShmem:"})
      if (!m.copied) sum += detail::kilobytes_line(detail::proc(m.pid) + "/status", kind);
  return sum;
}

// The memory of all these processes now. A page that several share counts once, if the system tells the judge
// the shares, and else for each of them. Shares are asked for only where the sum is above `enough`, since the
// kernel walks all pages for them.
inline int64_t bytes_of(const std::vector<Member>& members, int64_t enough) {
  int64_t whole = 0, shares = 0;
  for (const Member& m : members)
    if (!m.copied) whole += detail::kilobytes_line(detail::proc(m.pid) + "/status", "VmRSS:");
  if (whole <= enough || members.size() < 2) return whole;
  for (const Member& m : members) {
    const int64_t share = detail::kilobytes_line(detail::proc(m.pid) + "/smaps_rollup", "Pss:");
    shares += share > 0 ? share : detail::kilobytes_line(detail::proc(m.pid) + "/status", "VmRSS:");
  }
  return shares;
}

}  // namespace tinymlperf::sandbox
