#include <doctest/doctest.h>

#include <regex>
#include <tinymlperf/machine.hpp>

using tinymlperf::describe_machine;

TEST_CASE("the description agrees with what the system says elsewhere") {
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

TEST_CASE("a value that /proc does not have is empty") {
  CHECK(tinymlperf::detail::proc_value("/proc/cpuinfo", "no such key") == "");
  CHECK(tinymlperf::detail::proc_value("/proc/no_such_file", "x") == "");
  CHECK(tinymlperf::detail::proc_value("/proc/meminfo", "MemTotal").find("kB") != std::string::npos);
}
