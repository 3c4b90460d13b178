// Limits on all processes of a run together: one cgroup (version 2) per run, below a folder that this user
// was given. The files are the interface: a number is written to set a limit and read to see what was used.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tinymlperf/sandbox/policy.hpp>
#include <utility>

namespace tinymlperf::sandbox {

// A folder of the cgroup tree whose children can be limited, or why there is none.
struct CgroupHome {
  fs::path folder;
  std::string missing;
};

class Cgroup {
 public:
  Cgroup() = default;  // none: limits nothing, tells nothing
  // Throws Unavailable when the folder cannot be made.
  Cgroup(const fs::path& home, const Policy& policy) {
    static std::atomic<int> number{0};
    folder_ = home / ("tinymlperf-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::error_code error;
    if (!fs::create_directory(folder_, error))
      throw Unavailable("cannot make the cgroup " + folder_.string() + ": " + error.message());
    put("memory.max", policy.memory_bytes);
    put("memory.swap.max", 0);  // swapped out, a program would only take longer to reach its limit
    put("pids.max", policy.processes);
  }
  Cgroup(Cgroup&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  Cgroup& operator=(Cgroup&& other) noexcept {
    std::swap(folder_, other.folder_);
    return *this;
  }
  ~Cgroup() {
    if (folder_.empty()) return;
    kill();
    for (int i = 0; i < 100 && rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++i) usleep(5000);
  }

  bool present() const { return !folder_.empty(); }
  const fs::path& folder() const { return folder_; }
  // For the child to write "0" to: the writer enters. -1 without a cgroup.
  int open_entry() const {
    return present() ? open((folder_ / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC) : -1;
  }
  void kill() const {
    if (present()) std::ofstream(folder_ / "cgroup.kill") << 1;  // since Linux 5.14
  }
  int64_t peak_bytes() const { return number("memory.peak", ""); }  // since Linux 5.19; else 0
  bool memory_ran_out() const { return number("memory.events", "oom_kill") > 0; }
  bool processes_ran_out() const { return number("pids.events", "max") > 0; }
  double cpu_seconds() const { return static_cast<double>(number("cpu.stat", "usage_usec")) * 1e-6; }

 private:
  void put(const char* name, int64_t value) const { std::ofstream(folder_ / name) << value << std::flush; }
  // A file's only number, or the one after a word.
  int64_t number(const char* name, const std::string& word) const {
    if (!present()) return 0;
    std::ifstream file(folder_ / name);
    int64_t value = 0;
    if (word.empty()) return file >> value ? value : 0;
    for (std::string key; file >> key >> value;)
      if (key == word) return value;
    return 0;
  }
  fs::path folder_;
};

namespace detail {

inline std::string first_line(const fs::path& path, const std::string& start) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, start.size(), start) == 0) return line.substr(start.size());
  return "";
}

// Where cgroup v2 is mounted: /sys/fs/cgroup, or .../unified beside version 1.
inline fs::path cgroup_mount(const fs::path& mounts) {
  std::ifstream file(mounts);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);  // device, folder, type
    std::string device, folder, type;
    if (words >> device >> folder >> type && type == "cgroup2") return folder;
  }
  return {};
}

inline bool limits_children(const fs::path& folder) {
  const std::string enabled = " " + first_line(folder / "cgroup.subtree_control", "") + " ";
  return enabled.find(" memory ") != std::string::npos && enabled.find(" pids ") != std::string::npos;
}

}  // namespace detail

// Whether children of `folder` can be limited; if not yet, but allowed, makes it so. A cgroup with processes
// of its own cannot limit children, so this program first moves into a child itself.
inline CgroupHome make_home(const fs::path& folder) {
  const std::string advice =
      "; start the judge with: systemd-run --user --scope -p Delegate=yes tinymlperf ..., or name a "
      "delegated folder "
      "in TINYMLPERF_CGROUP";
  if (access(folder.c_str(), W_OK) != 0 || access((folder / "cgroup.procs").c_str(), W_OK) != 0)
    return {{}, folder.string() + " is not this user's" + advice};
  const std::string offered = " " + detail::first_line(folder / "cgroup.controllers", "") + " ";
  for (const char* controller : {" memory ", " pids "})
    if (offered.find(controller) == std::string::npos)
      return {{},
              folder.string() + " does not offer the controller" +
                  std::string(controller).substr(0, strlen(controller) - 1) + advice};
  if (detail::limits_children(folder)) return {folder, ""};
  const auto enable = [&] {
    std::ofstream(folder / "cgroup.subtree_control") << "+memory +pids" << std::flush;
  };
  enable();
  if (!detail::limits_children(folder)) {
    std::error_code error;
    fs::create_directory(folder / "judge", error);
    std::ofstream(folder / "judge" / "cgroup.procs") << getpid() << std::flush;
    enable();
  }
  if (detail::limits_children(folder)) return {folder, ""};
  return {{}, folder.string() + " holds processes besides this one" + advice};
}

inline CgroupHome find_cgroup_home() {
  if (const char* named = std::getenv("TINYMLPERF_CGROUP")) return make_home(named);
  const fs::path mount = detail::cgroup_mount("/proc/self/mounts");
  if (mount.empty()) return {{}, "cgroup version 2 is not mounted"};
  const std::string own = detail::first_line("/proc/self/cgroup", "0::/");
  return make_home(own.empty() ? mount : mount / own);
}

}  // namespace tinymlperf::sandbox
