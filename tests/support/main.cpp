// main() of every test executable: doctest with additional checks. A run without any case is a failure.
// TINYTORCH_TEST_DEVICE=cuda runs the cases on the GPU, or on the emulator.
// `--source-file=*tensor/strides.cpp` runs the cases of one file; the line "[cases] N skipped" counts the
// cases of that file that cannot run here, or that were skipped on purpose. TINYTORCH_TEST_SECONDS=2 skips
// the cases that would begin later; their order is drawn by TINYTORCH_TEST_DRAW (a number).
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <support/few.hpp>
#include <support/other_work.hpp>
#include <tinytorch/core/device.hpp>

namespace {

unsigned cases_run = 0, cases_skipped = 0;
bool asked_only = false;       // --list-test-cases and the like run no case on purpose
std::string_view wanted_file;  // the PATH in --source-file=*PATH

// Time limit for the cases of a file on the emulator, in the first ring of the suite.
class Budget {
 public:
  Budget() {
    if (const char* seconds = std::getenv("TINYTORCH_TEST_SECONDS")) seconds_ = std::strtod(seconds, nullptr);
  }
  bool given() const { return seconds_ > 0; }
  // Skips all later cases: doctest evaluates m_skip only when a case is about to run.
  void spend() {
    if (!given() || std::chrono::steady_clock::now() - began_ < std::chrono::duration<double>(seconds_))
      return;
    for (const doctest::detail::TestCase& test : doctest::getRegisteredTests())
      const_cast<doctest::detail::TestCase&>(test).m_skip =
          true;  // m_skip does not affect the order of the set
  }

 private:
  double seconds_ = 0;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};
Budget budget;

struct CaseCounter : doctest::IReporter {
  explicit CaseCounter(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override { asked_only = true; }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    cases_run = stats.numTestCasesPassingFilters;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override { budget.spend(); }
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  // doctest calls this also for cases of files that were not selected.
  void test_case_skipped(const doctest::TestCaseData& data) override {
    cases_skipped += data.m_skip && std::string_view(data.m_file.c_str()).ends_with(wanted_file);
  }
};
REGISTER_LISTENER("case_counter", 1, CaseCounter);

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--child")
    return 99;  // no test of this program has that attack (hostile.hpp)
  for (const test::OtherWork work : test::other_works())
    if (const auto status = work(argc, argv)) return *status;
  const std::string_view student = TINYTORCH_STUDENT_HEADERS;
  if (!student.empty()) std::cout << "student headers in this build: " << student << std::endl;

  // New tensors are created there, so the tests of operations and layers run unchanged for each backend.
  const char* device = std::getenv("TINYTORCH_TEST_DEVICE");
  if (device && std::string_view(device) == "cuda") tinytorch::set_default_device(tinytorch::cuda);

  constexpr std::string_view kOneFile = "--source-file=*";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kOneFile)) wanted_file = argument.substr(kOneFile.size());
  }
  doctest::Context context(argc, argv);
  if (budget.given()) {
    context.setOption("order-by", "rand");
    context.setOption("rand-seed", static_cast<int>(test::drawn_number(0)));
  }
  const int result = context.run();
  if (!asked_only) std::cout << "[cases] " << cases_skipped << " skipped" << std::endl;
  if (result == 0 && cases_run + cases_skipped == 0 && !asked_only && !context.shouldExit()) {
    std::cerr << "no test case was run\n";
    return 1;
  }
  return result;
}
