#include <tinytorch/layers/progress.hpp>

#include <doctest/doctest.h>

namespace tt = tinytorch;

namespace {
std::string written(bool terminal) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file);
  {
    tt::Progress progress(file, terminal);
    progress.update(15, 30, "loss 0.5");
    progress.update(16, 30, "too soon to draw");
    progress.line("done");
    progress.line("again");
  }
  std::string text(1000, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}
}  // namespace

TEST_CASE("a file receives plain lines only") { CHECK(written(false) == "done\nagain\n"); }

TEST_CASE("a terminal receives a bar that the next line overwrites") {
  CHECK(written(true) == "\r\x1b[K[###############...............] 15/30  loss 0.5\r\x1b[Kdone\nagain\n");
}

TEST_CASE("without a file nothing is written") {
  tt::Progress progress(nullptr);
  progress.update(1, 2, "x");
  progress.line("y");
}
