// A report shows the contents of the profile with units, and escapes all names.
#include <doctest/doctest.h>

#include <tinytorch/profiling/report.hpp>

namespace tt = tinytorch;
using namespace tinytorch::profiling;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Report small() {
  Report r;
  r.title = "A step of <net>";
  r.steps = 2;
  r.conditions = {"12 parameters."};
  r.peaks = {100e9, 20e9, 1e-6, "this machine"};
  r.profile.scopes = {{"", -1, 0, 0.1}, {"hidden", 0, 0, 0.05}};
  OpRecord op;
  op.name = "linear";
  op.scope = 1;
  op.seconds = op.device_seconds = 0.04;
  op.cost = {2e9, 1e8};
  r.profile.ops = {op, op};
  op.name = "relu & co";
  op.scope = 0;
  op.backward = true;
  op.seconds = op.device_seconds = 0.01;
  op.cost = {1e6, 1e8};
  r.profile.ops.push_back(op);
  r.profile.seconds = 0.1;
  r.memory = {1 << 20,
              2 << 20,
              5 << 20,
              0.01,
              {{"hidden linear", 4 << 20}, {"in use before", 1 << 20}},
              {{0, 1 << 20}, {0.01, 5 << 20}, {0.02, 2 << 20}}};
  r.launches = {{"softmax<float>", 8, 256, 40, 2048}, {"cublasLtMatmul", 4, 0, 0, 0}};
  r.device_major = 9;
  return r;
}

}  // namespace

TEST_CASE("text_report has the summary, and tables of ops, modules, memory and launches") {
  const std::string text = text_report(small());
  for (const char* part :
       {"A step of <net>", "A step: 50.00 ms, of which ops 45.00 ms (90.0 %)", "12 parameters.",
        "100 GFLOP/s, 20 GB/s", "ridge at 5.0", "5.0 MiB at the peak", "Kernel launches: 6 a step", "by op",
        "by module", "hidden", "(outside)", "compute", "memory", "hidden linear", "80.0 %", "softmax<float>"})
    CHECK_MESSAGE(holds(text, part), part);
  // linear: 4 GFLOP in 80 ms, half of the peak, 80 % of the time.
  CHECK(holds(text, "50.0"));
  CHECK(holds(text, "80.0 %"));
  CHECK(holds(text, "50 %"));
}

TEST_CASE("occupancy is shown for kernels with known registers only") {
  const std::string text = text_report(small());
  const size_t at = text.find("softmax<float>"), end = text.find('\n', at);
  const std::string line = text.substr(at, end - at);
  CHECK(holds(line, "threads") == false);
  CHECK(holds(line, "registers"));  // 40 registers: 6 blocks of 8 warps
  CHECK(holds(line, "75 %"));
  const size_t other = text.find("cublasLtMatmul");
  CHECK_FALSE(holds(text.substr(other, text.find('\n', other) - other), "%"));
}

TEST_CASE("html_report is complete, escaped and self-contained") {
  const std::string page = html_report(small());
  CHECK(holds(page, "A step of &lt;net&gt;"));
  CHECK_FALSE(holds(page, "<net>"));
  CHECK(holds(page, "relu &amp; co"));
  CHECK(holds(page, "Roofline: ops"));
  CHECK(holds(page, "Memory over time"));
  for (const char* loads : {"src=", "href=", "url(", "@import", "<script", "<link", "<img"})
    CHECK_FALSE(holds(page, loads));
  CHECK(page.ends_with("</html>\n"));
}

TEST_CASE("the possible speedup by a faster op is in both reports") {
  const std::string text = text_report(small());
  REQUIRE(holds(text, "possible speedup by a faster op"));
  const std::string table = text.substr(text.find("possible speedup by a faster op"));
  // linear: 80 % of the time; 1 / (0.2 + 0.4) and 1 / 0.2. relu: 10 %.
  const std::string linear = table.substr(table.find("linear"), table.find("relu") - table.find("linear"));
  for (const char* part : {"80.0 %", "1.67 times", "5.00 times"}) CHECK_MESSAGE(holds(linear, part), linear);
  CHECK(holds(table, "1.05 times"));
  CHECK(holds(table, "1.11 times"));
  CHECK(holds(html_report(small()), "5.00 times"));
}

TEST_CASE("a change since a previous profile and an ablation are in both reports") {
  Report r = small();
  Profile before = mean_step(r.profile, r.steps), after = before;
  for (OpRecord& op : after.ops)
    if (op.name == "linear") op.seconds = op.device_seconds = op.device_seconds / 2;
  after.seconds -= 0.02;
  r.change = compare_profiles(before, after);
  r.ablation = Ablation{{{"none", {0.05, 0.04, 0.06}, {1, 1, 1}, {}},
                         {"2 threads", {0.03, 0.02, 0.04}, {1.66, 1.5, 1.8}, {}},
                         {"bf16", {0.04, 0.03, 0.05}, {1.25, 1.1, 1.4}, {}},
                         {"all", {0.02, 0.01, 0.03}, {2.5, 2, 3}, {}}},
                        2.08};
  for (const std::string& text : {text_report(r), html_report(r)}) {
    CHECK(
        holds(text, "Change of linear: 2.00 times as fast, 80.0 % of the time before; predicted 1.67 times"));
    CHECK(holds(text, "measured 1.67; the rest changed by"));
    CHECK(holds(text, "change since the previous profile"));
    CHECK(holds(text, "-20000.0 us"));
    CHECK(holds(text, "2 threads"));
    CHECK(holds(text, "1.66"));
    CHECK(holds(text, "the product of each alone"));
    CHECK(holds(text, "2.08"));
  }
}

TEST_CASE("parts that were not measured are omitted") {
  Report r = small();
  r.memory = {};
  r.launches.clear();
  const std::string text = text_report(r), page = html_report(r);
  CHECK_FALSE(holds(text, "memory at the peak"));
  CHECK_FALSE(holds(text, "launches"));
  CHECK_FALSE(holds(text, "change since the previous profile"));
  CHECK_FALSE(holds(text, "ablation"));
  CHECK_FALSE(holds(page, "Memory over time"));
}
