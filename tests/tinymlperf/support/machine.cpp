// Tests of the machine's description.
#include <doctest/doctest.h>

#include <regex>
#include <tinymlperf/support/machine.hpp>

using tinymlperf::describe_machine;

TEST_CASE("describe_machine() agrees with other sources of the same facts") {
  const auto m = describe_machine();
  CHECK(m.cores == static_cast<int64_t>(std::thread::hardware_concurrency()));
  CHECK(m.threads >= 1);
  CHECK(m.memory_bytes > int64_t{1} << 26);
  CHECK_FALSE(m.cpu.empty());
  CHECK(m.system.find("Linux ") == 0);
  CHECK(m.compiler.find('.') != std::string::npos);
  CHECK(m.library == std::string("tinytorch ") + TINYTORCH_VERSION);
  CHECK(std::regex_match(m.date, std::regex(R"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ)")));
}

TEST_CASE("driver_text() names the driver's version and CUDA's version, as far as they are known") {
  using tinymlperf::detail::driver_text;
  const std::string closed = "NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
                    open = "NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build";
  CHECK(driver_text(closed, 12020) == "535.104.05, CUDA 12.2");
  CHECK(driver_text(open, 13000) == "580.65.06, CUDA 13.0");
  CHECK(driver_text(open, 0) == "580.65.06");
  CHECK(driver_text("", 13010) == "CUDA 13.1");
  CHECK(driver_text("no version here", 0) == "");
  if (!tinytorch::backend::cuda::is_built())
    CHECK(tinymlperf::gpu_driver().find("CUDA") == std::string::npos);
}

TEST_CASE("proc_value() returns an empty string for an unknown file or key") {
  CHECK(tinymlperf::detail::proc_value("/proc/cpuinfo", "no such key") == "");
  CHECK(tinymlperf::detail::proc_value("/proc/no_such_file", "x") == "");
  CHECK(tinymlperf::detail::proc_value("/proc/meminfo", "MemTotal").find("kB") != std::string::npos);
}
