// Synthetic handwritten digits: pen strokes rendered from random parameters, without a download.
//
//   style of the digit -> control points + jitter -> affine jitter -> line segments -> distance to the pen's
//   path -> ink -> ruled line -> blur -> noise
//
// Sample i is a pure function of (seed, i), so a prefix, a range or a hidden test set needs no other sample.
// All compilers give the same bits: the pen's path is computed in double and rounded to 1/256 pixel, which
// absorbs last-bit differences (FMA, libm); all later steps are integer arithmetic. Source of the strokes,
// quadratic B-splines as in TrueType: de Boor, "A Practical Guide to Splines", 1978.
#pragma once

#include <array>
#include <cmath>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/tensor/tensor.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

inline constexpr int kDigitSide = 28;
inline constexpr int kDigitPixels = kDigitSide * kDigitSide;

struct Digits {
  Tensor images;  // f32 [N, 1, 28, 28], ink in [0, 1], multiples of 1/255
  Tensor labels;  // i64 [N], 0 to 9, uniform
};

// Samples first, ..., first + n - 1 of the infinite set of `seed`. Different seeds give independent sets:
// train and test sets can be two seeds, or two ranges of one seed.
Digits digits(int64_t n, uint64_t seed, int64_t first = 0, TT_LOC);

// ---------------------------------------------------------------------------------------------------------

namespace handwriting {

// A glyph is drawn in a box of 100 x 100, y down. The curve starts and ends at a stroke's end points, passes
// through points marked as corners, and rounds off the other points.
enum Bend { smooth, corner };
struct ControlPoint {
  double x, y;
  Bend bend = smooth;
};
using Stroke = std::vector<ControlPoint>;
using Glyph = std::vector<Stroke>;

// Several ways to write each digit.
inline const std::array<std::vector<Glyph>, 10>& glyphs() {
  // clang-format off
  static const std::array<std::vector<Glyph>, 10> all = {{
      // 0: upright oval; slanted with overlapping ends
      {{{{50, 0}, {22, 0}, {20, 50}, {22, 100}, {50, 100}, {78, 100}, {80, 50}, {78, 0}, {48, 0}}},
       {{{64, 8}, {45, -6}, {22, 30}, {22, 70}, {30, 104}, {54, 102}, {76, 80}, {80, 30}, {66, 0}, {48, 4}}}},
      // 1: bar; with flag; with flag and foot
      {{{{50, 0}, {50, 50}, {50, 100}}},
       {{{30, 26}, {44, 14}, {54, 0, corner}, {52, 100}}},
       {{{34, 22}, {52, 0, corner}, {52, 100}}, {{32, 100}, {72, 99}}}},
      // 2: angular; with a loop at the foot
      {{{{22, 24}, {26, 0}, {52, -4}, {82, 0}, {78, 34}, {62, 58}, {22, 100, corner}, {82, 98}}},
       {{{24, 20}, {34, 0}, {56, -4}, {82, 4}, {74, 40}, {52, 76}, {30, 106}, {14, 94}, {30, 80}, {52, 92},
         {68, 106}, {86, 88}}}},
      // 3: two bows; flat top
      {{{{24, 12}, {36, -6}, {76, -4}, {80, 28}, {70, 45}, {44, 47, corner}, {80, 48}, {86, 76}, {76, 104},
         {38, 106}, {20, 86}}},
       {{{26, 2}, {76, 2, corner}, {48, 40, corner}, {80, 40}, {86, 76}, {74, 106}, {36, 106}, {20, 86}}}},
      // 4: open, two strokes; closed, one stroke; round bowl
      {{{{38, 2}, {22, 60, corner}, {84, 57}}, {{68, 28}, {66, 60}, {62, 100}}},
       {{{62, 100}, {66, 0, corner}, {20, 66, corner}, {84, 66}}},
       {{{28, 4}, {18, 52}, {40, 62}, {72, 46}}, {{74, 2}, {70, 50}, {66, 100}}}},
      // 5: roof first; roof last; one flowing line
      {{{{78, 0}, {34, 0, corner}, {28, 46, corner}, {50, 30}, {86, 42}, {86, 88}, {60, 106}, {34, 102},
         {20, 86}}},
       {{{36, 4}, {28, 48, corner}, {54, 32}, {86, 44}, {84, 90}, {58, 106}, {32, 102}, {20, 88}},
        {{36, 4}, {80, 0}}},
       {{{80, 2}, {50, -4}, {26, 4}, {24, 42}, {50, 46}, {84, 52}, {84, 94}, {60, 106}, {22, 92}}}},
      // 6: round back; straight back
      {{{{70, 2}, {36, 14}, {18, 60}, {22, 104}, {54, 104}, {82, 98}, {82, 56}, {54, 46}, {30, 56},
         {22, 78}}},
       {{{58, 0}, {34, 40}, {16, 78}, {28, 106}, {60, 106}, {84, 84}, {70, 54}, {40, 56}, {26, 82}}}},
      // 7: plain; crossed; curved with a serif
      {{{{24, 2}, {80, 2, corner}, {46, 100}}},
       {{{24, 2}, {80, 2, corner}, {60, 50}, {46, 100}}, {{36, 52}, {74, 50}}},
       {{{22, 18}, {24, 4, corner}, {78, 5, corner}, {56, 40}, {46, 70}, {44, 100}}}},
      // 8: one crossing line; two rings
      {{{{70, 12}, {56, -6}, {22, -4}, {20, 36}, {50, 48}, {86, 60}, {84, 106}, {50, 106}, {16, 106},
         {14, 64}, {48, 50}, {80, 36}, {80, 2}, {64, 8}}},
       {{{50, 0}, {26, 0}, {26, 46}, {50, 46}, {74, 46}, {74, 0}, {50, 0}},
        {{50, 46}, {20, 46}, {20, 100}, {50, 100}, {80, 100}, {80, 46}, {50, 46}}}},
      // 9: straight tail; curved tail; a turned 6
      {{{{76, 20}, {66, -4}, {30, -6}, {18, 30}, {26, 58}, {64, 56}, {76, 20, corner}, {72, 100}}},
       {{{74, 26}, {64, -6}, {24, -6}, {18, 30}, {28, 58}, {62, 56}, {76, 22, corner}, {80, 60}, {74, 106},
         {30, 98}}},
       {{{30, 98}, {64, 86}, {82, 40}, {78, -4}, {46, -4}, {18, 2}, {18, 44}, {46, 54}, {70, 44}, {78, 22}}}},
  }};
  // clang-format on
  return all;
}

// Amounts of variation of writers, pens and scanners. Lengths are in pixels unless stated otherwise. The
// values are chosen so that, after 8,000 samples, a linear model classifies about 65 % of new digits
// correctly, two layers 92 to 95 %, and LeNet 98 %. More than 99.5 % takes two layers of 512 units and
// 200,000 samples.
inline constexpr double kPixelsPerUnit = 0.2;  // a glyph is 20 pixels high before jitter
inline constexpr double kPointJitter = 4.5;    // glyph units, standard deviation per control point
inline constexpr double kRotation = 0.16;      // radians, standard deviation
inline constexpr double kShear = 0.2;          // standard deviation
inline constexpr double kScaleMin = 0.66, kScaleMax = 1.06;
inline constexpr double kShift = 3.5;  // largest shift
inline constexpr double kRadiusMin = 0.75, kRadiusMax = 1.65;
inline constexpr double kEdgeMin = 0.8, kEdgeMax = 1.6;  // width over which the ink fades out
inline constexpr double kInkMin = 0.6;
inline constexpr double kRuleMin = 0.25, kRuleMax = 0.65;  // ink of a ruled line
inline constexpr double kNoiseMax = 0.14;                  // standard deviation, share of full ink

// The random numbers of one sample, in order. The high half of the counter differs from that of a Generator.
class Draws {
 public:
  Draws(uint64_t seed, int64_t sample) : seed_(seed), sample_(static_cast<uint64_t>(sample)) {}
  uint32_t word() {
    if (used_ == 4) {
      block_ = philox(seed_, kPurpose | next_++, sample_);
      used_ = 0;
    }
    return block_.v[used_++];
  }
  double uniform(double low, double high) { return low + (high - low) * uniform_from_bits(word()); }
  // Irwin-Hall distribution: the sum of four uniform numbers has variance 1/3. It is nearly normal, bounded,
  // and needs no libm.
  double bell(double sigma) {
    double sum = -2;
    for (int k = 0; k < 4; ++k) sum += uniform_from_bits(word());
    return sum * 1.7320508075688772 * sigma;
  }
  int64_t below(int64_t n) {
    return static_cast<int64_t>((uint64_t{word()} * static_cast<uint64_t>(n)) >> 32);
  }

 private:
  static constexpr uint64_t kPurpose = uint64_t{0xd161} << 48;
  uint64_t seed_, sample_, next_ = 0;
  PhiloxBlock block_{};
  int used_ = 4;
};

struct Point {
  double x, y;
};
inline Point middle(Point a, Point b) { return {(a.x + b.x) / 2, (a.y + b.y) / 2}; }

// Integer arithmetic of the renderer: pixel coordinates (px) are in units of 1/256 pixel.
inline constexpr int kGrid = 256;
inline constexpr int kUnitBits = 14;  // unit vectors are scaled by 2^14
struct Segment {
  int32_t ax, ay, bx, by;  // end points
  int32_t tx, ty;          // unit vector from a to b, times 2^kUnitBits
  int32_t length;
};

inline int32_t snap(double pixels) {
  const double limit = kDigitSide + 8.0;  // later products stay below 2^31
  const double p = pixels < -8 ? -8 : (pixels > limit ? limit : pixels);
  return static_cast<int32_t>(std::floor(p * kGrid + 0.5));
}

inline void add_segment(std::vector<Segment>& path, Point from, Point to) {
  // A segment of length 0 gets an arbitrary direction: with a zero vector, every pixel would have distance 0.
  Segment s{snap(from.x), snap(from.y), snap(to.x), snap(to.y), 1 << kUnitBits, 0, 0};
  const double dx = s.bx - s.ax, dy = s.by - s.ay;
  const double length = std::sqrt(dx * dx + dy * dy);  // correctly rounded from an exact sum
  if (length > 0) {
    s.tx = static_cast<int32_t>(std::floor(dx * (1 << kUnitBits) / length + 0.5));
    s.ty = static_cast<int32_t>(std::floor(dy * (1 << kUnitBits) / length + 0.5));
    s.length = static_cast<int32_t>(length);
  }
  path.push_back(s);
}

// One span of the spline, the quadratic Bezier curve from a to b with control point c, as four segments.
inline void add_curve(std::vector<Segment>& path, Point a, Point c, Point b) {
  Point from = a;
  for (int k = 1; k <= 4; ++k) {
    const double t = k / 4.0, s = 1 - t;
    const Point to{s * s * a.x + 2 * s * t * c.x + t * t * b.x, s * s * a.y + 2 * s * t * c.y + t * t * b.y};
    add_segment(path, from, to);
    from = to;
  }
}

// `points` are the stroke's control points in pixels.
inline void add_stroke(std::vector<Segment>& path, const Stroke& stroke, const std::vector<Point>& points) {
  const size_t last = points.size() - 1;
  const auto is_knot = [&](size_t i) { return i == 0 || i == last || stroke[i].bend == corner; };
  for (size_t i = 1; i <= last; ++i) {
    if (is_knot(i)) {
      if (is_knot(i - 1)) add_segment(path, points[i - 1], points[i]);
      continue;
    }
    const Point from = is_knot(i - 1) ? points[i - 1] : middle(points[i - 1], points[i]);
    const Point to = is_knot(i + 1) ? points[i + 1] : middle(points[i], points[i + 1]);
    add_curve(path, from, points[i], to);
  }
}

// The pen's path for one sample of `digit`, with random style, slant, size and position.
inline void write_digit(std::vector<Segment>& path, int64_t digit, Draws& draws) {
  const std::vector<Glyph>& styles = glyphs()[static_cast<size_t>(digit)];
  const Glyph& glyph = styles[static_cast<size_t>(draws.below(static_cast<int64_t>(styles.size())))];
  const double angle = draws.bell(kRotation), shear = draws.bell(kShear);
  const double size = draws.uniform(kScaleMin, kScaleMax) * kPixelsPerUnit;
  const double width = size * draws.uniform(0.8, 1.15);
  const double x0 = kDigitSide / 2.0 + draws.uniform(-kShift, kShift);
  const double y0 = kDigitSide / 2.0 + draws.uniform(-kShift, kShift);
  const double c = std::cos(angle), s = std::sin(angle);
  std::vector<Point> points;
  for (const Stroke& stroke : glyph) {
    points.clear();
    for (const ControlPoint& p : stroke) {
      const double y = (p.y - 50 + draws.bell(kPointJitter)) * size;
      const double x = (p.x - 50 + draws.bell(kPointJitter)) * width - shear * y;
      points.push_back({x0 + c * x - s * y, y0 + s * x + c * y});
    }
    add_stroke(path, stroke, points);
  }
}

using Canvas = std::array<int32_t, kDigitPixels>;

// Lowers each pixel to the squared distance of its centre to the segment, if that is less, up to reach^2.
inline void lower_to_segment_distance(Canvas& canvas, const Segment& s, int32_t reach) {
  const auto first = [&](int32_t a, int32_t b) { return std::max(0, (std::min(a, b) - reach) / kGrid); };
  const auto last = [&](int32_t a, int32_t b) {
    return std::min(kDigitSide - 1, (std::max(a, b) + reach) / kGrid);
  };
  const int32_t x_first = first(s.ax, s.bx), x_last = last(s.ax, s.bx);
  for (int32_t y = first(s.ay, s.by); y <= last(s.ay, s.by); ++y) {
    const int32_t py = y * kGrid + kGrid / 2 - s.ay;
    int32_t* row = canvas.data() + y * kDigitSide;
    for (int32_t x = x_first; x <= x_last; ++x) {
      const int32_t px = x * kGrid + kGrid / 2 - s.ax;
      const int32_t along = (px * s.tx + py * s.ty) >> kUnitBits;
      const int32_t across = (px * s.ty - py * s.tx) >> kUnitBits;
      const int32_t beyond = along - std::clamp(along, 0, s.length);
      row[x] = std::min(row[x], across * across + beyond * beyond);
    }
  }
}

// Converts distances to ink in [0, 255]: full ink within the pen's radius, then a linear decrease over its
// edge.
inline void ink_from_distance(Canvas& canvas, int32_t radius, int32_t edge, int32_t ink) {
  const int32_t slope = (ink << 12) / edge;
  for (int32_t& v : canvas) {
    const auto distance = static_cast<int32_t>(std::sqrt(static_cast<float>(v)));
    v = std::clamp(((radius + edge / 2 - distance) * slope) >> 12, 0, ink);
  }
}

// Blends in the 3 x 3 binomial filter with weight share / 256; pixels outside the image are empty.
inline void blur(Canvas& canvas, int32_t share) {
  constexpr int kPaddedSide = kDigitSide + 2;
  std::array<int32_t, kPaddedSide * kPaddedSide> padded{};
  for (int y = 0; y < kDigitSide; ++y) {
    for (int x = 0; x < kDigitSide; ++x)
      padded[static_cast<size_t>((y + 1) * kPaddedSide + x + 1)] =
          canvas[static_cast<size_t>(y * kDigitSide + x)];
  }
  for (int y = 0; y < kDigitSide; ++y) {
    const int32_t* above = padded.data() + y * kPaddedSide;
    const int32_t *here = above + kPaddedSide, *below = here + kPaddedSide;
    int32_t* row = canvas.data() + y * kDigitSide;
    for (int x = 0; x < kDigitSide; ++x) {
      const int32_t sides = above[x] + 2 * above[x + 1] + above[x + 2] + 2 * here[x] + 4 * here[x + 1] +
                            2 * here[x + 2] + below[x] + 2 * below[x + 1] + below[x + 2];
      row[x] = (sides * share + 16 * here[x + 1] * (256 - share)) >> 12;
    }
  }
}

// Adds nearly normal noise to each pixel: the sum of four random bytes has mean 510 and standard deviation
// 147.8.
inline void add_noise(Canvas& canvas, double sigma, Draws& draws) {
  const auto scale = static_cast<int32_t>(sigma * 255 / 147.8 * 65536);
  for (int32_t& v : canvas) {
    const uint32_t w = draws.word();
    const uint32_t sum = (w & 255) + ((w >> 8) & 255) + ((w >> 16) & 255) + (w >> 24);
    v = std::clamp(v + (((static_cast<int32_t>(sum) - 510) * scale) >> 16), 0, 255);
  }
}

// Draws a faint ruled line, horizontal or vertical, on a quarter of the images. A fully connected network has
// to learn each position of the line separately; a convolution learns the line once.
inline void draw_ruled_line(Canvas& canvas, Draws& draws) {
  if (draws.below(4) != 0) return;
  const double place = draws.uniform(0, kDigitSide), tilt = draws.uniform(-2, 2);
  const bool down = draws.below(2) == 1;
  const auto ink = static_cast<int32_t>(255 * draws.uniform(kRuleMin, kRuleMax));
  const auto at = [&](double along, double across) {
    return down ? Point{across, along} : Point{along, across};
  };
  std::vector<Segment> line;
  add_segment(line, at(-4, place - tilt), at(kDigitSide + 4, place + tilt));
  Canvas rule;
  rule.fill(1 << 28);
  lower_to_segment_distance(rule, line[0], 2 * kGrid);
  ink_from_distance(rule, kGrid / 2, kGrid, ink);
  for (size_t k = 0; k < canvas.size(); ++k) canvas[k] = std::max(canvas[k], rule[k]);
}

inline int64_t draw_sample(uint64_t seed, int64_t sample, float* image) {
  Draws draws(seed, sample);
  const int64_t label = draws.below(10);
  std::vector<Segment> path;
  path.reserve(64);
  write_digit(path, label, draws);
  const auto grid = [](double pixels) { return static_cast<int32_t>(pixels * kGrid); };
  const int32_t radius = grid(draws.uniform(kRadiusMin, kRadiusMax));
  const int32_t edge = grid(draws.uniform(kEdgeMin, kEdgeMax));
  const auto ink = static_cast<int32_t>(255 * draws.uniform(kInkMin, 1.0));
  const auto blurred = static_cast<int32_t>(draws.below(256));
  Canvas canvas;
  canvas.fill(1 << 28);
  for (const Segment& s : path) lower_to_segment_distance(canvas, s, radius + edge);
  ink_from_distance(canvas, radius, edge, ink);
  draw_ruled_line(canvas, draws);
  blur(canvas, blurred);
  add_noise(canvas, draws.uniform(0, kNoiseMax), draws);
  for (size_t k = 0; k < canvas.size(); ++k) image[k] = static_cast<float>(canvas[k]) / 255.0f;
  return label;
}

}  // namespace handwriting

inline Digits digits(int64_t n, uint64_t seed, int64_t first, Loc loc) {
  if (n < 0 || first < 0) {
    fail("TT-DATA-01",
         "digits: cannot draw " + std::to_string(n) + " samples from sample " + std::to_string(first) +
             "\n  hint: both counts must be >= 0",
         loc);
  }
  Digits out{empty({n, 1, kDigitSide, kDigitSide}, DType::f32, cpu, loc), empty({n}, DType::i64, cpu, loc)};
  float* images = out.images.data<float>();
  int64_t* labels = out.labels.data<int64_t>();
  parallel_for(n, 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      labels[i] = handwriting::draw_sample(seed, first + i, images + i * kDigitPixels);
    }
  });
  return out;
}

}  // namespace tinytorch::inline TT_BUILD
