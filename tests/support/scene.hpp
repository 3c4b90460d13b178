// Setting for tests of the sandbox: a folder with a work folder, a secret file beside it, this program under
// a path that every user can read, and the machines on which each attack is tried.
#pragma once

#include <support/hostile.hpp>
#include <support/sanitized.hpp>

#include <fstream>
#include <string>
#include <tinymlperf/sandbox/sandbox.hpp>
#include <tinytorch/core/parallel.hpp>
#include <vector>

namespace test {

namespace fs = std::filesystem;
namespace sandbox = tinymlperf::sandbox;

struct Scene {
  fs::path base, work, program;
  std::string machine;  // name of the machine, for tests that start their own judge
  sandbox::Policy policy;

  Scene() {
    std::string name = (fs::temp_directory_path() / "tinymlperf_sandbox_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    base = name;
    work = base / "work";
    program = base / "program";
    fs::permissions(base, fs::perms(0755));
    fs::create_directory(work);
    fs::copy_file("/proc/self/exe", program);
    fs::permissions(program, fs::perms(0755));
    std::ofstream(base / "secret") << "expected values";
    policy.read_only = sandbox::system_paths();
    policy.read_only.push_back(program);
    policy.work = work;
    policy.memory_bytes = int64_t{1} << 30;
    policy.wall_seconds = 20;
    policy.cpu_seconds = 20 * tinytorch::thread_count();  // idle OpenMP threads spin
    policy.limit_addresses = !kSanitized;
  }
  ~Scene() {
    std::error_code error;
    fs::remove_all(base, error);
  }
  std::vector<std::string> child(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {program.string(), "--child"});
    return arguments;
  }
  sandbox::Outcome run(std::vector<std::string> arguments, const sandbox::Offers& offers,
                       const std::string& input = "") const {
    return sandbox::run(child(std::move(arguments)), policy, offers, input);
  }
};

struct Machine {
  std::string name;
  sandbox::Offers offers;
};

// This machine, and the same machine as if it had no namespaces, as in many containers and for users of some
// systems.
inline const std::vector<Machine>& machines() {
  static const auto all = [] {
    const sandbox::Offers whole = sandbox::probe();
    sandbox::Offers bare = whole;
    bare.namespaces = sandbox::Namespaces::none;
    bare.read_only_root = bare.private_proc = false;
    bare.cgroup.clear(), bare.freezer.clear();
    std::vector<Machine> out{{"as it is", whole}};
    if (whole.namespaces != sandbox::Namespaces::none && bare.level() != sandbox::Level::none)
      out.push_back({"without namespaces", bare});
    return out;
  }();
  return all;
}

}  // namespace test
