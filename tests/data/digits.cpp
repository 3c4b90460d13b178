// Synthetic digits: reproducible, independent of how ranges are split, and consistent with their geometry.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <support/whole_numbers.hpp>
#include <tinytorch/data/digits.hpp>

namespace tt = tinytorch;
namespace hw = tt::handwriting;

namespace {

// Ink as integers 0 to 255; checks that the values are exact multiples of 1/255.
std::vector<int> levels(const tt::Tensor& images) {
  std::vector<int> out;
  bool exact = true;
  for (float v : images.to_vector<float>()) {
    const int level = static_cast<int>(std::lround(v * 255));
    exact = exact && level >= 0 && level <= 255 && v == static_cast<float>(level) / 255.0f;
    out.push_back(level);
  }
  CHECK(exact);
  return out;
}

std::vector<int64_t> labels_of(const tt::Digits& d) {
  const int64_t* p = d.labels.data<int64_t>();
  return {p, p + d.labels.numel()};
}

double distance_to_segment(double x, double y, hw::Point a, hw::Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, squared = dx * dx + dy * dy;
  double t = squared > 0 ? ((x - a.x) * dx + (y - a.y) * dy) / squared : 0;
  t = t < 0 ? 0 : (t > 1 ? 1 : t);
  return std::hypot(x - a.x - t * dx, y - a.y - t * dy);
}

tt::Generator numbers(91);

}  // namespace

TEST_CASE("digits: shapes, dtypes and every label") {
  const tt::Digits d = tt::digits(10000, 5);
  CHECK(d.images.shape() == tt::Shape{10000, 1, 28, 28});
  CHECK(d.images.dtype() == tt::DType::f32);
  CHECK(d.labels.shape() == tt::Shape{10000});
  CHECK(d.labels.dtype() == tt::DType::i64);
  std::vector<double> count(10, 0.0);
  for (int64_t label : labels_of(d)) {
    REQUIRE(label >= 0);
    REQUIRE(label < 10);
    ++count[static_cast<size_t>(label)];
  }
  double chi_squared = 0;
  for (double c : count) chi_squared += (c - 1000) * (c - 1000) / 1000;
  CHECK(chi_squared < 27.9);  // 0.1 % point for 9 degrees of freedom
  CHECK(tt::digits(0, 5).images.shape() == tt::Shape{0, 1, 28, 28});
}

// One checksum for all compilers and flags except -ffast-math, which may replace the square root. The
// renderer is integer arithmetic, and the geometry is rounded to 2^-8 pixel, so that a last-bit difference of
// 2^-48 changes the result in about one of 10^10 samples.
TEST_CASE("digits: golden checksum") {
  const tt::Digits d = tt::digits(500, 1);
  uint64_t hash = 14695981039346656037ull;
  for (int level : levels(d.images)) hash = test::fnv1a(hash, level);
  for (int64_t label : labels_of(d)) hash = test::fnv1a(hash, label);
  CHECK(hash == 3960828837040817711ull);
}

TEST_CASE("digits: samples do not depend on the count, the range or the number of threads") {
  const tt::Digits all = tt::digits(70, 3);
  const std::vector<float> images = all.images.to_vector<float>();
  const std::vector<int64_t> labels = labels_of(all);
  const auto check_range = [&](int64_t first, int64_t n) {
    const tt::Digits part = tt::digits(n, 3, first);
    const float* whole = images.data() + first * tt::kDigitPixels;
    CHECK(std::memcmp(part.images.data<float>(), whole, static_cast<size_t>(n) * tt::kDigitPixels * 4) == 0);
    for (int64_t i = 0; i < n; ++i) {
      CHECK(part.labels.data<int64_t>()[i] == labels[static_cast<size_t>(first + i)]);
    }
  };
  const int threads = tt::thread_count();
  for (int count : {1, 2, 3, 7}) {
    tt::set_thread_count(count);
    check_range(0, 70);
    check_range(0, 37);
    check_range(53, 17);
    check_range(69, 1);
  }
  tt::set_thread_count(threads);
}

TEST_CASE("digits: all samples and seeds differ") {
  const std::vector<float> a = tt::digits(200, 1).images.to_vector<float>();
  const std::vector<float> b = tt::digits(200, 2).images.to_vector<float>();
  CHECK(labels_of(tt::digits(200, 1)) != labels_of(tt::digits(200, 2)));
  const size_t size = tt::kDigitPixels;
  for (size_t i = 0; i < 200; ++i) {
    const auto image = [&](const std::vector<float>& v, size_t k) {
      return std::vector<float>(v.begin() + static_cast<std::ptrdiff_t>(k * size),
                                v.begin() + static_cast<std::ptrdiff_t>((k + 1) * size));
    };
    CHECK(image(a, i) != image(b, i));
    if (i > 0) CHECK(image(a, i) != image(a, i - 1));
  }
}

// Readable digits have some ink, not too much of it, and inside the image.
TEST_CASE("digits: ink is present, thin and mostly inside") {
  const std::vector<int> ink = levels(tt::digits(1000, 8).images);
  for (size_t i = 0; i < 1000; ++i) {
    int dark = 0, largest = 0, border = 0;
    for (int k = 0; k < tt::kDigitPixels; ++k) {
      const int v = ink[i * tt::kDigitPixels + static_cast<size_t>(k)];
      const int x = k % 28, y = k / 28;
      largest = std::max(largest, v);
      dark += v > 110;
      border += v > 110 && (x == 0 || y == 0 || x == 27 || y == 27);
    }
    CHECK(largest > 100);
    CHECK(dark < 330);
    CHECK(border < 20);
  }
}

TEST_CASE("digits: a negative count or start is an error") {
  try {
    tt::digits(-1, 1);
    FAIL("accepted");
  } catch (const tt::Error& e) {
    CHECK(e.code() == "TT-DATA-01");
    CHECK(std::string(e.what()).find("digits.cpp") != std::string::npos);
  }
  CHECK_THROWS_AS(tt::digits(1, 1, -1), tt::Error);
}

TEST_CASE("handwriting: the distance field agrees with a direct computation") {
  for (int trial = 0; trial < 200; ++trial) {
    // Trial 0 is a dot, trial 1 horizontal, trial 2 vertical; some are partly outside the image.
    hw::Point a{numbers.uniform(-5, 33), numbers.uniform(-5, 33)};
    hw::Point b{numbers.uniform(-5, 33), numbers.uniform(-5, 33)};
    if (trial == 0 || trial == 1) b.y = a.y;
    if (trial == 0 || trial == 2) b.x = a.x;
    std::vector<hw::Segment> path;
    hw::add_segment(path, a, b);
    hw::Canvas canvas;
    canvas.fill(1 << 28);
    const double reach = 3.0;
    hw::lower_to_segment_distance(canvas, path[0], static_cast<int32_t>(reach * hw::kGrid));
    for (int k = 0; k < tt::kDigitPixels; ++k) {
      const double expected = distance_to_segment(k % 28 + 0.5, k / 28 + 0.5, a, b);
      const double got = std::sqrt(static_cast<double>(canvas[static_cast<size_t>(k)])) / hw::kGrid;
      if (expected < reach - 0.6) CHECK(std::abs(got - expected) < 0.02);
      CHECK(got > expected - 0.02);  // unchanged pixels are far away
    }
  }
}

TEST_CASE("handwriting: strokes pass through end points, corners and midpoints between smooth points") {
  const hw::Stroke stroke = {{0, 0}, {0, 10}, {10, 10}, {20, 10, hw::corner}, {20, 20}, {10, 25}};
  std::vector<hw::Point> points;
  for (const hw::ControlPoint& p : stroke) points.push_back({p.x, p.y});
  std::vector<hw::Segment> path;
  hw::add_stroke(path, stroke, points);
  const auto nearest = [&](double x, double y) {
    double best = 1e9;
    for (const hw::Segment& s : path) {
      best = std::min(best,
                      distance_to_segment(x, y, {s.ax / 256.0, s.ay / 256.0}, {s.bx / 256.0, s.by / 256.0}));
    }
    return best;
  };
  for (hw::Point on : {hw::Point{0, 0}, {5, 10}, {20, 10}, {10, 25}}) CHECK(nearest(on.x, on.y) < 0.01);
  // A quadratic curve with control point c is at (a + 2c + b) / 4 halfway.
  CHECK(nearest((0 + 2 * 0 + 5) / 4.0, (0 + 2 * 10 + 10) / 4.0) < 0.01);
  for (hw::Point off : {hw::Point{0, 10}, {20, 20}}) CHECK(nearest(off.x, off.y) > 1);
  for (size_t k = 1; k < path.size(); ++k) {  // the path is connected
    CHECK(path[k].ax == path[k - 1].bx);
    CHECK(path[k].ay == path[k - 1].by);
  }
}

TEST_CASE("handwriting: ink decreases from full to 0 over the edge of the pen") {
  hw::Canvas canvas{};
  for (size_t k = 0; k < canvas.size(); ++k) {
    const auto distance = static_cast<int32_t>(k);  // 0 to 783, in units of 1/256 pixel
    canvas[k] = distance * distance;
  }
  hw::ink_from_distance(canvas, 300, 200, 180);
  for (size_t k = 0; k < canvas.size(); ++k) {
    const double share = std::clamp((300 + 100 - static_cast<double>(k)) / 200, 0.0, 1.0);
    CHECK(std::abs(canvas[k] - 180 * share) <= 1.01);
  }
  CHECK(canvas[150] == 180);
  CHECK(canvas[401] == 0);
}

TEST_CASE("handwriting: a quarter of the images has a ruled line from edge to edge, horizontal or vertical") {
  int across = 0, down = 0;
  for (int64_t sample = 0; sample < 2000; ++sample) {
    hw::Draws draws(23, sample);
    hw::Canvas canvas{};
    hw::draw_ruled_line(canvas, draws);
    int rows = 0, columns = 0;
    for (size_t a = 0; a < 28; ++a) {
      bool row = false, column = false;
      for (size_t b = 0; b < 28; ++b) {
        row = row || canvas[a * 28 + b] > 0;
        column = column || canvas[b * 28 + a] > 0;
      }
      rows += row, columns += column;
    }
    across += columns > 14 && rows < 10;  // a line near the border may leave the image
    down += rows > 14 && columns < 10;
    CHECK(std::min(rows, columns) < 10);
  }
  // 2,000 images with probability 1/8 each: 250 expected, with a standard deviation of 15.
  CHECK(std::abs(across - 250) < 70);
  CHECK(std::abs(down - 250) < 70);
}

TEST_CASE("handwriting: blur blends in the binomial filter with the given weight") {
  hw::Canvas source{};
  for (int32_t& v : source) v = static_cast<int32_t>(numbers.below(256));
  for (int32_t share : {0, 77, 256}) {
    hw::Canvas canvas = source;
    hw::blur(canvas, share);
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        double average = 0;
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx) {
            const int u = x + dx, v = y + dy;
            if (u < 0 || v < 0 || u > 27 || v > 27) continue;
            average +=
                (2 - std::abs(dx)) * (2 - std::abs(dy)) / 16.0 * source[static_cast<size_t>(v * 28 + u)];
          }
        }
        const double own = source[static_cast<size_t>(y * 28 + x)];
        const double expected = own + (average - own) * share / 256.0;
        const int got = canvas[static_cast<size_t>(y * 28 + x)];
        CHECK(got <= expected + 1e-9);
        CHECK(got > expected - 1);
      }
    }
  }
}

TEST_CASE("handwriting: noise has the given mean and deviation and stays in range") {
  double sum = 0, squares = 0, count = 0;
  for (int64_t sample = 0; sample < 100; ++sample) {
    hw::Draws draws(17, sample);
    hw::Canvas canvas;
    canvas.fill(128);
    hw::add_noise(canvas, 0.1, draws);
    for (int32_t v : canvas) {
      const double d = v - 128;
      sum += d, squares += d * d, ++count;
    }
  }
  // 78,400 pixels: the standard error of the mean is 0.09. Rounding down costs half a level.
  CHECK(std::abs(sum / count + 0.5) < 0.4);
  CHECK(std::sqrt(squares / count) == doctest::Approx(25.5).epsilon(0.02));
  hw::Draws draws(1, 0);
  hw::Canvas canvas{};
  hw::add_noise(canvas, 1.0, draws);
  CHECK(*std::min_element(canvas.begin(), canvas.end()) == 0);
  CHECK(*std::max_element(canvas.begin(), canvas.end()) <= 255);
}

TEST_CASE("handwriting: the nearly normal number has unit deviation and is bounded") {
  double sum = 0, squares = 0, largest = 0;
  hw::Draws draws(4, 2);
  for (int k = 0; k < 100000; ++k) {
    const double x = draws.bell(1.0);
    largest = std::max(largest, std::abs(x));
    sum += x, squares += x * x;
  }
  CHECK(largest < 3.4642);
  CHECK(std::abs(sum / 100000) < 0.016);  // five standard errors
  CHECK(squares / 100000 == doctest::Approx(1).epsilon(0.02));
}
