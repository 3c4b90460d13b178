#include <tinytorch/layers/augment.hpp>

#include <set>

#include <support/errors.hpp>

namespace tt = tinytorch;

namespace {
// Two channels of 3 x 4: 1..12 and 101..112.
tt::Image sample() {
  tt::Image image{2, 3, 4, {}};
  for (int c = 0; c < 2; ++c) {
    for (int i = 1; i <= 12; ++i) image.values.push_back(static_cast<float>(100 * c + i));
  }
  return image;
}
}  // namespace

TEST_CASE("crop copies a window and fills with zeros outside the image") {
  const tt::Image out = tt::crop(sample(), -1, 2, 3, 3);
  CHECK(out.values == std::vector<float>{0, 0, 0, 3, 4, 0, 7, 8, 0, 0, 0, 0, 103, 104, 0, 107, 108, 0});
}

TEST_CASE("random_shift produces every displacement in its range and no other") {
  tt::Generator g(1);
  const tt::Augmentation shift = tt::random_shift(1);
  std::set<std::vector<float>> seen;
  for (int i = 0; i < 400; ++i) {
    tt::Image image = sample();
    shift(image, g);
    seen.insert(image.values);
  }
  std::set<std::vector<float>> expected;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) expected.insert(tt::crop(sample(), dy, dx, 3, 4).values);
  }
  CHECK(seen == expected);
}

TEST_CASE("random_crop produces every window, including those in the padding") {
  tt::Generator g(2);
  const tt::Augmentation crop = tt::random_crop(3, 3, 1);
  std::set<std::vector<float>> seen, expected;
  for (int i = 0; i < 600; ++i) {
    tt::Image image = sample();
    crop(image, g);
    CHECK((image.height == 3 && image.width == 3));
    seen.insert(image.values);
  }
  for (int top = -1; top <= 1; ++top) {
    for (int left = -1; left <= 2; ++left) expected.insert(tt::crop(sample(), top, left, 3, 3).values);
  }
  CHECK(seen == expected);
  tt::Image image = sample();
  CHECK(message_of([&] { tt::random_crop(9, 9)(image, g); }).rfind("TT-DATA-10", 0) == 0);
}

TEST_CASE("random_flip mirrors each row, with the given probability") {
  tt::Image image{1, 2, 3, {1, 2, 3, 4, 5, 6}};
  tt::Generator g(3);
  tt::random_flip(1)(image, g);
  CHECK(image.values == std::vector<float>{3, 2, 1, 6, 5, 4});
  int flipped = 0;
  for (int i = 0; i < 4000; ++i) {
    tt::Image one{1, 1, 2, {0, 1}};
    tt::random_flip(0.25)(one, g);
    flipped += one.values[0] == 1;
  }
  CHECK(std::abs(flipped - 1000) < 110);  // 4 standard deviations
  CHECK(message_of([] { tt::random_flip(1.5); }).rfind("TT-DATA-10", 0) == 0);
}

TEST_CASE("resample: identity, rotation by 90 degrees, shifts by whole and half pixels") {
  const tt::Image square{1, 3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  CHECK(tt::resample(square, 1, 0, 0, 1, 0, 0).values == square.values);
  CHECK(tt::resample(square, 0, -1, 1, 0, 0, 0).values == std::vector<float>{7, 4, 1, 8, 5, 2, 9, 6, 3});
  CHECK(tt::resample(square, 1, 0, 0, 1, 1, 0).values == std::vector<float>{0, 0, 0, 1, 2, 3, 4, 5, 6});
  CHECK(tt::resample(square, 1, 0, 0, 1, 0, 0.5).values ==
        std::vector<float>{0.5, 1.5, 2.5, 2, 4.5, 5.5, 3.5, 7.5, 8.5});
}

TEST_CASE("a rotation barely changes a disc, and changes a bar") {
  tt::Image disc{1, 21, 21, {}}, bar{1, 21, 21, {}};
  for (int y = -10; y <= 10; ++y) {
    for (int x = -10; x <= 10; ++x) {
      disc.values.push_back(std::exp(-static_cast<float>(x * x + y * y) / 18));
      bar.values.push_back(std::abs(x) <= 1 ? 1.f : 0.f);
    }
  }
  const tt::Image disc_before = disc, bar_before = bar;
  tt::Generator g(4);
  tt::random_rotate(90)(disc, g);
  tt::random_rotate(90)(bar, g);
  float disc_change = 0, bar_change = 0;
  for (size_t i = 0; i < disc.values.size(); ++i) {
    disc_change = std::max(disc_change, std::abs(disc.values[i] - disc_before.values[i]));
    bar_change = std::max(bar_change, std::abs(bar.values[i] - bar_before.values[i]));
  }
  CHECK(disc_change <
        1.0f / 36);  // bound of the bilinear error: second derivatives of 1/9 along both axes, over 8
  CHECK(bar_change > 0.5);
}

TEST_CASE("random_affine without ranges is the identity; compose applies its steps in order") {
  tt::Generator g(5);
  tt::Image image = sample();
  tt::random_affine({})(image, g);
  CHECK(image.values == sample().values);
  const auto add = [](tt::Image& i, tt::Generator&) { i.values[0] += 1; };
  const auto twice = [](tt::Image& i, tt::Generator&) { i.values[0] *= 2; };
  tt::compose({add, twice})(image, g);
  CHECK(image.values[0] == 4);
}
