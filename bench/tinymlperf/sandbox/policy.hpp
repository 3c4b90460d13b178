// What a stranger's program may do, and how its run ended: two plain structs and nothing that acts on them.
//
// Every limit is on by default. The network has no switch: no submission and no compiler needs it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace tinymlperf::sandbox {

namespace fs = std::filesystem;

// How well a machine can keep a stranger in (probe.hpp finds out).
// strong: files, network, other processes and system calls are walled off, and a cgroup limits all processes
//         together.
// basic:  files and system calls are walled off, the network and other processes with them; limits hold for
// each
//         process. Owners and modes of files are guarded by the filter where mounts cannot be.
// none:   a stranger's program could read or change what the judge's user can.
enum class Level { none, basic, strong };

inline const char* to_text(Level level) {
  return level == Level::strong ? "strong" : level == Level::basic ? "basic" : "none";
}

struct Policy {
  std::vector<fs::path> read_only;  // files and folders to read and execute; each must exist
  fs::path work;                    // the one folder to write to, and the working directory; absolute

  int64_t memory_bytes = int64_t{4} << 30;  // of all processes with a cgroup, else of each one's addresses
  int64_t file_bytes = int64_t{256} << 20;  // of one file
  int64_t work_bytes = int64_t{1} << 30;    // of all files in `work`; looked at ten times a second
  int64_t output_bytes = int64_t{1} << 20;  // of stdout and stderr together
  int64_t processes = 64;                   // processes and threads alive at one time
  int64_t open_files = 256;                 // of each process
  double cpu_seconds = 60;                  // of each process, rounded up to a whole second
  double wall_seconds = 120;                // from start to end, whatever the program waits for

  Level least = Level::basic;  // with less nothing is run

  // A GPU's driver maps far more addresses than there is memory, talks to its device nodes and reads /proc
  // and /sys: those are opened, and memory is limited by the cgroup alone.
  bool may_gpu = false;
  // AddressSanitizer reserves terabytes of addresses too. Off, memory is limited by the cgroup alone.
  bool limit_addresses = true;
  // Before all ordinary programs, behind the judge alone (precedence.hpp); where Offers has it.
  bool real_time = false;
  std::vector<std::string> environment;  // "NAME=value", beside PATH, HOME, TMPDIR and LANG
};

// What compilers and plain programs read of a Linux system, as far as it exists here. Not /etc as a whole,
// not /home, not /proc: a program sees its own /proc/self besides.
inline std::vector<fs::path> system_paths() {
  std::vector<fs::path> found;
  for (const char* path :
       {"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
        "/etc/alternatives", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu"})
    if (std::error_code error; fs::exists(path, error)) found.emplace_back(path);
  return found;
}

// What ended a run. Only `exited` says that the program came to an end of its own; its exit code says the
// rest.
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
  int exit_code = -1;       // when it exited
  int signal = 0;           // when a signal ended it, whoever sent it
  double wall_seconds = 0;  // measured by the judge, from before the fork to the last process's end
  double cpu_seconds = 0;   // user and system time of all its processes
  int64_t peak_bytes = 0;   // all processes with a cgroup, else resident memory of the largest one
  // Without a cgroup a program counts as large as the copy of the judge that it is before exec: then only a
  // bound.
  bool peak_is_bound = false;
  int64_t left_behind = 0;  // processes that outlived the program and were killed
  std::string out, err;     // what it wrote, up to the limit
  bool output_complete = true;
  std::string reason;  // one line for a person; says what to do where something can be done

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

// The judge cannot do what was asked: a folder is missing, or this machine lacks a wall that was demanded.
// What a stranger's program does wrong is never an exception; it is an Outcome.
struct Unavailable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tinymlperf::sandbox
