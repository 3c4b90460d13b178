// The reports of compute-sanitizer, and the result where it is not installed. No GPU is needed.
#include <tinymlperf/judge/match/device_audits.hpp>

#include <doctest/doctest.h>

#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;
using namespace tinymlperf::judge::kernels;

namespace {

sandbox::Outcome outcome(bool good, const std::string& err = "") {
  sandbox::Outcome o;
  o.ending = sandbox::Ending::exited, o.exit_code = good ? 0 : 99;
  o.reason = good ? "" : "it ended with 99", o.err = err;
  return o;
}

}  // namespace

TEST_CASE("each tool is run around the program, and its report is the reason") {
  std::vector<std::string> tools;
  const auto audits = sanitizer_audits("/some/sanitizer", [&](const std::vector<std::string>& command) {
    CHECK(command.at(0) == "/some/sanitizer");
    tools.push_back(command.at(2));
    return outcome(command.at(2) != "racecheck", "ERROR: Race reported");
  });
  CHECK(tools == std::vector<std::string>{"memcheck", "racecheck", "initcheck", "synccheck"});
  REQUIRE(audits.size() == 4);
  for (const AuditResult& a : audits) {
    CAPTURE(a.name);
    CHECK(a.id == "C5");
    CHECK(was_made(a));
    CHECK(a.passed == (a.name != "racecheck"));
  }
  CHECK(audits[1].detail.find("Race reported") != std::string::npos);
  CHECK_THROWS_WITH_AS(require_passed(audits), doctest::Contains("audit C5, racecheck: it ended with 99"),
                       std::invalid_argument);
}

TEST_CASE("without the sanitizer its audits are not made and not passed, and nobody is out for that") {
  const auto audits = sanitizer_audits("", [](const std::vector<std::string>&) -> sandbox::Outcome {
    throw std::logic_error("nothing is to be run");
  });
  REQUIRE(audits.size() == 4);
  for (const AuditResult& a : audits) {
    CHECK_FALSE(a.passed);
    CHECK_FALSE(was_made(a));
    CHECK(a.detail == "not made: compute-sanitizer is not installed (it comes with CUDA)");
  }
  CHECK_NOTHROW(require_passed(audits));
}
