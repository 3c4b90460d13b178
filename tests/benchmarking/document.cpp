// Units, tables and pages are compared character by character.
#include <doctest/doctest.h>

#include <tinytorch/benchmarking/document.hpp>

using namespace tinytorch::document;

TEST_CASE("show_bytes and show_seconds choose units") {
  CHECK(show_bytes(int64_t{0}) == "0 B");
  CHECK(show_bytes(int64_t{1023}) == "1023 B");
  CHECK(show_bytes(int64_t{1536}) == "1.5 KiB");
  CHECK(show_bytes(int64_t{1} << 20) == "1.0 MiB");
  CHECK(show_bytes(1.5e9) == "1.4 GiB");
  CHECK(show_bytes(-2048.0) == "-2.0 KiB");
  CHECK(show_seconds(2.5e-7) == "0.2 us");
  CHECK(show_seconds(0.0015) == "1.50 ms");
  CHECK(show_seconds(12.345) == "12.35 s");
}

TEST_CASE("columns of a table are aligned, also with multi-byte characters") {
  const Rows rows{{"name", "µs"}, {"a", "10"}, {"größer", "7"}};
  CHECK(text_table(rows) ==
        "name    µs\n"
        "------  --\n"
        "a       10\n"
        "größer   7\n");
  CHECK(text_table({{"rank", "entry"}, {"1", "lenet"}}, 1) ==
        "rank  entry\n"
        "----  -----\n"
        "   1  lenet\n");
}

TEST_CASE("an HTML page escapes every text, loads nothing and runs no script") {
  CHECK(html_table({{"<th>"}, {"a & b"}}) ==
        "<div class=\"wide\"><table>\n<tr><th>&lt;th&gt;</th></tr>\n<tr><td>a &amp; "
        "b</td></tr>\n</table></div>\n");
  CHECK(html_list({"<script>"}) == "<ul>\n<li>&lt;script&gt;</li>\n</ul>\n");
  const std::string page = html_page("a <title>", "<p>body</p>\n", 2);
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("<title>a &lt;title&gt;</title>") != std::string::npos);
  CHECK(page.find("<p>body</p>") != std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("nth-child(-n+2)") != std::string::npos);
  CHECK(page.ends_with("</body></html>\n"));
}
