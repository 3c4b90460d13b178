// Limits on all processes of a run together: one cgroup (version 2) for each run, below a folder that is
// delegated to this user. A limit is set by writing a number to a file; usage is read from files.
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

// A folder of the cgroup tree whose children can be limited.
struct CgroupHome {
  fs::path folder;      // empty if there is none
  std::string missing;  // why there is none
};

class Cgroup {
 public:
  Cgroup() = default;  // no cgroup: limits nothing, and all usage is 0
  // Throws Unavailable if the folder cannot be created.
  Cgroup(const fs::path& home, const Policy& policy) {
    static std::atomic<int> number{0};
    folder_ = home / ("tinymlperf-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::error_code error;
    if (!fs::create_directory(folder_, error))
      throw Unavailable("cannot create the cgroup " + folder_.string() + ": " + error.message());
    put("memory.max", policy.memory_bytes);
    put("memory.swap.max", 0);  // with swap, a program would only take longer to reach its limit
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
  // A file descriptor: a process that writes "0" to it enters the cgroup. -1 without a cgroup.
  int open_entry() const {
    return present() ? open((folder_ / "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC) : -1;
  }
  void kill() const {
    if (present()) std::ofstream(folder_ / "cgroup.kill") << 1;  // since Linux 5.14
  }
  bool limits_memory() const { return present() && fs::exists(folder_ / "memory.max"); }
  // Freezes all processes, whatever signals they get (since Linux 5.2), or lets them continue.
  bool can_freeze() const { return present() && fs::exists(folder_ / "cgroup.freeze"); }
  void freeze(bool on) const { put("cgroup.freeze", on ? 1 : 0); }
  bool is_frozen() const { return number("cgroup.events", "frozen") == 1; }
  int64_t peak_bytes() const { return number("memory.peak", ""); }  // since Linux 5.19; 0 before
  bool memory_ran_out() const { return number("memory.events", "oom_kill") > 0; }
  bool processes_ran_out() const { return number("pids.events", "max") > 0; }
  double cpu_seconds() const { return static_cast<double>(number("cpu.stat", "usage_usec")) * 1e-6; }

 private:
  void put(const char* name, int64_t value) const { std::ofstream(folder_ / name) << value << std::flush; }
  // The only number in a file if `word` is empty, else the number after `word`. 0 if there is none.
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

// Removes the cgroups of judges that were killed. One with processes stays, and so does that of a living
// judge.
inline void remove_abandoned_cgroups(const fs::path& home) {
  const std::string start = "tinymlperf-";
  std::error_code error;
  for (fs::directory_iterator it(home, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.compare(0, start.size(), start) != 0) continue;
    const auto judge = static_cast<pid_t>(std::atol(name.c_str() + start.size()));
    if (judge > 0 && ::kill(judge, 0) != 0 && errno == ESRCH) rmdir(it->path().c_str());
  }
}

namespace detail {

inline std::string first_line(const fs::path& path, const std::string& start) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.compare(0, start.size(), start) == 0) return line.substr(start.size());
  return "";
}

// The folder where cgroup v2 is mounted: /sys/fs/cgroup, or .../unified on systems that also have version 1.
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

// Returns `folder` if its children can be limited. Enables the limits first where that is allowed. A cgroup
// that contains processes cannot limit its children, so this process moves into a child if necessary.
inline CgroupHome make_home(const fs::path& folder) {
  const std::string advice =
      "; start the judge with: systemd-run --user --scope -p Delegate=yes tinymlperf ..., or set "
      "TINYMLPERF_CGROUP to a delegated folder";
  if (access(folder.c_str(), W_OK) != 0 || access((folder / "cgroup.procs").c_str(), W_OK) != 0)
    return {{}, "this user may not write to " + folder.string() + advice};
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
  return {{}, folder.string() + " contains processes other than this one" + advice};
}

inline CgroupHome find_cgroup_home() {
  if (const char* named = std::getenv("TINYMLPERF_CGROUP")) return make_home(named);
  const fs::path mount = detail::cgroup_mount("/proc/self/mounts");
  if (mount.empty()) return {{}, "cgroup version 2 is not mounted"};
  const std::string own = detail::first_line("/proc/self/cgroup", "0::/");
  return make_home(own.empty() ? mount : mount / own);
}

}  // namespace tinymlperf::sandbox
