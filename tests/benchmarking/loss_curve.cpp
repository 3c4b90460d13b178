#include <tinytorch/benchmarking/loss_curve.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}
size_t points_of(const std::string& svg, size_t line) {
  size_t at = 0;
  for (size_t i = 0; i <= line; ++i) at = svg.find("points=\"", at) + 8;
  return count(svg.substr(at, svg.find('"', at) - at), ",");
}

}  // namespace

TEST_CASE(
    "loss_curve draws both losses; a repeated step counts once, and the title reports unreadable lines") {
  const std::vector<std::string> log{R"({"step": 5, "tra)",
                                     R"({"step": 10, "train_loss": 3.5, "validation_loss": null})",
                                     R"({"step": 20, "train_loss": 2.5, "validation_loss": 2.75})",
                                     R"({"step": 30, "train_loss": 9.0, "validation_loss": null})",
                                     R"({"step": 30, "train_loss": 2.0, "validation_loss": 2.25})",
                                     R"({"step": 40, "tra)"};
  const std::string svg = tt::benchmarking::loss_curve("a run", tt::read_log(log), 1.5);
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.find("<style>") < svg.find("<polyline"));
  CHECK(count(svg, "<polyline") == 3);
  CHECK(points_of(svg, 0) == 3);
  CHECK(points_of(svg, 1) == 2);
  CHECK(svg.find("least possible") != std::string::npos);
  CHECK(svg.find("a run (2 lines of the log could not be read: line 1, 6)") != std::string::npos);
  CHECK(count(tt::benchmarking::loss_curve("a run", tt::read_log(log)), "<polyline") == 2);
}

TEST_CASE("write_loss_curve writes a file; an empty log gives an empty chart") {
  const files::TempFolder folder;
  tt::write_file(folder / "log.jsonl", R"({"step": 1, "train_loss": 2})"
                                       "\n"
                                       R"({"step": 2, "train_loss": 1})"
                                       "\n");
  tt::benchmarking::write_loss_curve(folder / "loss.svg", "t", folder / "log.jsonl");
  CHECK(tt::load_text(folder / "loss.svg").find("<polyline") != std::string::npos);
  CHECK(count(tt::benchmarking::loss_curve("t", {}), "<polyline") == 0);
  CHECK(tt::load_text(folder / "loss.svg").find("could not be read") == std::string::npos);
}
