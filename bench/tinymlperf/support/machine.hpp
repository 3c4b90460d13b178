// Machine: the machine of a measurement as Linux describes it; missing facts are reported as unknown.
#pragma once

#include <sys/utsname.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <tinymlperf/support/json_fields.hpp>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/core/parallel.hpp>

namespace tinymlperf {

struct Machine {
  std::string cpu, system, compiler, flags, library, date;
  int64_t cores = 0;    // cores that the operating system offers
  int64_t threads = 0;  // threads that the library used
  int64_t memory_bytes = 0;
};

inline Json to_json(const Machine& m) {
  return {{"cpu", m.cpu},     {"system", m.system},   {"compiler", m.compiler},
          {"flags", m.flags}, {"library", m.library}, {"date", m.date},
          {"cores", m.cores}, {"threads", m.threads}, {"memory_bytes", m.memory_bytes}};
}

namespace detail {

// The value of the first line "key : value" of a /proc file, or "".
inline std::string proc_value(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

// `module`: "NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:20:00 UTC 2025", or ""; `cuda` as
// CUDA counts its versions, or 0.
inline std::string driver_text(const std::string& module, int cuda) {
  std::istringstream words(module);
  std::string text;
  for (std::string word; text.empty() && words >> word;)
    if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) text = word;
  if (cuda > 0)
    text += (text.empty() ? "CUDA " : ", CUDA ") + std::to_string(cuda / 1000) + "." +
            std::to_string(cuda % 1000 / 10);
  return text;
}

}  // namespace detail

inline std::string utc_text(std::time_t time) {
  char text[32];
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}
inline std::string utc_now() {
  return utc_text(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
}

inline Machine describe_machine() {
  Machine m;
  m.cpu = detail::proc_value("/proc/cpuinfo", "model name");
  if (m.cpu.empty()) m.cpu = "unknown processor";
  m.cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  m.threads = tinytorch::thread_count();
  const std::string memory = detail::proc_value("/proc/meminfo", "MemTotal");  // "16384 kB"
  if (!memory.empty()) m.memory_bytes = std::strtoll(memory.c_str(), nullptr, 10) * 1024;
  utsname system{};
  m.system = uname(&system) == 0 ? std::string(system.sysname) + " " + system.release + " " + system.machine
                                 : "unknown";
#if defined(__clang__)
  m.compiler = std::string("clang ") + __clang_version__;
#else
  m.compiler = std::string("g++ ") + __VERSION__;
#endif
#ifdef TINYTORCH_BUILD_FLAGS
  m.flags = TINYTORCH_BUILD_FLAGS;
#else
  m.flags = "not recorded by this build";
#endif
#ifdef NDEBUG
  m.flags += " (asserts off)";
#endif
  m.library = "tinytorch " TINYTORCH_VERSION;
  m.date = utc_now();
  return m;
}

// The driver of the GPUs and the newest CUDA that it runs, "580.65.06, CUDA 13.0"; what is not known is left
// out.
inline std::string gpu_driver() {
  return detail::driver_text(detail::proc_value("/proc/driver/nvidia/version", "NVRM version"),
                             tinytorch::backend::cuda::driver_version());
}

// Names the tables that list the results of this machine.
inline std::string hardware_class(const Machine& m) { return m.threads == 1 ? "cpu-1t" : "cpu-mt"; }
inline std::string hardware_class_of_device() {
  return "gpu(" + tinytorch::backend::cuda::properties(0).name + ")";
}

}  // namespace tinymlperf
