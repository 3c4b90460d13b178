// The board as files: every link leads to an existing file, and every page is well-formed.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <tinymlperf/board/pages/export.hpp>

#include <tinymlperf/board/html_checker.hpp>
#include <tinymlperf/board/memory_board.hpp>

using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "board-export-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string read(const fs::path& path) {
  const auto bytes = tinytorch::read_file(path.string());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("an exported board: well-formed pages, links that lead somewhere, no names from outside in paths") {
  for (const bool hostile : {false, true}) {
    const Folder folder;
    MemoryBoard board(hostile);
    const int64_t pages = export_site(board, folder.path / "board");
    int64_t found = 0, links = 0;
    for (const auto& entry : fs::directory_iterator(folder.path)) CHECK(entry.path().filename() == "board");
    for (const auto& entry : fs::directory_iterator(folder.path / "board")) {
      if (entry.path().extension() != ".html") continue;
      ++found;
      const std::string html = read(entry.path());
      CAPTURE(entry.path().filename().string());
      const HtmlChecker checked(html);
      for (const std::string& c : checked.complaints) FAIL_CHECK(c);
      CHECK(checked.all("form").empty());
      CHECK(checked.all("script").empty());
      for (const Element& e : checked.elements) {
        const std::string href = e.get("href");
        if (href.empty() || href.starts_with("#")) continue;
        ++links;
        CHECK_MESSAGE(href.find_first_of("/%?\\") == std::string::npos, href);
        CHECK_MESSAGE(fs::is_regular_file(folder.path / "board" / href), href);
      }
    }
    CHECK(found == pages);
    CHECK(found > 20);
    CHECK(links > 200);
  }
}
