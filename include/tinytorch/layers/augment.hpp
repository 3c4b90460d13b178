// Data augmentation: random changes of an image that do not change its class.
//
//   options.augment = tt::compose({tt::random_affine({.degrees = 10}), tt::random_flip(0.5)});
//
// An augmentation draws random numbers only from the generator that is passed to it. The loader derives that
// generator from (seed, epoch, sample), so the augmented sample does not depend on the number of workers, and
// differs in every epoch.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <tinytorch/core/error.hpp>
#include <tinytorch/core/random.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD {

// One sample [C, H, W], row-major.
struct Image {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<float> values;
  // Pixels outside the image are 0.
  float at(int64_t c, int64_t y, int64_t x) const {
    if (y < 0 || y >= height || x < 0 || x >= width) return 0;
    return values[static_cast<size_t>((c * height + y) * width + x)];
  }
};

using Augmentation = std::function<void(Image& image, Generator& generator)>;

// Applies the steps in order.
inline Augmentation compose(std::vector<Augmentation> steps) {
  return [steps = std::move(steps)](Image& image, Generator& generator) {
    for (const Augmentation& step : steps) step(image, generator);
  };
}

// The window of size height x width whose upper left corner is (top, left). Pixels outside the image are 0.
inline Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image out{image.channels, height, width, {}};
  out.values.reserve(static_cast<size_t>(image.channels * height * width));
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) out.values.push_back(image.at(c, top + y, left + x));
    }
  }
  return out;
}

// Shifts the image by a whole number of pixels in [-pixels, pixels] along each axis, and fills with zeros.
inline Augmentation random_shift(int64_t pixels, TT_LOC) {
  if (pixels < 0) fail("TT-DATA-10", "random_shift: pixels must be >= 0", loc);
  return [=](Image& image, Generator& generator) {
    const auto choices = static_cast<uint64_t>(2 * pixels + 1);
    const int64_t top = static_cast<int64_t>(generator.below(choices)) - pixels;
    const int64_t left = static_cast<int64_t>(generator.below(choices)) - pixels;
    image = crop(image, top, left, image.height, image.width);
  };
}

// A random window of height x width from the image, after it is padded with `padding` zeros on each side.
inline Augmentation random_crop(int64_t height, int64_t width, int64_t padding = 0, TT_LOC) {
  if (height < 1 || width < 1 || padding < 0) {
    fail("TT-DATA-10", "random_crop: needs height and width >= 1 and padding >= 0", loc);
  }
  return [=](Image& image, Generator& generator) {
    const int64_t rows = image.height + 2 * padding - height, columns = image.width + 2 * padding - width;
    if (rows < 0 || columns < 0) {
      fail("TT-DATA-10",
           "random_crop: a window of " + std::to_string(height) + " x " + std::to_string(width) +
               " does not fit into an image of " + std::to_string(image.height) + " x " +
               std::to_string(image.width) + " with padding " + std::to_string(padding),
           loc);
    }
    const auto top = static_cast<int64_t>(generator.below(static_cast<uint64_t>(rows + 1))) - padding;
    const auto left = static_cast<int64_t>(generator.below(static_cast<uint64_t>(columns + 1))) - padding;
    image = crop(image, top, left, height, width);
  };
}

// Flips the image horizontally with probability p.
inline Augmentation random_flip(double p = 0.5, TT_LOC) {
  if (!(p >= 0 && p <= 1)) fail("TT-DATA-10", "random_flip: p must be in [0, 1]", loc);
  return [=](Image& image, Generator& generator) {
    if (generator.uniform() >= p) return;
    for (auto row = image.values.begin(); row != image.values.end(); row += image.width) {
      std::reverse(row, row + image.width);
    }
  };
}

// Affine resampling: output pixel (y, x) is read at A (y, x) - (dy, dx), where both are measured from the
// centre. A has the rows (a, b) and (c, d). The interpolation is bilinear, and pixels outside the image are
// 0.
inline Image resample(const Image& image, double a, double b, double c, double d, double dy, double dx) {
  Image out = image;
  const double cy = 0.5 * static_cast<double>(image.height - 1),
               cx = 0.5 * static_cast<double>(image.width - 1);
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x) {
      const double v = static_cast<double>(y) - cy, u = static_cast<double>(x) - cx;
      const double from_y = a * v + b * u - dy + cy, from_x = c * v + d * u - dx + cx;
      const double y0 = std::floor(from_y), x0 = std::floor(from_x);
      const auto fy = static_cast<float>(from_y - y0), fx = static_cast<float>(from_x - x0);
      const auto iy = static_cast<int64_t>(y0), ix = static_cast<int64_t>(x0);
      for (int64_t ch = 0; ch < image.channels; ++ch) {
        const float top = image.at(ch, iy, ix) * (1 - fx) + image.at(ch, iy, ix + 1) * fx;
        const float bottom = image.at(ch, iy + 1, ix) * (1 - fx) + image.at(ch, iy + 1, ix + 1) * fx;
        out.values[static_cast<size_t>((ch * image.height + y) * image.width + x)] =
            top * (1 - fy) + bottom * fy;
      }
    }
  }
  return out;
}

struct AffineOptions {
  double degrees = 0;  // rotation in [-degrees, degrees]
  double shift = 0;    // translation in [-shift, shift] pixels along each axis, fractions included
  double scale = 0;    // size factor in [1 - scale, 1 + scale]
  double shear = 0;    // horizontal shear in [-shear, shear], in pixels per pixel
};
// Rotation, translation, scaling and shear about the centre, in one interpolation, so that the image is
// blurred only once.
inline Augmentation random_affine(AffineOptions options, TT_LOC) {
  if (!(options.scale >= 0 && options.scale < 1)) {
    fail("TT-DATA-10", "random_affine: scale must be in [0, 1): the size factor is in [1 - scale, 1 + scale]",
         loc);
  }
  return [=](Image& image, Generator& generator) {
    const double angle = generator.uniform(-options.degrees, options.degrees) * std::numbers::pi / 180;
    const double dy = generator.uniform(-options.shift, options.shift);
    const double dx = generator.uniform(-options.shift, options.shift);
    const double size = generator.uniform(1 - options.scale, 1 + options.scale);
    const double slant = generator.uniform(-options.shear, options.shear);
    const double s = std::sin(angle) / size, c = std::cos(angle) / size;
    image = resample(image, c, -s, s + slant * c, c - slant * s, dy, dx);
  };
}
inline Augmentation random_rotate(double degrees) { return random_affine({.degrees = degrees}); }

}  // namespace tinytorch::inline TT_BUILD
