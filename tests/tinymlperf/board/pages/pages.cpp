// Every page of the leaderboard with ordinary and with hostile data, read by a strict HTML reader.
#include <doctest/doctest.h>

#include <tinymlperf/board/pages/assets.hpp>
#include <tinymlperf/board/pages/error.hpp>
#include <tinymlperf/board/pages/front.hpp>
#include <tinymlperf/board/pages/history.hpp>
#include <tinymlperf/board/pages/job.hpp>
#include <tinymlperf/board/pages/pareto.hpp>
#include <tinymlperf/board/pages/queue.hpp>
#include <tinymlperf/board/pages/submission.hpp>
#include <tinymlperf/board/pages/table.hpp>
#include <tinymlperf/board/pages/upload.hpp>

#include <tinymlperf/board/html_checker.hpp>
#include <tinymlperf/board/memory_board.hpp>

using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

namespace {

// Every page there is, by a name for messages.
std::vector<std::pair<std::string, std::string>> every_page(MemoryBoard& board, const Site& site) {
  std::vector<std::pair<std::string, std::string>> out;
  out.emplace_back("front", front_page(site, board.front()));
  for (const TableKey& key : board.keys()) {
    const Table table = *board.table(key);
    out.emplace_back("table", table_page(site, table, *slice_of(table.rows.size(), 1, kRowsPerPage)));
    if (!table.kernels) out.emplace_back("pareto", pareto_page(site, table));
    out.emplace_back("history", history_page(site, table, board.history(key)));
  }
  for (const int64_t id : board.submission_ids())
    out.emplace_back("submission", submission_page(site, *board.submission(id)));
  const auto jobs = board.queue();
  out.emplace_back("queue", queue_page(site, jobs, *slice_of(jobs.size(), 1, kRowsPerPage)));
  for (const Job& j : jobs) out.emplace_back("job", job_page(site, j));
  if (!site.exported) out.emplace_back("upload", upload_page(site, 16 << 20));
  for (const std::string& s : hostile_texts()) out.emplace_back("error", error_page(site, 404, s));
  out.emplace_back("empty front", front_page(site, {}));
  out.emplace_back("empty queue", queue_page(site, {}, {}));
  return out;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& l : lines) out += l + "\n";
  return out;
}

// Relative luminance and contrast of two colours, as WCAG 2 defines them.
double contrast(const std::string& a, const std::string& b) {
  const auto luminance = [](const std::string& hex) {
    double sum = 0;
    const double weights[] = {0.2126, 0.7152, 0.0722};
    for (size_t i = 0; i < 3; ++i) {
      const double c = std::stoi(hex.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
      sum += weights[i] * (c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
  };
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

}  // namespace

TEST_CASE("the reader of HTML finds what is wrong") {
  const std::string good = page({}, Here::front, "t", "<h1>t</h1>\n<p>x</p>\n");
  CHECK(HtmlChecker(good).complaints.empty());
  const auto with = [&](const std::string& body) {
    return HtmlChecker(page({}, Here::front, "t", "<h1>t</h1>\n" + body)).complaints.size();
  };
  CHECK(with("<p>") > 0);
  CHECK(with("<b></i></b>") > 0);
  CHECK(with("a & b") > 0);
  CHECK(with("a > b") > 0);
  CHECK(with("<p id=\"a\"></p><p id=\"a\"></p>") > 0);
  CHECK(with("<p><div></div></p>") > 0);
  CHECK(with("<p style=\"x\"></p>") > 0);
  CHECK(with("<p onclick=\"x\"></p>") > 0);
  CHECK(with("<p class=x></p>") > 0);
  CHECK(with("<script>1</script>") > 0);
  CHECK(with("<style></style>") > 0);
  CHECK(with("<a href=\"https://example.org\">x</a>") > 0);
  CHECK(with("<a href=\"javascript:x\">x</a>") > 0);
  CHECK(with("<a href=\"#nowhere\">x</a>") > 0);
  CHECK(with("<h3>x</h3>") > 0);
  CHECK(with("<h1>x</h1>") > 0);
  CHECK(with("<label for=\"x\">x</label>") > 0);
  CHECK(with("<input id=\"x\"/>") > 0);
  CHECK(with("<table><thead></thead></table>") > 0);
  CHECK(with("<p>\xff</p>") > 0);
  CHECK(with("<p>\x01</p>") > 0);
}

TEST_CASE("every page is well formed, with honest and with hostile data, behind a server and as a file") {
  for (const bool hostile : {false, true}) {
    MemoryBoard board(hostile);
    for (const bool exported : {false, true}) {
      const auto pages = every_page(board, {exported});
      CHECK(pages.size() > 40);
      for (const auto& named : pages) {
        CAPTURE(named.first);
        const HtmlChecker checked(named.second);
        CHECK_MESSAGE(checked.complaints.empty(), joined(checked.complaints));
        CHECK(checked.all("script").size() == (exported ? 0 : 1));
        CHECK(checked.all("img").empty());
        if (exported) CHECK(checked.all("form").empty());
      }
    }
  }
}

TEST_CASE("text of strangers: control characters and broken UTF-8 become U+FFFD, the rest stays") {
  using namespace std::string_literals;
  CHECK(clean("naïve µ 数 😀") == "naïve µ 数 😀");
  CHECK(clean("a\0b\x1b\x7f"s) ==
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(clean("\xC2\x85") == kReplacement);                // a control character of two bytes
  CHECK(clean("\xC0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD");  // too long a form of NUL
  CHECK(clean("\xED\xA0\x80").size() == 9);                // half a surrogate pair
  CHECK(clean("\xF4\x90\x80\x80").size() == 12);           // beyond U+10FFFF
  CHECK(clean("\xE2\x82") == "\xEF\xBF\xBD\xEF\xBF\xBD");  // cut short
  CHECK(clean("äbcdef", 3) == "äbc…");
  CHECK(text("<a href='x'>") == "&lt;a href=&#39;x&#39;&gt;");
  CHECK(name("\xE2\x80\xAE"
             "abc") ==
        "<bdi>\xEF\xBF\xBD"
        "abc</bdi>");
  CHECK(code("if \xE2\x80\xAE x \xE2\x81\xA6<") == "if <mark>U+202E</mark> x <mark>U+2066</mark>&lt;");
  CHECK(code("\xE2\x80\x8B\xF3\xA0\x80\x81\x1b\xff\t数\n") ==
        "<mark>U+200B</mark><mark>U+E0001</mark>\xEF\xBF\xBD\xEF\xBF\xBD\t数\n");
  CHECK(percent_encode("gpu(A b)/ü") == "gpu%28A%20b%29%2F%C3%BC");
}

TEST_CASE("the front page shows leaders, first rows and what runs") {
  MemoryBoard board;
  const std::string html = front_page({}, board.front());
  for (const char* word :
       {"all-round", "fastest generation", "1.62 times the baseline", "38.2 us", "lenet-int8-fused",
        "nobody yet", "block 5 of 12", "/tables/dig/closed/cpu-1t",
        "/tables/kws/closed/gpu%28NVIDIA%20H200%29", "value=\"0.420\"", "No submission yet."})
    CHECK_MESSAGE(html.find(word) != std::string::npos, word);
  CHECK(html.find("first try") == std::string::npos);  // the ninth row is on the table's own page
}

TEST_CASE(
    "a table of plugins has an address, a title and a mark of its own, and its submissions reasons to look") {
  MemoryBoard board;
  const TableKey data{"dig", "open", "cpu-mt"}, plugins{"dig", "open", "cpu-mt", "T2"};
  CHECK(Site{}.table(data) == "/tables/dig/open/cpu-mt");
  CHECK(Site{}.table(plugins, "history") == "/tables/dig/open/cpu-mt/T2/history");
  CHECK(Site{.exported = true}.table(plugins) != Site{.exported = true}.table(data));
  const Table table = *board.table(plugins);
  const std::string html = table_page({}, table, {1, 1, 0, table.rows.size()});
  CHECK(html.find("tier <bdi>T2</bdi>") != std::string::npos);
  CHECK(html.find("host plugin") != std::string::npos);
  const std::string usual = table_page({}, *board.table(data), {1, 1, 0, 0});
  CHECK(usual.find("tier") == std::string::npos);
  Submission s = *board.submission(table.rows[0].submission);
  CHECK(s.tier == "T2");
  CHECK(submission_page({}, s).find("None were found.") != std::string::npos);
  s.reasons = {"plugin.cpp:3: reads a clock"};
  CHECK(submission_page({}, s).find("<li>plugin.cpp:3: reads a clock</li>") != std::string::npos);
  s.tier = "T0";
  CHECK(submission_page({}, s).find("reads a clock") == std::string::npos);
}

TEST_CASE("a table: shared ranks have a mark and one tint, and who is not ranked is told why") {
  MemoryBoard board;
  const Table table = *board.table({"dig", "closed", "cpu-1t"});
  const auto bands = rank_bands(table.rows);
  CHECK(std::string(bands[0]) == bands[1]);
  CHECK(std::string(bands[1]) != bands[2]);
  CHECK(std::string(bands[2]) != bands[3]);
  CHECK(std::string(bands[3]) == bands[5]);
  CHECK(std::string(bands[8]) == "unranked");
  CHECK(show_rank(table.rows[0], table.rows).find('=') != std::string::npos);
  CHECK(show_rank(table.rows[2], table.rows) == "3");
  const HtmlChecker checked(table_page({}, table, *slice_of(9, 1, 50)));
  size_t rows = 0, intervals = 0, sortable = 0;
  for (const Element& e : checked.elements) {
    rows += e.name == "tr" && e.inside.back() == "tbody";
    intervals += e.name == "svg" && e.get("class") == "interval";
    sortable += e.has("data-sort");
  }
  CHECK(rows == 9);
  CHECK(intervals == 9);
  CHECK(sortable >= 8);
  const std::string html = table_page({}, table, *slice_of(9, 1, 50));
  for (const char* word : {"Not ranked: the judge has not run it yet", "38.2 us", "audited", "self-reported",
                           "61\u202F042", "aria-sort=\"ascending\"", "1.88×"})
    CHECK_MESSAGE(html.find(word) != std::string::npos, word);
}

TEST_CASE("pages of a long table: 1 to the last, and no other") {
  CHECK_FALSE(slice_of(9, 0, 50));
  CHECK_FALSE(slice_of(9, 2, 50));
  CHECK(slice_of(0, 1, 50)->count == 0);
  CHECK(slice_of(101, 3, 50)->first == 100);
  CHECK(slice_of(101, 3, 50)->count == 1);
  CHECK(slice_links("/queue", *slice_of(101, 1, 50)).find("rel=\"prev\"") == std::string::npos);
  const std::string middle = slice_links("/queue", *slice_of(101, 2, 50));
  CHECK(middle.find("/queue?page=1") != std::string::npos);
  CHECK(middle.find("/queue?page=3") != std::string::npos);
}

TEST_CASE("numbers: groups of three digits, units, what is no number") {
  CHECK(show_number(0.012345) == "0.01235");
  CHECK(show_number(9999) == "9999");
  CHECK(show_number(1234567) == "1\u202F234\u202F567");
  CHECK(show_number(-123456) == "-123\u202F456");
  CHECK(show_number(-12345.6) == "-12\u202F346");
  CHECK(show_number(1e15) == "1e+15");
  CHECK(show_number(std::nan("")) == "not a number");
  CHECK(show_value(0.0125, "p90 latency (s)") == "12.50 ms");
  CHECK(show_value(0.0125, "share") == "0.0125");
  CHECK(unit_of("throughput (samples/s)") == "samples/s");
  CHECK(unit_of(")(").empty());
  CHECK(axis_unit({7e-5, 4e-5}, "p90 latency (s)").title == "p90 latency (us)");
  CHECK(axis_unit({0.02}, "p90 latency (s)").factor == 1000);
  CHECK(axis_unit({2.0}, "p90 latency (s)").factor == 1);
  CHECK(axis_unit({0.02}, "throughput (samples/s)").title == "throughput (samples/s)");
  CHECK(axis_unit({}, "p90 latency (s)").factor == 1);
  CHECK(show_quality({0.98765, 0.97, 0.99}, "accuracy").starts_with("<b>98.77 %</b>"));
}

TEST_CASE("a score's interval stands on one scale for all rows") {
  const auto row = [](double estimate, double low, double high) {
    Row r;
    r.score = Interval{estimate, low, high};
    return r;
  };
  const ScoreScale scale({row(50, 40, 60), row(200, 180, 220)});
  const auto x_of = [&](const Interval& i) {
    const std::string s = scale.draw(i);
    return std::stod(s.substr(s.find("cx=\"") + 4));
  };
  CHECK(x_of({50, 40, 60}) < x_of({100, 90, 110}));
  CHECK(x_of({100, 90, 110}) < x_of({200, 180, 220}));
  CHECK(x_of({200, 180, 220}) < 120);
  CHECK(scale.draw({std::nan(""), 1, 2}).empty());
  CHECK(scale.draw({0, -1, 2}).empty());
  CHECK(ScoreScale({}).draw({100, 100, 100}).find("nan") == std::string::npos);
}

TEST_CASE("a submission's page holds turns, audits, files, difference and the form") {
  MemoryBoard board;
  const std::string html = submission_page({}, *board.submission(1));
  const HtmlChecker checked(html);
  size_t lines = 0;
  for (const Element& e : checked.elements) lines += e.name == "polyline";
  CHECK(lines == 2);
  for (const char* word : {"Turn by turn", "same sample", "&quot;schema&quot;: 1",
                           "<span class=\"added\">+  &quot;conv int8&quot;", "action=\"/head-to-head\"",
                           "9f86d081884c7d65", "18364758544493064720", "landlock"})
    CHECK_MESSAGE(html.find(word) != std::string::npos, word);
  Submission large = *board.submission(1);
  large.files[0].text = std::string(10'000'000, '<'), large.difference = std::string(10'000'000, '+');
  const std::string page_of_large = submission_page({}, large);
  CHECK(page_of_large.size() < 1'000'000);
  CHECK(page_of_large.find("The first 64.0 KiB of 9.5 MiB; the bundle has the rest.") != std::string::npos);
  CHECK(html.find("the bundle has the rest") == std::string::npos);
  CHECK(HtmlChecker(page_of_large).complaints.empty());
  Submission bare;
  CHECK(HtmlChecker(submission_page({}, bare)).complaints.empty());
  Submission compiled = *board.submission(1);
  compiled.compiled = true;
  const std::string page_of_compiled = submission_page({}, compiled);
  CHECK(page_of_compiled.find("Forward pass") != std::string::npos);
  CHECK(HtmlChecker(page_of_compiled).complaints.empty());
  CHECK(html.find("Forward pass") == std::string::npos);
}

TEST_CASE("a generation says its time to the first token beside the time of each; nothing else does") {
  MemoryBoard board;
  const std::string html = submission_page({}, *board.submission(51));
  for (const char* word :
       {"Time to first token", "3.10 ms", "baseline 4.40 ms", "Time per token", "129.6 us"})
    CHECK_MESSAGE(html.find(word) != std::string::npos, word);
  CHECK(submission_page({}, *board.submission(1)).find("Time to first token") == std::string::npos);
}

TEST_CASE("the made-up board has the categories of a board, with leaders that follow from its tables") {
  MemoryBoard board;
  const FrontPage front = board.front();
  std::vector<std::string> titles, rules;
  for (const Category& c : front.categories)
    if (titles.empty() || titles.back() != c.title) titles.push_back(c.title);
  for (const auto& rule : tinymlperf::board::detail::category_rules()) rules.emplace_back(rule.title);
  CHECK(titles == rules);
  for (const Category& c : front.categories)
    if (c.title == "smallest memory" && c.key.benchmark == "dig") CHECK(c.leader->name == "depthwise 8-bit");
}

TEST_CASE("a job's page is live while it runs, and without script it loads itself again") {
  MemoryBoard board;
  const std::string running = job_page({}, *board.job(2)), done = job_page({}, *board.job(1));
  CHECK(running.find("data-events=\"/jobs/2/events\"") != std::string::npos);
  CHECK(running.find("<noscript><meta http-equiv=\"refresh\"") != std::string::npos);
  CHECK(done.find("data-events") == std::string::npos);
  CHECK(done.find("http-equiv") == std::string::npos);
  CHECK(job_page({true}, *board.job(2)).find("data-events") == std::string::npos);
}

TEST_CASE("a refused run has a form for an appeal, or the appeal and its answer") {
  MemoryBoard board;
  const std::string open = submission_page({}, *board.submission(9)),
                    said = submission_page({}, *board.submission(8));
  CHECK(open.find("action=\"/appeal\"") != std::string::npos);
  CHECK(open.find("name=\"run\" value=\"9\"") != std::string::npos);
  CHECK(submission_page({true}, *board.submission(9)).find("/appeal") == std::string::npos);
  CHECK(submission_page({}, *board.submission(1)).find("/appeal") == std::string::npos);
  CHECK(said.find("action=\"/appeal\"") == std::string::npos);
  CHECK(said.find("My plugin sums in another order.\nThat is allowed.") != std::string::npos);
  CHECK(said.find("The rules say the same answer.") != std::string::npos);
  board.appeal(1, 9, 9, "<b>why</b>");
  const std::string waiting = submission_page({}, *board.submission(9));
  CHECK(waiting.find("&lt;b&gt;why&lt;/b&gt;") != std::string::npos);
  CHECK(waiting.find("It has no answer yet.") != std::string::npos);
}

TEST_CASE("the page shows how similar a submission is to an earlier one, and that this is no verdict") {
  MemoryBoard board;
  const std::string html = submission_page({}, *board.submission(3));
  CHECK(html.find("92 % of its 300 shingles are in <a href=\"/submissions/1\">submission 1</a>, "
                  "<bdi>lenet-int8-fused</bdi>, of <bdi>Grace H.</bdi>, which came first.") !=
        std::string::npos);
  CHECK(html.find("a count and no verdict") != std::string::npos);
  CHECK(submission_page({}, *board.submission(1)).find("Similarity") == std::string::npos);
}

TEST_CASE("a submission's page follows its jobs that have not ended, and says so without script") {
  MemoryBoard board;
  const std::string running = submission_page({}, *board.submission(3)),
                    done = submission_page({}, *board.submission(1));
  CHECK(running.find("<tr data-events=\"/jobs/2/events\">") != std::string::npos);
  CHECK(running.find("value=\"0.420\"") != std::string::npos);
  CHECK(running.find("block 5 of 12") != std::string::npos);
  CHECK(running.find("<noscript><p>The table says what was so") != std::string::npos);
  CHECK(running.find("http-equiv") == std::string::npos);  // nobody loses what they write
  CHECK(done.find("<tr data-events") == std::string::npos);
  CHECK(done.find("<noscript>") == std::string::npos);
  CHECK(submission_page({true}, *board.submission(3)).find("data-events") == std::string::npos);
}

TEST_CASE("colours: text has a contrast of at least 4.5 on its ground, light and dark") {
  const std::string all = kColours;
  const size_t dark = all.find("@media");
  REQUIRE(dark != std::string::npos);
  for (const std::string& part : {all.substr(0, dark), all.substr(dark)}) {
    const auto colour = [&](const std::string& name) {
      const size_t at = part.find("--" + name + ":#");
      REQUIRE_MESSAGE(at != std::string::npos, name);
      return part.substr(at + name.size() + 3, 7);
    };
    const std::pair<const char*, const char*> pairs[] = {
        {"ink", "ground"},      {"ink", "raised"},       {"ink", "tint"},           {"soft", "ground"},
        {"soft", "raised"},     {"soft", "tint"},        {"accent", "ground"},      {"accent", "raised"},
        {"accent", "tint"},     {"gold", "gold-ground"}, {"green", "green-ground"}, {"red", "red-ground"},
        {"ink", "blue-ground"}, {"ink", "grey-ground"},  {"on-button", "button"}};
    for (const auto& pair : pairs) {
      CAPTURE(pair.first);
      CAPTURE(pair.second);
      CHECK(contrast(colour(pair.first), colour(pair.second)) >= 4.5);
    }
  }
}

TEST_CASE("style and script load nothing and hold no markup") {
  const std::string style = style_sheet(), script = kScript;
  CHECK(style.find("url(") == std::string::npos);
  CHECK(style.find("@import") == std::string::npos);
  CHECK(std::count(style.begin(), style.end(), '{') == std::count(style.begin(), style.end(), '}'));
  CHECK(style.find("prefers-reduced-motion") != std::string::npos);
  for (const char* word : {"innerHTML", "eval(", "document.write", "insertAdjacentHTML", "http:", "https:"})
    CHECK_MESSAGE(script.find(word) == std::string::npos, word);
}

TEST_CASE("a category without data leads nowhere") {
  FrontPage front;
  front.categories.push_back({"Fastest trainer", "nobody trains yet", {}, {}, ""});
  const std::string page = front_page(Site{}, front);
  CHECK(page.find("nobody yet") != std::string::npos);
  CHECK(page.find("href=\"/tables") == std::string::npos);
  CHECK(page.find("table-") == std::string::npos);
}

TEST_CASE("a table of kernels has columns of its own, and a submission's match is shown op by op") {
  MemoryBoard board;
  const Table table = *board.table({"krn", "kernel", "cpu-mt", "T2"});
  const std::string page = table_page({}, table, *slice_of(table.rows.size(), 1, kRowsPerPage));
  for (const char* shown :
       {"Ops right", "1 of 2", "25 %", "8.6 MiB", "131.2", "/tables/krn/kernel/cpu-mt/T2/history"})
    CHECK_MESSAGE(page.find(shown) != std::string::npos, shown);
  for (const char* absent : {"pareto", "Least", "Model</th>"})
    CHECK_MESSAGE(page.find(absent) == std::string::npos, absent);
  const std::string own = submission_page({}, *board.submission(table.rows[0].submission));
  for (const char* shown : {"Op by op", "found nan", "badge red\">wrong",
                            "href=\"/tables/krn/kernel/cpu-mt/T2\"", "Right answers"})
    CHECK_MESSAGE(own.find(shown) != std::string::npos, shown);
  CHECK(own.find("Turn by turn") == std::string::npos);
}

TEST_CASE("what an op says of itself is text, whatever it holds") {
  MemoryBoard board(true);
  size_t escaped = 0;
  for (const int64_t id : board.submission_ids()) {
    const std::string page = submission_page({}, *board.submission(id));
    CHECK(page.find("<script>alert") == std::string::npos);
    escaped += page.find("<td class=\"words\">&lt;script&gt;alert(1)") != std::string::npos &&
               page.find("ops-0") != std::string::npos;
  }
  CHECK(escaped == 1);
}
