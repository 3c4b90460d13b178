// main() of every test executable: doctest, plus what doctest lets pass. A run without a single case is a
// failure. TINYTORCH_TEST_DEVICE=cuda runs the cases on the GPU, or on the emulator.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <support/other_work.hpp>
#include <tinytorch/core/device.hpp>

namespace {

unsigned cases_run = 0, cases_skipped = 0;
bool asked_only = false;  // --list-test-cases and the like run nothing on purpose

struct CaseCounter : doctest::IReporter {
  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override { asked_only = true; }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& data) override { cases_skipped += data.m_skip; }
};
REGISTER_LISTENER("case_counter", 1, CaseCounter);

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--child")
    return 99;  // no test of this program knows it (hostile.hpp)
  for (const test::OtherWork work : test::other_works())
    if (const auto status = work(argc, argv)) return *status;
  const std::string_view student = TINYTORCH_STUDENT_HEADERS;
  if (!student.empty()) std::cout << "student headers in this build: " << student << std::endl;

  // New tensors live there, so the tests of ops and layers are run by each backend unchanged.
  const char* device = std::getenv("TINYTORCH_TEST_DEVICE");
  if (device && std::string_view(device) == "cuda") tinytorch::set_default_device(tinytorch::cuda);

  doctest::Context context(argc, argv);
  const int result = context.run();
  if (result == 0 && cases_run + cases_skipped == 0 && !asked_only && !context.shouldExit()) {
    std::cerr << "no test case was run: nothing is proved\n";
    return 1;
  }
  return result;
}
