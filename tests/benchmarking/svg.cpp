// The charts are parsed: they are well-formed and inside the picture, points are at their values, and no text
// escapes its element.
#include <doctest/doctest.h>

#include <limits>
#include <support/svg_elements.hpp>
#include <tinytorch/benchmarking/svg.hpp>

namespace svg = tinytorch::svg;

namespace {

using svg_elements::Element;
using svg_elements::parse;

std::vector<Element> with_class(const std::vector<Element>& all, const std::string& name,
                                const std::string& css) {
  std::vector<Element> out;
  for (const auto& e : all)
    if (e.name == name && e.attributes.count("class") &&
        (" " + e.attributes.at("class") + " ").find(" " + css + " ") != std::string::npos)
      out.push_back(e);
  return out;
}

const std::string kNasty = "<script>alert('x')</script> & \"q\"";

}  // namespace

TEST_CASE("escape replaces the five XML characters and control bytes, and keeps UTF-8") {
  CHECK(svg::escape("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(svg::escape(std::string("x\x01y\0z", 5)) == "x\xEF\xBF\xBDy\xEF\xBF\xBDz");
  CHECK(svg::escape("naïve µs\n") == "naïve µs\n");
}

TEST_CASE("ticks are round numbers inside the range") {
  CHECK(svg::linear_ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  CHECK(svg::linear_ticks(-1, 1, 4) == std::vector<double>{-1, -0.5, 0, 0.5, 1});
  CHECK(svg::linear_ticks(5, 5) == std::vector<double>{5});
  CHECK(svg::linear_ticks(1, 3, 6, true) == std::vector<double>{1, 2, 3});
  CHECK(svg::linear_ticks(0, 40, 6, true) == std::vector<double>{0, 10, 20, 30, 40});
  CHECK(svg::log_ticks(0.5, 20) == std::vector<double>{0.5, 1, 2, 5, 10, 20});
  const auto decades = svg::log_ticks(0.01, 1000);
  REQUIRE(decades.size() == 6);
  CHECK(decades[0] == doctest::Approx(0.01));
  CHECK(decades[5] == doctest::Approx(1000));
  CHECK(svg::number(0.1 + 0.2 - 0.3) == "0");
  CHECK(svg::number(12345.678) == "12345.7");
}

TEST_CASE(
    "bar chart: lengths are proportional from zero, whiskers span the interval, unranked bars are muted") {
  const auto text = svg::bar_chart("Score", {.title = "points"},
                                   {{"a", 100, 90, 110, "1st", false}, {"b", 50, 50, 50, "", true}}, 100.0);
  const auto all = parse(text);
  const auto a = with_class(all, "rect", "mark"), b = with_class(all, "rect", "muted");
  REQUIRE(a.size() == 1);
  REQUIRE(b.size() == 1);
  const double unit = a[0].at("width") / 100;
  CHECK(b[0].at("width") == doctest::Approx(50 * unit).epsilon(0.01));
  CHECK(a[0].at("y") < b[0].at("y"));
  const auto whiskers = with_class(all, "line", "whisker");
  REQUIRE(whiskers.size() == 3);  // one span, two caps; none for b, whose interval has no width
  CHECK(whiskers[0].at("x1") == doctest::Approx(a[0].at("x") + 90 * unit).epsilon(0.01));
  CHECK(whiskers[0].at("x2") == doctest::Approx(a[0].at("x") + 110 * unit).epsilon(0.01));
  const auto reference = with_class(all, "line", "reference");
  REQUIRE(reference.size() == 1);
  CHECK(reference[0].at("x1") == doctest::Approx(a[0].at("x") + 100 * unit).epsilon(0.01));
  for (const char* wanted : {">Score<", ">points<", ">1st<", "a: 100 [90, 110]"})
    CHECK(text.find(wanted) != std::string::npos);
}

TEST_CASE("bar chart on a logarithmic axis: bars start at the reference, symmetric for factors 2 and 1/2") {
  const auto all = parse(
      svg::bar_chart("Score", {.title = "score", .scale = svg::Scale::kLog},
                     {{"double", 200, 200, 200}, {"half", 50, 50, 50}, {"same", 100, 100, 100}}, 100.0));
  const auto bars = with_class(all, "rect", "mark");
  const double reference = with_class(all, "line", "reference").at(0).at("x1");
  REQUIRE(bars.size() == 3);
  CHECK(bars[0].at("x") == doctest::Approx(reference));
  CHECK(bars[1].at("x") + bars[1].at("width") == doctest::Approx(reference).epsilon(0.001));
  CHECK(bars[0].at("width") == doctest::Approx(bars[1].at("width")).epsilon(0.001));
  CHECK(bars[0].at("width") > 50);
  CHECK(bars[2].at("width") == 2);  // still visible
}

TEST_CASE(
    "scatter: equal ratios have equal distances on a logarithmic axis; the front is one line in order of x") {
  const auto all =
      parse(svg::scatter_chart("T", {.title = "ms", .scale = svg::Scale::kLog}, {.title = "accuracy"},
                               {{"slow", 100, 0.9, true}, {"quick", 1, 0.5, true}, {"mid", 10, 0.4, false}}));
  const auto front = with_class(all, "circle", "frontmark"), rest = with_class(all, "circle", "mark");
  REQUIRE(front.size() == 2);
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].at("cx") == doctest::Approx((front[0].at("cx") + front[1].at("cx")) / 2).epsilon(0.001));
  CHECK(front[1].at("cy") < front[0].at("cy"));  // slow has the higher accuracy, pixels count downwards
  const auto path = with_class(all, "polyline", "front");
  REQUIRE(path.size() == 1);
  CHECK(path[0].attributes.at("points") == fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", front[0].at("cx"),
                                                       front[0].at("cy"), front[1].at("cx"),
                                                       front[1].at("cy")));
  for (const auto& c : front)
    CHECK((c.at("cx") > 0 && c.at("cx") < 760 && c.at("cy") > 0 && c.at("cy") < 420));
}

TEST_CASE("scatter: labels of coinciding points do not cover each other") {
  std::vector<svg::Point> points;
  for (const char* name : {"one", "two", "three", "four"}) points.push_back({name, 1, 1, false});
  std::vector<std::pair<double, double>> places;
  for (const auto& e : parse(svg::scatter_chart("T", {}, {}, points)))
    if (e.name == "text" && e.attributes.at("class").empty()) places.emplace_back(e.at("x"), e.at("y"));
  REQUIRE(places.size() == 4);
  std::sort(places.begin(), places.end());
  CHECK(std::unique(places.begin(), places.end()) == places.end());
}

TEST_CASE("lines: one polyline per series with all its points, end labels at least 15 px apart") {
  const auto all =
      parse(svg::line_chart("Training", {.title = "epoch"}, {.title = "accuracy"},
                            {{"a", {1, 2, 3}, {0.1, 0.5, 0.90}}, {"b", {1, 2, 3}, {0.2, 0.6, 0.91}}}));
  const auto lines = with_class(all, "polyline", "line");
  REQUIRE(lines.size() == 2);
  for (const auto& l : lines) {
    const auto& points = l.attributes.at("points");
    CHECK(std::count(points.begin(), points.end(), ',') == 3);
  }
  CHECK(lines[0].attributes.at("class") != lines[1].attributes.at("class"));
  for (const auto& e : all) CHECK(e.attributes.count("style") == 0);  // a page may forbid them
  std::vector<double> labels;
  for (const auto& e : all)
    if (e.name == "text" && e.attributes.at("class").empty()) labels.push_back(e.at("y"));
  REQUIRE(labels.size() == 2);
  CHECK(std::abs(labels[0] - labels[1]) >= 15);
}

TEST_CASE("hostile text is escaped, and values that are not finite are not drawn") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const svg::Axis log{kNasty, svg::Scale::kLog, {}, {}};
  const std::string charts[] = {
      svg::bar_chart(kNasty, {.title = kNasty},
                     {{kNasty, nan, nan, inf, kNasty, false}, {kNasty, 1, 0, inf, "", false}}),
      svg::scatter_chart(kNasty, log, log,
                         {{kNasty, 0, 1, true}, {kNasty, -1, nan, true}, {kNasty, 2, 3, true}}),
      svg::line_chart(kNasty, log, {.title = kNasty},
                      {{kNasty, {0, 1, inf}, {1, nan, 2}}, {kNasty, {1}, {}}}),
      svg::bar_chart("", {}, {}),
      svg::scatter_chart("", {}, {}, {}),
      svg::line_chart("", {}, {}, {})};
  for (const auto& text : charts) {
    CAPTURE(text);
    for (const auto& e : parse(text)) {
      CHECK(e.name != "script");
      for (const char* key : {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "points"})
        if (e.attributes.count(key)) {
          CHECK(e.attributes.at(key).find("nan") == std::string::npos);
          CHECK(e.attributes.at(key).find("inf") == std::string::npos);
        }
    }
  }
}

TEST_CASE("the style has a light and a dark value for every colour") {
  const std::string style = svg::chart_style();
  const size_t dark = style.find("prefers-color-scheme:dark");
  REQUIRE(dark != std::string::npos);
  static const std::regex use(R"(var\((--[a-z0-9]+)\))");
  int used = 0;
  for (auto it = std::sregex_iterator(style.begin(), style.end(), use); it != std::sregex_iterator();
       ++it, ++used) {
    const std::string definition = (*it)[1].str() + ":#";
    CHECK(style.find(definition) < dark);
    CHECK(style.find(definition, dark) != std::string::npos);
  }
  CHECK(used >= 5);
}
