// The data of a run, prepared in memory before the fork: paths as C strings and numbers as the kernel expects
// them, since after the fork only system calls are safe.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tinymlperf/sandbox/probe.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::sandbox {

struct Grant {
  std::string path;
  uint64_t rights = 0;
};
struct Limit {
  int resource = 0;
  int64_t soft = 0, hard = 0;
};

struct Plan {
  // Throws Unavailable if a path does not exist or is not absolute.
  Plan(const std::vector<std::string>& command, const Policy& policy, const Offers& offers);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  Offers offers;
  std::string work, user_map, group_map;
  std::vector<std::string> command, environment;
  std::vector<char*> arguments, variables;  // pointers into the two above, with a null at the end
  std::vector<Grant> grants;
  std::vector<Limit> limits;
  FilterOptions filter_options;
  Program filter;
  std::vector<size_t> own_pid_at;  // instructions of the filter that compare with the program's process id
  uid_t user = 0;                  // the user who runs the program; 0: unchanged
  bool real_time = false;
};

namespace detail {

// The user id for a work folder, in the range that systemd reserves for dynamic users of services. With a
// user of its own, a run's signals and process limits do not affect another run. Two folders share a user id
// with a probability of 1/4336.
inline uid_t user_of(const fs::path& work) {
  struct stat about {};
  if (stat(work.c_str(), &about) != 0) return 0;
  return 61184 + static_cast<uid_t>(about.st_ino % 4336);
}

// The number of tasks that already count toward this user's limit. There are none in a user namespace or for
// a user of the run's own.
inline int64_t tasks_of_user(uid_t user) {
  int64_t tasks = 0;
  std::error_code error;
  for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    struct stat about {};
    if (!std::isdigit(it->path().filename().string()[0]) || stat(it->path().c_str(), &about) != 0) continue;
    if (about.st_uid != user) continue;
    const std::string threads = first_line(it->path() / "status", "Threads:");
    tasks += threads.empty() ? 1 : std::atoll(threads.c_str());
  }
  return tasks;
}

inline std::vector<Grant> grants_of(const Policy& policy) {
  using namespace landlock;
  std::vector<Grant> out;
  for (const fs::path& path : policy.read_only) out.push_back({path.string(), kRead});
  out.push_back({policy.work.string(), (kFirst | kRefer | kTruncate) & ~kMakeDevices});
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"})
    if (std::error_code error; fs::exists(path, error)) out.push_back({path, kReadFile | kWriteFile});
  if (policy.may_gpu) {
    out.push_back({"/sys", kRead});
    std::error_code error;
    for (fs::directory_iterator it("/dev", error), end; !error && it != end; it.increment(error))
      if (it->path().filename().string().compare(0, 6, "nvidia") == 0)
        out.push_back({it->path().string(), kDevice | kReadDir});
    // A GPU driver reads /proc/driver and /proc/devices, and writes the names of its threads to /proc/self.
    out.push_back({"/proc", kReadFile | kReadDir});
    out.push_back({"/proc/self", kReadFile | kReadDir | kWriteFile | kTruncate});
  } else {
    out.push_back({"/proc/self", kReadFile | kReadDir});
  }
  return out;
}

inline std::vector<Limit> limits_of(const Policy& policy, const Offers& offers) {
  int64_t tasks = policy.processes;
  if (offers.namespaces == Namespaces::user) tasks += 1;  // for the keeper
  if (offers.namespaces != Namespaces::user && geteuid() != 0) tasks += tasks_of_user(geteuid());
  const auto seconds = static_cast<int64_t>(std::ceil(policy.cpu_seconds));
  std::vector<Limit> out = {{RLIMIT_CPU, seconds, seconds + 1},  // SIGXCPU, then SIGKILL
                            {RLIMIT_NPROC, tasks, tasks},
                            {RLIMIT_FSIZE, policy.file_bytes, policy.file_bytes},
                            {RLIMIT_CORE, 0, 0},
                            {RLIMIT_NOFILE, policy.open_files, policy.open_files},
                            {RLIMIT_MEMLOCK, 0, 0},
                            {RLIMIT_MSGQUEUE, 0, 0}};
  if (policy.may_gpu) out[5] = {RLIMIT_MEMLOCK, policy.memory_bytes, policy.memory_bytes};  // pinned memory
  if (policy.limit_addresses && !policy.may_gpu)
    out.push_back({RLIMIT_AS, policy.memory_bytes, policy.memory_bytes});
  return out;
}

inline std::vector<std::string> environment_of(const Policy& policy) {
  std::vector<std::string> out = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + policy.work.string(),
                                  "TMPDIR=" + policy.work.string(), "LANG=C.UTF-8"};
  out.insert(out.end(), policy.environment.begin(), policy.environment.end());
  return out;
}

inline std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

inline void require_paths(const std::vector<std::string>& command, const Policy& policy) {
  if (command.empty() || command[0].empty() || command[0][0] != '/')
    throw Unavailable("a program must be named by its absolute path, found \"" +
                      (command.empty() ? "" : command[0]) + "\"");
  std::error_code error;
  if (!policy.work.is_absolute() || !fs::is_directory(policy.work, error))
    throw Unavailable("the work folder " + policy.work.string() +
                      " must be an existing folder with an absolute path");
  for (const fs::path& path : policy.read_only)
    if (!path.is_absolute() || !fs::exists(path, error))
      throw Unavailable("the readable path " + path.string() + " does not exist or is not absolute");
}

}  // namespace detail

inline Plan::Plan(const std::vector<std::string>& program, const Policy& policy, const Offers& machine)
    : offers(machine),
      work(policy.work.string()),
      command(program),
      environment(detail::environment_of(policy)) {
  detail::require_paths(program, policy);
  arguments = detail::pointers(command);
  variables = detail::pointers(environment);
  const bool root = geteuid() == 0;
  const std::string inside = root ? "65534" : std::to_string(geteuid());
  user_map = inside + " " + std::to_string(geteuid()) + " 1";
  group_map = inside + " " + std::to_string(getegid()) + " 1";
  if (root && offers.own_user && offers.namespaces != Namespaces::user) {
    user = detail::user_of(work);
    if (chown(work.c_str(), user, user) != 0)
      throw Unavailable("cannot change the owner of the work folder " + work + ": " + strerror(errno));
  }
  grants = detail::grants_of(policy);
  limits = detail::limits_of(policy, offers);
  real_time = policy.real_time && offers.real_time;
  filter_options.may_gpu = policy.may_gpu;
  filter_options.guard_processes = offers.namespaces == Namespaces::none;
  filter_options.guard_metadata = !offers.read_only_root && user == 0;
  constexpr uint32_t kPlaceholder = 0x7FFFFFF1;  // above all process ids
  filter_options.own_pid = kPlaceholder;
  filter = assemble(rules(filter_options));
  for (size_t i = 0; i < filter.size(); ++i)
    if (filter[i].k == kPlaceholder) own_pid_at.push_back(i);
}

}  // namespace tinymlperf::sandbox
