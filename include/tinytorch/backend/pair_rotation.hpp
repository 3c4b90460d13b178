// The angle that each token has in a rotation of pairs, for both devices.
#pragma once

#include <tinytorch/backend/view.hpp>

namespace tinytorch::inline TT_BUILD::backend {

// Token t has the angles of row first + t of the tables, or of row positions[t].
struct PairRotation {
  View cos, sin;         // f32 [P, R / 2], contiguous
  View positions = {};   // i64 [T], contiguous, or without data
  int64_t first = 0;     // without positions
  bool inverse = false;  // by minus the angle

  int64_t half() const { return cos.shape[1]; }
};

}  // namespace tinytorch::inline TT_BUILD::backend
