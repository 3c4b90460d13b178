// Policy: what an untrusted program may do. Outcome: how its run ended. Both are plain data.
//
// All limits are on by default. The network cannot be allowed, since no submission and no compiler needs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace tinymlperf::sandbox {

namespace fs = std::filesystem;

// The degree to which a machine can isolate an untrusted program (determined by probe.hpp):
//   strong  namespaces isolate files, network and processes, system calls are filtered, and a cgroup limits
//           all processes together
//   basic   files are restricted, and filtered system calls deny access to the network and to other
//           processes; the judge watches what all processes use. Without read-only mounts the filter also
//           protects the owners and modes of files
//   none    the program could read or change everything that the judge's user can
enum class Level { none, basic, strong };

inline const char* to_text(Level level) {
  return level == Level::strong ? "strong" : level == Level::basic ? "basic" : "none";
}

struct Policy {
  std::vector<fs::path> read_only;  // files and folders to read and execute; each must exist
  fs::path work;                    // the only writable folder, and the working directory; absolute

  // These limits hold for all processes together. The judge looks ten times a second (usage_watch.hpp).
  int64_t memory_bytes = int64_t{4} << 30;  // also the address space of each process, without a cgroup
  int64_t file_bytes = int64_t{256} << 20;  // of one file
  int64_t work_bytes =
      int64_t{1} << 30;  // of all files in `work`, and of those that were deleted but kept open
  int64_t output_bytes = int64_t{1} << 20;  // of stdout and stderr together
  int64_t processes = 64;                   // processes and threads alive at one time
  int64_t open_files = 256;                 // of each process
  double cpu_seconds = 60;                  // of all processes
  double wall_seconds = 120;                // from start to end, including time in which the program waits

  Level least = Level::basic;  // on a machine with a lower level the program is not run

  // Allows the use of a GPU. Its driver maps far more addresses than there is memory, uses device nodes and
  // reads /proc and /sys. These are made accessible, and only the cgroup limits memory.
  bool may_gpu = false;
  // AddressSanitizer, too, reserves terabytes of addresses. If false, only the cgroup limits memory.
  bool limit_addresses = true;
  // Runs the program before ordinary programs, but behind the judge (priority.hpp), if Offers::real_time.
  bool real_time = false;
  std::vector<std::string> environment;  // "NAME=value", beside PATH, HOME, TMPDIR and LANG
};

// The paths of a Linux system that compilers and ordinary programs read, as far as they exist here. The whole
// of /etc, /home and /proc are not among them; a program can read its own /proc/self in addition.
inline std::vector<fs::path> system_paths() {
  std::vector<fs::path> found;
  for (const char* path :
       {"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
        "/etc/alternatives", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"})
    if (std::error_code error; fs::exists(path, error)) found.emplace_back(path);
  return found;
}

// The cause of the end of a run. Only `exited` means that the program ended by itself, with the exit code of
// the outcome.
enum class Ending {
  exited,
  signalled,
  time,
  memory,
  output,
  files,
  processes,
  syscalls,
  stopped,
  not_started
};

inline const char* to_text(Ending ending) {
  constexpr const char* kNames[] = {"exited", "signalled", "time",     "memory",  "output",
                                    "files",  "processes", "syscalls", "stopped", "not started"};
  return kNames[static_cast<size_t>(ending)];
}

struct Outcome {
  Ending ending = Ending::not_started;
  int exit_code = -1;       // if it exited
  int signal = 0;           // if a signal ended it, from any sender
  double wall_seconds = 0;  // measured by the judge, from before the fork to the last process's end
  double cpu_seconds = 0;   // user and system time of all its processes
  int64_t peak_bytes = 0;   // all processes with a cgroup, else the sum of their peaks when the judge looked
  // True if peak_bytes is only an upper bound: the judge did not look before the end, and the system's number
  // includes the time before exec, when the program is a copy of the judge.
  bool peak_is_bound = false;
  int64_t left_behind = 0;  // processes that outlived the program and were killed
  std::string out, err;     // its standard output and error, up to the limit
  bool output_complete = true;
  std::string reason;  // one line for a person, with a remedy if there is one

  bool good() const { return ending == Ending::exited && exit_code == 0; }
};

inline nlohmann::json to_json(const Outcome& outcome) {
  nlohmann::json out{{"ending", to_text(outcome.ending)},
                     {"wall_seconds", outcome.wall_seconds},
                     {"cpu_seconds", outcome.cpu_seconds},
                     {"peak_bytes", outcome.peak_bytes},
                     {"peak_is_bound", outcome.peak_is_bound},
                     {"left_behind", outcome.left_behind},
                     {"reason", outcome.reason}};
  if (outcome.ending == Ending::exited) out["exit_code"] = outcome.exit_code;
  if (outcome.signal) out["signal"] = outcome.signal;
  return out;
}

// The judge cannot run the program: a path is missing, or this machine lacks a required isolation mechanism.
// What the program itself does wrong is never an exception, but an Outcome.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tinymlperf::sandbox
