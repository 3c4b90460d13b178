// Small charts as inline SVG: bars with intervals, a scatter plot with its Pareto front, lines over steps.
//
// Each function returns one <svg> element to embed in a page. `chart_style()` must be in the page once; it
// defines all colours as CSS variables with a light and a dark value, so that a chart is readable in both
// modes. Data points have a <title> (hover text) and a direct label, so that no information depends on
// colour. All text is escaped; a value that is not finite is not drawn.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <tinytorch/core/config.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD::svg {

// Escapes text for element content and attribute values. Bytes that XML forbids become U+FFFD.
inline std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
          out += "\xEF\xBF\xBD";
        else
          out += c;
    }
  }
  return out;
}

// The style of the charts for the page. All rules are scoped to .tt-chart.
inline std::string chart_style() {
  std::string style =
      R"(.tt-chart{--ink:#1f2328;--soft:#59636e;--grid:#d8dde3;--mark:#2a6fdb;--muted:#9aa4af;--front:#c2410c;
--s0:#2a6fdb;--s1:#c2410c;--s2:#2b8a3e;--s3:#8e3bb0;--s4:#9a6700;--s5:#0b7285;--s6:#c2255c;--s7:#59636e;
width:100%;height:auto;font:12px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.tt-chart{--ink:#e6edf3;--soft:#9aa4af;--grid:#333b44;--mark:#6ea8ff;--muted:#66707b;
--front:#ff9f6b;--s0:#6ea8ff;--s1:#ff9f6b;--s2:#69c77a;--s3:#cf8df0;--s4:#e3b341;--s5:#56c2d6;--s6:#ff85ac;--s7:#9aa4af}}
.tt-chart text{fill:var(--ink)}.tt-chart .soft{fill:var(--soft)}.tt-chart .title{font-size:15px;font-weight:600}
.tt-chart .grid{stroke:var(--grid);stroke-width:1}.tt-chart .mark{fill:var(--mark)}.tt-chart .muted{fill:var(--muted)}
.tt-chart .whisker{stroke:var(--ink);stroke-width:1.5;fill:none}.tt-chart .line{fill:none;stroke-width:2}
.tt-chart .reference{stroke:var(--soft);stroke-dasharray:4 3}.tt-chart .front{stroke:var(--front);stroke-width:2;fill:none}
.tt-chart .frontmark{fill:var(--front)}
)";
  // Colours of series are set by class, because a page may forbid style attributes (Content-Security-Policy).
  for (int i = 0; i < 8; ++i)
    style +=
        fmt::format(".tt-chart .line.s{0}{{stroke:var(--s{0})}}.tt-chart .key.s{0}{{fill:var(--s{0})}}\n", i);
  return style;
}

// ---- axes ----

enum class Scale { kLinear, kLog };

struct Axis {
  std::string title = {};  // with the unit, for example "latency p50 (ms)"
  Scale scale = Scale::kLinear;
  std::optional<double> low = {}, high = {};  // if empty, taken from the data
  bool whole = false;                         // ticks at integers only, for epochs and counts
};

// About `target` multiples of 1, 2 or 5 times a power of ten inside [low, high].
inline std::vector<double> linear_ticks(double low, double high, int target = 6, bool whole = false) {
  if (!(high > low) || !std::isfinite(high - low)) return {low};
  const double rough = (high - low) / std::max(target, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
  if (whole) step = std::max(std::ceil(step), 1.0);
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (double k = first; k * step <= high + 1e-9 * step; ++k) ticks.push_back(k * step);
  return ticks;
}

// Powers of ten inside [low, high], with 2 and 5 between them if the range is short. Bounds > 0.
inline std::vector<double> log_ticks(double low, double high) {
  if (!(low > 0) || !(high > low)) return {low};
  const bool dense = std::log10(high / low) < 2.5;
  std::vector<double> ticks;
  for (double power = std::pow(10.0, std::floor(std::log10(low))); power <= high * 1.0000001; power *= 10)
    for (const double m : {1.0, 2.0, 5.0})
      if ((m == 1.0 || dense) && power * m >= low * 0.9999999 && power * m <= high * 1.0000001)
        ticks.push_back(power * m);
  return ticks;
}

inline std::string number(double x) { return fmt::format("{:.6g}", std::abs(x) < 1e-12 ? 0.0 : x); }

// ---- data ----

struct Bar {
  std::string label = {};
  double value = 0, low = 0, high = 0;  // low == high draws no whisker
  std::string note = {};                // written after the bar
  bool muted = false;                   // shown but not ranked
};

struct Point {
  std::string label = {};
  double x = 0, y = 0;
  bool on_front = false;  // joined by a line, in order of x
};

struct Series {
  std::string label = {};
  std::vector<double> x = {}, y = {};  // same length
};

namespace detail {

constexpr double kTextWidth = 6.6;  // upper estimate of the width of a character at 12 px

// Maps data to pixels along one axis.
struct Mapping {
  Scale scale;
  double low, high, from, to;
  bool whole = false;
  bool drawable(double v) const { return std::isfinite(v) && (scale == Scale::kLinear || v > 0); }
  double operator()(double v) const {
    const auto f = [&](double t) { return scale == Scale::kLog ? std::log10(t) : t; };
    return from + (to - from) * (f(v) - f(low)) / (f(high) - f(low));
  }
  std::vector<double> ticks() const {
    return scale == Scale::kLog ? log_ticks(low, high) : linear_ticks(low, high, 6, whole);
  }
};

// The range of the finite values with a margin; a single value gets a range around it.
inline Mapping fit(const Axis& axis, const std::vector<double>& values, double from, double to,
                   double margin) {
  Mapping m{axis.scale, 0, 1, from, to, axis.whole};
  double low = INFINITY, high = -INFINITY;
  for (const double v : values)
    if (m.drawable(v)) low = std::min(low, v), high = std::max(high, v);
  if (low > high) low = high = 1;
  if (axis.scale == Scale::kLog) {
    const double factor = low == high ? 2 : std::pow(high / low, margin);
    m.low = axis.low.value_or(low / factor), m.high = axis.high.value_or(high * factor);
  } else {
    const double pad = low == high ? std::max(std::abs(low), 1.0) / 2 : (high - low) * margin;
    m.low = axis.low.value_or(low - pad), m.high = axis.high.value_or(high + pad);
  }
  return m;
}

struct Box {
  double left, top, right, bottom;
  bool overlaps(const Box& o) const {
    return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
  }
};

inline std::string text(double x, double y, std::string_view anchor, std::string_view content,
                        std::string_view css = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y,
                     anchor, css, escape(content));
}

inline std::string line(double x1, double y1, double x2, double y2, std::string_view css) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, css);
}

inline std::string open(double width, double height, std::string_view title) {
  return fmt::format(
      "<svg class=\"tt-chart\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\" "
      "xmlns=\"http://www.w3.org/2000/svg\">\n{}",
      width, height, escape(title), text(8, 20, "start", title, "title"));
}

// Grid, tick labels and titles of both axes around the plot area.
inline std::string frame(const Box& plot, const Mapping& x, const Mapping& y, const Axis& x_axis,
                         const Axis& y_axis) {
  std::string out;
  for (const double t : x.ticks()) {
    out += line(x(t), plot.top, x(t), plot.bottom, "grid");
    out += text(x(t), plot.bottom + 16, "middle", number(t), "soft");
  }
  for (const double t : y.ticks()) {
    out += line(plot.left, y(t), plot.right, y(t), "grid");
    out += text(plot.left - 6, y(t) + 4, "end", number(t), "soft");
  }
  out += text((plot.left + plot.right) / 2, plot.bottom + 34, "middle", x_axis.title, "soft");
  out += text(8, plot.top - 10, "start", y_axis.title, "soft");
  return out;
}

// Adds small boxes along a straight line, so that labels do not cover it.
inline void block_line(double x1, double y1, double x2, double y2, std::vector<Box>& taken) {
  const double steps = std::ceil(std::hypot(x2 - x1, y2 - y1) / 4);
  for (double k = 0; k <= steps; ++k) {
    const double px = std::lerp(x1, x2, k / std::max(steps, 1.0)),
                 py = std::lerp(y1, y2, k / std::max(steps, 1.0));
    taken.push_back({px - 1, py - 1, px + 1, py + 1});
  }
}

// Places a label at the first of right, left, above, below where it overlaps no other label or point and is
// inside the plot.
inline std::string place_label(double px, double py, const std::string& label, const Box& plot,
                               std::vector<Box>& taken) {
  const double w = kTextWidth * static_cast<double>(label.size());
  struct Spot {
    double x, y;
    std::string_view anchor;
    Box box;
  };
  const Spot spots[] = {{px + 8, py + 4, "start", {px + 8, py - 7, px + 8 + w, py + 7}},
                        {px - 8, py + 4, "end", {px - 8 - w, py - 7, px - 8, py + 7}},
                        {px, py - 10, "middle", {px - w / 2, py - 21, px + w / 2, py - 7}},
                        {px, py + 19, "middle", {px - w / 2, py + 8, px + w / 2, py + 22}},
                        {px + 8, py + 17, "start", {px + 8, py + 6, px + 8 + w, py + 20}},
                        {px - 8, py - 8, "end", {px - 8 - w, py - 19, px - 8, py - 5}}};
  const Spot* chosen = &spots[0];
  for (const Spot& s : spots) {
    const bool inside = s.box.left >= plot.left && s.box.right <= plot.right && s.box.top >= plot.top;
    if (inside && std::none_of(taken.begin(), taken.end(), [&](const Box& b) { return b.overlaps(s.box); })) {
      chosen = &s;
      break;
    }
  }
  taken.push_back(chosen->box);
  return text(chosen->x, chosen->y, chosen->anchor, label);
}

}  // namespace detail

// ---- charts ----

// Horizontal bars in the given order, with whiskers for [low, high] and a dashed line at `reference`. Bars
// start at zero, or on a logarithmic axis, which has no zero, at the reference.
inline std::string bar_chart(const std::string& title, const Axis& axis, const std::vector<Bar>& bars,
                             std::optional<double> reference = {}) {
  using namespace detail;
  const double width = 760, row = 30, top = 40, bottom = top + row * static_cast<double>(bars.size());
  size_t longest_label = 4, longest_note = 4;
  const bool log = axis.scale == Scale::kLog;
  std::vector<double> values{log ? reference.value_or(1) : 0};
  if (reference) values.push_back(*reference);
  for (const Bar& b : bars) {
    longest_label = std::max(longest_label, b.label.size());
    longest_note = std::max(longest_note, b.note.size());
    for (const double v : {b.value, b.low, b.high}) values.push_back(v);
  }
  const double left = std::min(20 + kTextWidth * static_cast<double>(longest_label), width * 0.4);
  const double right = width - std::min(20 + kTextWidth * static_cast<double>(longest_note), width * 0.4);
  Axis fitted = axis;
  if (!log) fitted.low = 0;
  const Mapping x = fit(fitted, values, left, right, log ? 0.05 : 0.02);
  const double origin = x(values[0]);
  std::string out = open(width, bottom + 48, title);
  for (const double t : x.ticks()) {
    out += line(x(t), top, x(t), bottom, "grid");
    out += text(x(t), bottom + 16, "middle", number(t), "soft");
  }
  out += text((left + right) / 2, bottom + 36, "middle", axis.title, "soft");
  for (size_t i = 0; i < bars.size(); ++i) {
    const Bar& b = bars[i];
    const double middle = top + row * (static_cast<double>(i) + 0.5);
    out += text(left - 8, middle + 4, "end", b.label);
    if (!x.drawable(b.value)) continue;
    const double start = std::min(origin, x(b.value)), stop = std::max(origin, x(b.value));
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" rx=\"2\" class=\"{}\">"
        "<title>{}: {} [{}, {}]</title></rect>\n",
        start, middle - 7, std::max(stop - start, 2.0), b.muted ? "muted" : "mark", escape(b.label),
        number(b.value), number(b.low), number(b.high));
    double end = stop;
    if (b.high > b.low && x.drawable(b.low) && x.drawable(b.high)) {
      out += line(x(b.low), middle, x(b.high), middle, "whisker");
      for (const double v : {b.low, b.high}) out += line(x(v), middle - 4, x(v), middle + 4, "whisker");
      end = std::max(end, x(b.high));
    }
    out += text(end + 8, middle + 4, "start", b.note, "soft");
  }
  if (reference) out += line(x(*reference), top - 4, x(*reference), bottom, "reference");
  return out + "</svg>\n";
}

// Labelled points. Points on the front are joined and coloured.
inline std::string scatter_chart(const std::string& title, const Axis& x_axis, const Axis& y_axis,
                                 const std::vector<Point>& points) {
  using namespace detail;
  const double width = 760, height = 420;
  const Box plot{64, 56, width - 24, height - 48};
  std::vector<double> xs, ys;
  for (const Point& p : points) xs.push_back(p.x), ys.push_back(p.y);
  const Mapping x = fit(x_axis, xs, plot.left, plot.right, 0.08);
  const Mapping y = fit(y_axis, ys, plot.bottom, plot.top, 0.12);
  std::vector<Point> drawn;
  for (const Point& p : points)
    if (x.drawable(p.x) && y.drawable(p.y)) drawn.push_back(p);
  std::stable_sort(drawn.begin(), drawn.end(), [](const Point& a, const Point& b) { return a.x < b.x; });

  std::string out = open(width, height, title) + frame(plot, x, y, x_axis, y_axis), path;
  std::vector<Box> taken;
  const Point* previous = nullptr;
  for (const Point& p : drawn) {
    taken.push_back({x(p.x) - 6, y(p.y) - 6, x(p.x) + 6, y(p.y) + 6});
    if (!p.on_front) continue;
    path += fmt::format("{:.1f},{:.1f} ", x(p.x), y(p.y));
    if (previous) block_line(x(previous->x), y(previous->y), x(p.x), y(p.y), taken);
    previous = &p;
  }
  if (!path.empty()) out += fmt::format("<polyline points=\"{}\" class=\"front\"/>\n", path);
  for (const Point& p : drawn)
    out += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" class=\"{}\"><title>{}: {}, {}</title></circle>\n",
        x(p.x), y(p.y), p.on_front ? "frontmark" : "mark", escape(p.label), number(p.x), number(p.y));
  for (const Point& p : drawn) out += place_label(x(p.x), y(p.y), p.label, plot, taken);
  return out + "</svg>\n";
}

// One polyline per series with a label at its right end. Labels are moved apart if lines end close together.
inline std::string line_chart(const std::string& title, const Axis& x_axis, const Axis& y_axis,
                              const std::vector<Series>& series) {
  using namespace detail;
  const double width = 760, height = 380;
  size_t longest = 4;
  std::vector<double> xs, ys;
  for (const Series& s : series) {
    longest = std::max(longest, s.label.size());
    xs.insert(xs.end(), s.x.begin(), s.x.end());
    ys.insert(ys.end(), s.y.begin(), s.y.end());
  }
  const double label_room = std::min(24 + kTextWidth * static_cast<double>(longest), width * 0.4);
  const Box plot{64, 56, width - label_room, height - 48};
  const Mapping x = fit(x_axis, xs, plot.left, plot.right, 0.0);
  const Mapping y = fit(y_axis, ys, plot.bottom, plot.top, 0.05);

  struct End {
    double y;
    size_t index;
  };
  std::string out = open(width, height, title) + frame(plot, x, y, x_axis, y_axis);
  std::vector<End> ends;
  for (size_t i = 0; i < series.size(); ++i) {
    const Series& s = series[i];
    std::string path;
    double last = 0;
    for (size_t k = 0; k < std::min(s.x.size(), s.y.size()); ++k)
      if (x.drawable(s.x[k]) && y.drawable(s.y[k]))
        last = y(s.y[k]), path += fmt::format("{:.1f},{:.1f} ", x(s.x[k]), last);
    if (path.empty()) continue;
    out += fmt::format(
        "<polyline points=\"{}\" class=\"line s{}\"><title>{}</title>"
        "</polyline>\n",
        path, i % 8, escape(s.label));
    ends.push_back({last, i});
  }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.y < b.y; });
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i > 0) ends[i].y = std::max(ends[i].y, ends[i - 1].y + 15);
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"8\" height=\"8\" class=\"key s{}\"/>\n",
                       plot.right + 6, ends[i].y - 4, ends[i].index % 8);
    out += text(plot.right + 18, ends[i].y + 4, "start", series[ends[i].index].label);
  }
  return out + "</svg>\n";
}

}  // namespace tinytorch::inline TT_BUILD::svg
