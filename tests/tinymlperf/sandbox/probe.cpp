// The probe of isolation mechanisms compared with other information of the system, the levels that follow
// from them, and cgroups in an ordinary folder that imitates the cgroup tree.
#include <doctest/doctest.h>

#include <fstream>
#include <tinymlperf/sandbox/sandbox.hpp>

using namespace tinymlperf::sandbox;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "tinymlperf_probe_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path / name) << text; }
  std::string get(const fs::path& name) const {
    std::string text;
    std::getline(std::ifstream(path / name), text);
    return text;
  }
};

Offers everything() {
  Offers offers;
  offers.landlock = 7;
  offers.seccomp = offers.own_user = offers.read_only_root = offers.private_proc = true;
  offers.namespaces = Namespaces::user;
  offers.cgroup = "/somewhere";
  return offers;
}

}  // namespace

TEST_CASE("each isolation mechanism is available or a reason is given") {
  const Offers offers = probe();
  const auto json = to_json(offers);
  MESSAGE(json.dump());
  CHECK((offers.landlock > 0) == (landlock::version() > 0));
  CHECK(offers.missing.contains("landlock") == (offers.landlock == 0));
  CHECK(offers.missing.contains("seccomp") != offers.seccomp);
  CHECK(offers.missing.contains("namespaces") == (offers.namespaces == Namespaces::none));
  CHECK(offers.missing.contains("cgroup") == offers.cgroup.empty());
  for (const char* key : {"level", "landlock", "seccomp", "userns", "pidns", "netns", "cgroup", "missing"})
    CHECK(json.contains(key));
  std::ifstream kernel("/proc/sys/kernel/seccomp/actions_avail");
  if (kernel) CHECK(offers.seccomp);
}

TEST_CASE(
    "the level follows from the mechanisms, and a required level that is not reached names the missing "
    "ones") {
  Offers offers = everything();
  CHECK(offers.level() == Level::strong);
  offers.cgroup.clear();
  offers.missing["cgroup"] = "not delegated; do this";
  CHECK(offers.level() == Level::basic);
  CHECK_NOTHROW(require(offers, Level::basic));
  CHECK_THROWS_WITH_AS(require(offers, Level::strong), doctest::Contains("cgroup: not delegated; do this"),
                       Unavailable);
  offers.namespaces = Namespaces::none;
  CHECK(offers.level() == Level::basic);
  offers.seccomp = false;
  CHECK(offers.level() == Level::none);
  offers = everything();
  offers.landlock = 0;
  CHECK(offers.level() == Level::none);
  CHECK_THROWS_AS(require(offers, Level::basic), Unavailable);
}

TEST_CASE("nothing is run below the level that a policy requires") {
  Folder f;
  Policy policy;
  policy.work = f.path;
  Offers offers = probe();
  offers.seccomp = false;
  CHECK_THROWS_AS(run({"/bin/true"}, policy, offers), Unavailable);
}

TEST_CASE("a cgroup writes its limits and reads its usage") {
  Folder home;
  Policy policy;
  policy.memory_bytes = 1 << 20;
  policy.processes = 5;
  {
    const Cgroup group(home.path, policy);
    const fs::path inside = group.folder().filename();
    CHECK(home.get(inside / "memory.max") == "1048576");
    CHECK(home.get(inside / "memory.swap.max") == "0");
    CHECK(home.get(inside / "pids.max") == "5");
    CHECK(group.peak_bytes() == 0);
    CHECK_FALSE(group.memory_ran_out());
    home.put(inside / "memory.peak", "4096\n");
    home.put(inside / "memory.events", "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\n");
    home.put(inside / "pids.events", "max 3\n");
    home.put(inside / "cpu.stat", "usage_usec 1500000\nuser_usec 1\n");
    CHECK(group.peak_bytes() == 4096);
    CHECK(group.memory_ran_out());
    CHECK(group.processes_ran_out());
    CHECK(group.cpu_seconds() == 1.5);
  }
  CHECK_FALSE(Cgroup().present());
  CHECK(Cgroup().open_entry() == -1);
  CHECK_THROWS_AS(Cgroup(home.path / "absent", policy), Unavailable);
}

TEST_CASE("cgroups of judges that were killed are removed, those of living ones stay") {
  Folder home;
  pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  const fs::path left = home.path / ("tinymlperf-" + std::to_string(dead) + "-0"),
                 own = home.path / ("tinymlperf-" + std::to_string(getpid()) + "-0"),
                 other = home.path / "user.slice";
  for (const fs::path& path : {left, own, other}) fs::create_directory(path);
  remove_abandoned_cgroups(home.path);
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(own));
  CHECK(fs::exists(other));
}

TEST_CASE("the folder for cgroups must be writable and offer the controllers memory and pids") {
  Folder home;
  CHECK(make_home(home.path).missing.find("this user may not write to") != std::string::npos);
  home.put("cgroup.procs", "");
  home.put("cgroup.controllers", "cpu io pids\n");
  CHECK(make_home(home.path).missing.find("does not offer the controller memory;") != std::string::npos);
  home.put("cgroup.controllers", "cpu io memory pids\n");
  home.put("cgroup.subtree_control", "cpu\n");
  // An ordinary file keeps the text "+memory +pids", so it never shows the enabled controllers "memory pids".
  CHECK(make_home(home.path).missing.find("contains processes other than this one") != std::string::npos);
  home.put("cgroup.subtree_control", "memory pids\n");
  CHECK(make_home(home.path).folder == home.path);
}

TEST_CASE("the mount point of cgroup version 2 is found") {
  Folder f;
  f.put("mounts",
        "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/pids cgroup rw 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
  CHECK(detail::cgroup_mount(f.path / "mounts") == "/sys/fs/cgroup/unified");
  CHECK(detail::cgroup_mount(f.path / "absent").empty());
}
