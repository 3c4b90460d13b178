// The C++ compiler of this machine, called to compile generated kernels, and the loading of what it made.
//
//   if (const HostCompiler* compiler = host_compiler()) {
//     const std::string problem = compile(*compiler, flags, "kernel.cpp", "kernel.so");   // empty: it worked
//
// It is started directly, without a shell, with at most 30 seconds. Nothing here is an error for the caller:
// a program runs without a compiler, more slowly. The environment variable TINYTORCH_CXX names the compiler;
// otherwise it is the first of c++, g++ and clang++ in PATH (clang++ first in a program that clang compiled).
// TINYTORCH_CXX=0 means none.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tinytorch/core/config.hpp>
#include <vector>

extern "C" char** environ;

namespace tinytorch::inline TT_BUILD::acceleration {

struct ProgramResult {
  bool ok = false;      // it ended with status 0
  std::string output;   // the first 64 KiB of standard output and standard error
  std::string problem;  // why it is not ok
};

// Reads what a program writes until it closes the pipe. False if that takes longer than until the deadline.
inline bool read_output(int pipe, std::chrono::steady_clock::time_point deadline, std::string& output) {
  constexpr size_t kMost = 64 << 10;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wait{pipe, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char buffer[4096];
    const ssize_t n = ::read(pipe, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    output.append(buffer, std::min(static_cast<size_t>(n), kMost - std::min(kMost, output.size())));
  }
}

// Runs a program, whose path is the first word, and waits for it. It reads nothing. A program that takes
// longer than the limit is ended with all processes that it started.
inline ProgramResult run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  ProgramResult result;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {false, {}, "no pipe"};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // a group of its own, to end all of it
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return {false, {}, "cannot start " + words[0] + ": " + std::strerror(error)};
  }
  const bool in_time = read_output(ends[0], std::chrono::steady_clock::now() + limit, result.output);
  ::close(ends[0]);
  if (!in_time) ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.ok = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!in_time) {
    result.problem = words[0] + " took longer than " + std::to_string(limit.count()) + " ms";
  } else if (!result.ok) {
    result.problem = words[0] + " failed: " + result.output.substr(0, 2000);
  }
  return result;
}

struct HostCompiler {
  std::string path;
  std::string identity;  // path, size, time and first line of --version: changes with the compiler
  bool is_clang = false;
};

// The file of a program: itself if it contains a '/', else the first one in PATH.
inline std::optional<std::string> find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    return ::access(std::string(name).c_str(), X_OK) == 0 ? std::optional(std::string(name)) : std::nullopt;
  }
  const char* variable = std::getenv("PATH");
  std::string_view list = variable ? variable : "/usr/bin:/bin";
  while (!list.empty()) {
    const size_t end = std::min(list.find(':'), list.size());
    const std::string file = std::string(list.substr(0, end)) + "/" + std::string(name);
    if (end > 0 && ::access(file.c_str(), X_OK) == 0) return file;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return std::nullopt;
}

// The compiler of that name, if it is there and prints its version.
inline std::optional<HostCompiler> compiler_named(std::string_view name) {
  const std::optional<std::string> path = find_program(name);
  struct stat info {};
  if (!path || ::stat(path->c_str(), &info) != 0) return std::nullopt;
  const ProgramResult version = run_program({*path, "--version"}, std::chrono::seconds(5));
  if (!version.ok) return std::nullopt;
  HostCompiler compiler{*path, *path, version.output.find("clang") != std::string::npos};
  compiler.identity += " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtime) + " " +
                       version.output.substr(0, version.output.find('\n'));
  return compiler;
}

inline std::optional<HostCompiler> find_compiler() {
  if (const char* chosen = std::getenv("TINYTORCH_CXX")) return compiler_named(chosen);
#if defined(__clang__)
  constexpr const char* kNames[] = {"clang++", "c++", "g++"};
#else
  constexpr const char* kNames[] = {"c++", "g++", "clang++"};
#endif
  for (const char* name : kNames)
    if (auto compiler = compiler_named(name)) return compiler;
  return std::nullopt;
}

// The compiler of this process, which is looked for at the first call; null if there is none.
inline const HostCompiler* host_compiler() {
  static const std::optional<HostCompiler> compiler = find_compiler();
  return compiler ? &*compiler : nullptr;
}

// Compiles a source file to a shared library. Returns the problem, or nothing if it worked.
inline std::string compile(const HostCompiler& compiler, const std::vector<std::string>& flags,
                           const std::string& source, const std::string& library,
                           std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  std::vector<std::string> words = {compiler.path};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"-o", library, source});
  return run_program(words, limit).problem;
}

// A function of a shared library, which stays loaded until the process ends. Null if it cannot be loaded;
// then `problem` says why.
inline void* load_function(const std::string& library, const char* name, std::string& problem) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const function = handle ? ::dlsym(handle, name) : nullptr;
  if (function == nullptr) {
    const char* const text = ::dlerror();
    problem = text ? text : "the library has no function of this name";
    if (handle) ::dlclose(handle);
  }
  return function;
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
