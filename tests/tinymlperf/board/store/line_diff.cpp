// Unified diffs: applied to the old text they give the new one.
#include <doctest/doctest.h>

#include <sstream>
#include <tinymlperf/board/store/line_diff.hpp>
#include <tinytorch/tinytorch.hpp>

using tinymlperf::board::unified_diff;

namespace {

// Applies a diff as its format is defined, without any help of the one who wrote it.
std::string patched(const std::string& old_text, const std::string& diff) {
  std::vector<std::string> lines;
  for (const auto line : tinymlperf::board::detail::lines_of(old_text)) lines.emplace_back(line);
  std::istringstream in(diff);
  std::string line, out;
  size_t at = 0;
  std::getline(in, line), std::getline(in, line);
  while (std::getline(in, line)) {
    if (line.starts_with("@@")) {
      const size_t first = std::stoul(line.substr(4)), count = std::stoul(line.substr(line.find(',') + 1));
      for (const size_t start = count > 0 ? first - 1 : first; at < start;) out += lines.at(at++);
    } else if (line.starts_with("\\")) {
      if (out.ends_with('\n')) out.pop_back();
    } else if (line[0] == '+') {
      out += line.substr(1) + "\n";
    } else {
      const std::string kept = lines.at(at++);
      CHECK(kept.substr(0, line.size() - 1) == line.substr(1));
      if (line[0] == ' ') out += kept.ends_with('\n') ? kept : kept + "\n";
    }
  }
  while (at < lines.size()) out += lines[at++];
  return out;
}

}  // namespace

TEST_CASE("a small change is shown with three lines around it") {
  CHECK(unified_diff("a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "b", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n") ==
        "--- a\n+++ b\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
  CHECK(unified_diff("a", "same", "b", "same").empty());
  CHECK(unified_diff("a", "", "b", "new\n") == "--- a\n+++ b\n@@ -0,0 +1,1 @@\n+new\n");
  CHECK(unified_diff("a", "x\n", "b", "x") ==
        "--- a\n+++ b\n@@ -1,1 +1,1 @@\n-x\n+x\n\\ No newline at end of file\n");
}

TEST_CASE("random texts: applied to the old text, the diff gives the new one") {
  tinytorch::Generator random(2);
  for (int i = 0; i < 500; ++i) {
    const auto text = [&] {
      std::string t;
      for (uint64_t n = random.below(40); n > 0; --n)
        t += std::string(1, static_cast<char>('a' + random.below(4))) + "\n";
      return t;
    };
    std::string before = text(), after = random.below(2) ? text() : before;
    for (uint64_t n = random.below(3); n > 0 && after.size() > 2; --n)
      after.erase(2 * random.below(after.size() / 2), 2);
    const std::string diff = unified_diff("a", before, "b", after);
    CAPTURE(diff);
    CHECK((diff.empty() ? before : patched(before, diff)) == after);
  }
}
