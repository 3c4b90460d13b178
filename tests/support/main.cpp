// main() of every test executable: doctest, plus what doctest lets pass. A run without a single case is a
// failure. TINYTORCH_TEST_DEVICE=cuda runs the cases on the GPU, or on the emulator.
// `--source-file=*tensor/strides.cpp` runs the cases of one file; the line "[cases] N skipped" counts those
// of that file that cannot run here, or that were left out. TINYTORCH_TEST_SECONDS=2 leaves out what would
// begin later, in an order that TINYTORCH_TEST_DRAW (a number) draws.
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
bool asked_only = false;       // --list-test-cases and the like run nothing on purpose
std::string_view wanted_file;  // the end of the path in --source-file=*PATH

// The time that the first ring of the suite gives to the cases of a file on the emulator.
class Budget {
 public:
  Budget() {
    if (const char* seconds = std::getenv("TINYTORCH_TEST_SECONDS")) seconds_ = std::strtod(seconds, nullptr);
  }
  bool given() const { return seconds_ > 0; }
  // Afterwards no case begins: doctest looks whether a case is to be skipped when its turn comes.
  void spend() {
    if (!given() || std::chrono::steady_clock::now() - began_ < std::chrono::duration<double>(seconds_))
      return;
    for (const doctest::detail::TestCase& test : doctest::getRegisteredTests())
      const_cast<doctest::detail::TestCase&>(test).m_skip = true;  // no part of what orders the set
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
  // Also called for the cases of files that were not asked for.
  void test_case_skipped(const doctest::TestCaseData& data) override {
    cases_skipped += data.m_skip && std::string_view(data.m_file.c_str()).ends_with(wanted_file);
  }
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
    std::cerr << "no test case was run: nothing is proved\n";
    return 1;
  }
  return result;
}
