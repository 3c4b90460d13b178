// main() of every check. It writes the result of each test as a line of JSON to the file named by TT_RESULTS,
// and in the last line the number in TT_NONCE; other output of the program is no verdict. The start of each
// test is written too, so that after a crash or a timeout the running test is known.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <support/check.hpp>
#include <thread>
#include <tinytorch/core/error.hpp>

namespace {

std::FILE* results = nullptr;
std::string message;  // message of the first failed check of the running test
bool failed = false;
int tests_run = 0;

std::string json_of(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {  // each byte as a Latin-1 character, which is always valid JSON
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

struct Results : doctest::IReporter {
  const char* name = "";
  explicit Results(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData& test) override {
    name = test.m_name;
    message.clear();
    failed = false;
    std::fprintf(results, "{\"begins\": %s}\n", json_of(name).c_str());
    std::fflush(results);
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    failed = failed || stats.failure_flags != 0;
    ++tests_run;
    std::fprintf(results,
                 "{\"test\": %s, \"passed\": %s, \"checks\": %d, \"seconds\": %.4f, \"message\": %s}\n",
                 json_of(name).c_str(), failed ? "false" : "true", stats.numAssertsCurrentTest, stats.seconds,
                 json_of(message).c_str());
    std::fflush(results);
  }
  void test_case_exception(const doctest::TestCaseException& e) override {
    failed = true;
    if (message.empty()) message = e.error_string.c_str();
  }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData& a) override {
    if (!a.m_failed || !message.empty()) return;
    message = std::string(a.m_expr) + "\n  which is  " + a.m_decomp.c_str();
    if (a.m_threw) message += std::string("\n  it threw  ") + a.m_exception.c_str();
  }
  void log_message(const doctest::MessageData& m) override {
    if (message.empty() && m.m_severity != doctest::assertType::is_warn) message = m.m_string.c_str();
  }
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("results", 1, Results);

// Stops the program when it uses more memory than TT_MEMORY GiB, before it takes the memory of other
// programs. A limit on addresses would stop tests that only reserve them.
void watch_memory() {
  const char* limit = std::getenv("TT_MEMORY");
  const int pages = limit ? open("/proc/self/statm", O_RDONLY) : -1;
  if (pages < 0) return;
  const double most = std::atof(limit) * (1 << 30) / static_cast<double>(sysconf(_SC_PAGESIZE));
  std::thread([pages, most] {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      char text[128] = {};  // the pages of addresses, and then the pages in memory
      if (pread(pages, text, sizeof text - 1, 0) <= 0) return;
      char* second = nullptr;
      std::strtoull(text, &second, 10);
      if (static_cast<double>(std::strtoull(second, nullptr, 10)) > most) kill(getpid(), SIGKILL);
    }
  }).detach();
}

}  // namespace

REGISTER_EXCEPTION_TRANSLATOR(const tinytorch::Error& e) { return doctest::String(e.what()); }

int main(int argc, char** argv) {
  watch_memory();
  const char* path = std::getenv("TT_RESULTS");
  const char* given = std::getenv("TT_NONCE");
  const std::string nonce = given ? given : "";
  unsetenv("TT_NONCE");
  results = path ? std::fopen(path, "w") : stdout;
  unsetenv("TT_RESULTS");
  if (!results) {
    std::fprintf(stderr, "cannot write %s\n", path);
    return 2;
  }
  doctest::Context context(argc, argv);
  context.setOption("no-breaks", true);
  const int code = context.run();
  std::fprintf(results, "{\"done\": %s, \"tests\": %d, \"seed\": %llu}\n", json_of(nonce).c_str(), tests_run,
               static_cast<unsigned long long>(course::seed()));
  std::fclose(results);
  return code == 0 && tests_run > 0 ? 0 : 1;
}
