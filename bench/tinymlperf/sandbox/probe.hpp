// The isolation mechanisms of this machine. Each is tried in a forked child, not inferred from a kernel
// version, and each missing one is listed with the reason.
#pragma once

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <tinymlperf/sandbox/cgroup.hpp>
#include <tinymlperf/sandbox/policy.hpp>
#include <tinymlperf/sandbox/steps.hpp>
#include <vector>

namespace tinymlperf::sandbox {

struct Offers {
  int landlock = 0;  // version of the interface; 0: not available
  bool seccomp = false;
  Namespaces namespaces = Namespaces::none;
  bool read_only_root = false;                        // in a mount namespace
  bool private_proc = false;                          // in a mount and a PID namespace
  bool own_user = false;                              // root can change to a user of the run's own
  bool real_time = false;                             // the priority can be raised (priority.hpp)
  fs::path cgroup;                                    // a folder whose children can be limited; empty: none
  fs::path freezer;                                   // one whose children can be frozen; empty: none
  nlohmann::json missing = nlohmann::json::object();  // the reason for each missing mechanism, by its name

  Level level() const {
    if (landlock < 1 || !seccomp) return Level::none;
    // Only a user namespace can isolate a program that runs as root.
    if (geteuid() == 0 && !own_user && namespaces != Namespaces::user) return Level::none;
    return namespaces != Namespaces::none && !cgroup.empty() ? Level::strong : Level::basic;
  }
};

namespace detail {

// Runs `step` in a forked child. Returns "" if it succeeds, else the failed step and the reason.
template <class F>
std::string tried(Namespaces namespaces, F&& step) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::string("pipe: ") + strerror(errno);
  const pid_t child = steps::fork_into(namespaces);
  if (child == 0) {
    const Failure failure = step();
    const ssize_t sent = write(ends[1], &failure, sizeof failure);
    _exit(sent == sizeof failure ? 0 : 1);
  }
  const int error = errno;
  close(ends[1]);
  Failure failure{Step::fork, error};
  if (child > 0) {
    if (read(ends[0], &failure, sizeof failure) != sizeof failure) failure = {Step::fork, ECHILD};
    waitpid(child, nullptr, 0);
  }
  close(ends[0]);
  if (!failure) return "";
  return std::string("cannot ") + to_text(failure.step) + ": " + strerror(failure.error);
}

inline void probe_namespaces(Offers& offers) {
  const uid_t user = geteuid();
  const std::string inside = user == 0 ? "65534" : std::to_string(user);
  const std::string users = inside + " " + std::to_string(user) + " 1",
                    groups = inside + " " + std::to_string(getegid()) + " 1";
  const auto enter = [&](Namespaces way) {
    return way == Namespaces::user ? steps::map_user(users.c_str(), groups.c_str()) : Failure{};
  };
  std::string why;
  for (const Namespaces way : {Namespaces::privileged, Namespaces::user}) {
    if (way == Namespaces::privileged && (user != 0 || !offers.own_user)) continue;
    why = tried(way, [&] { return enter(way); });
    if (!why.empty()) continue;
    offers.namespaces = way;
    break;
  }
  if (offers.namespaces == Namespaces::none) {
    offers.missing["namespaces"] =
        why +
        "; allow them with: sysctl user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1 "
        "kernel.apparmor_restrict_unprivileged_userns=0, as far as this kernel has them";
    return;
  }
  const auto probe = [&](const char* name, auto&& step) {
    const std::string reason = tried(offers.namespaces, [&] {
      const Failure entered = enter(offers.namespaces);
      return entered ? entered : step();
    });
    if (!reason.empty()) offers.missing[name] = reason;
    return reason.empty();
  };
  offers.read_only_root = probe("read_only_root", [] { return steps::make_read_only("/tmp"); });
  offers.private_proc = probe("private_proc", [] { return steps::mount_proc(); });
}

// A folder of the cgroup tree in which this user can put processes and freeze them. It needs no controllers,
// so many machines have one whose limits belong to version 1. `why`: why there is none.
inline fs::path find_freezer(const CgroupHome& home, std::string& why) {
  if (!home.folder.empty()) return home.folder;
  const fs::path mount = cgroup_mount("/proc/self/mounts");
  if (mount.empty()) return why = "cgroup version 2 is not mounted", fs::path();
  const fs::path folder = mount / first_line("/proc/self/cgroup", "0::/");
  try {
    const Cgroup one(folder, Policy());
    if (!one.can_freeze()) return why = "it needs Linux 5.2 or newer", fs::path();
    const int entry = one.open_entry();
    why = tried(Namespaces::none,
                [&] { return write(entry, "0", 1) == 1 ? Failure{} : steps::failed(Step::cgroup); });
    close(entry);
    return why.empty() ? folder : fs::path();
  } catch (const Unavailable& e) {
    return why = e.what(), fs::path();
  }
}

}  // namespace detail

// Tries all mechanisms, in a few milliseconds. The only lasting effect is that the judge may have moved into
// a child of its cgroup.
inline Offers probe() {
  Offers offers;
  const int version = landlock::version();
  offers.landlock = version > 0 ? version : 0;
  if (version <= 0)
    offers.missing["landlock"] =
        std::string(strerror(-version)) +
        "; it needs Linux 5.13 or newer with landlock among the lsm= of the kernel's command line";
  Program filter = assemble(rules({}));
  const std::string seccomp = detail::tried(Namespaces::none, [&] {
    const Failure failure = steps::give_up_privileges();
    return failure ? failure : steps::install(filter.data(), filter.size());
  });
  offers.seccomp = seccomp.empty();
  if (!offers.seccomp) offers.missing["seccomp"] = seccomp;
  if (geteuid() == 0) {
    const std::string user = detail::tried(Namespaces::none, [] { return steps::become(65000); });
    offers.own_user = user.empty();
    if (!offers.own_user) offers.missing["own_user"] = user;
  }
  detail::probe_namespaces(offers);
  CgroupHome home = find_cgroup_home();
  offers.cgroup = home.folder;
  if (home.folder.empty()) offers.missing["cgroup"] = home.missing;
  std::string why;
  offers.freezer = detail::find_freezer(home, why);
  if (!offers.freezer.empty()) remove_abandoned_cgroups(offers.freezer);
  if (offers.freezer.empty())
    offers.missing["freezer"] = why + "; held programs are stopped by signals instead";
  return offers;
}

// The object `sandbox` of system.json.
inline nlohmann::json to_json(const Offers& offers) {
  const bool any = offers.namespaces != Namespaces::none;
  return {{"level", to_text(offers.level())},
          {"landlock", offers.landlock},
          {"seccomp", offers.seccomp},
          {"userns", offers.namespaces == Namespaces::user},
          {"pidns", any},
          {"netns", any},
          {"read_only_root", offers.read_only_root},
          {"private_proc", offers.private_proc},
          {"own_user", offers.own_user || geteuid() != 0},
          {"cgroup", !offers.cgroup.empty()},
          {"freezer", !offers.freezer.empty()},
          {"real_time", offers.real_time},
          {"missing", offers.missing}};
}

// Throws Unavailable, with what is missing and how to enable it, if this machine's level is below `least`.
inline void require(const Offers& offers, Level least) {
  if (offers.level() >= least) return;
  std::string text = std::string("the judge requires a sandbox of level ") + to_text(least) +
                     ", but this machine offers level " + to_text(offers.level()) + "; it lacks:";
  for (const auto& [name, reason] : offers.missing.items())
    text += "\n  " + name + ": " + reason.get<std::string>();
  throw Unavailable(text);
}

}  // namespace tinymlperf::sandbox
