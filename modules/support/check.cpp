#include <support/check.hpp>

namespace course {

void count_a_check() { CHECK(true); }
void not_equal(const std::string& what, const std::string& want, const std::string& got) {
  throw Mismatch(what + "\n  expected  " + want + "\n  got       " + got);
}
void expect(const std::string& what, bool holds, const std::string& why) {
  count_a_check();
  if (!holds) throw Mismatch(what + "\n  this must hold, but does not" + (why.empty() ? "" : "\n  " + why));
}

void expect_close(const std::string& what, const Numbers& got, const Numbers& want, const Shape& shape,
                  const Tolerance& tolerance) {
  count_a_check();
  if (got.size() != want.size()) {
    not_equal(what, std::to_string(want.size()) + " values", std::to_string(got.size()));
  }
  const double arithmetic = epsilon_of(tolerance.dtype == f64 ? f64 : f32);
  const bool floating = is_floating(tolerance.dtype);
  std::vector<bool> wrong(got.size());
  size_t count = 0, worst = 0;
  double largest = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = got[i], w = want[i];
    double allowed = 0;
    if (floating) {
      allowed = tolerance.roundings * arithmetic * (tolerance.scale + std::abs(w)) +
                epsilon_of(tolerance.dtype) * std::abs(w) + (tolerance.dtype == f16 ? 1e-7 : 0);
    }
    const bool special = !std::isfinite(w);
    const bool good = special ? (std::isnan(w) ? std::isnan(g) : g == w) : std::abs(g - w) <= allowed;
    if (good) continue;
    wrong[i] = true;
    ++count;
    const double error = std::isfinite(g - w) ? std::abs(g - w) : HUGE_VAL;
    if (error > largest) largest = error, worst = i;
  }
  if (count == 0) return;
  std::string text = what + "\n  worst at  " + index_of(shape, static_cast<int64_t>(worst)).str() + " of " +
                     shape.str() + " (" + name_of(tolerance.dtype) + ")\n  expected  " + shown(want[worst]) +
                     "\n  got       " + shown(got[worst]) + "\n  wrong     " + std::to_string(count) +
                     " of " + std::to_string(got.size()) + " values";
  const std::string pattern = pattern_of(got, want, wrong, shape, tolerance.dtype);
  if (!pattern.empty()) text += "\n  it looks  " + pattern;
  throw Mismatch(text);
}
void expect_close(const std::string& what, Values& got, const Numbers& want, Tolerance tolerance) {
  tolerance.dtype = got.dtype();
  expect_close(what, got.numbers(), want, got.shape(), tolerance);
}

}  // namespace course
