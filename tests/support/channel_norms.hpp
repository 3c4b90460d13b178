// Operands and shapes for tests of the channel norms (batch_norm, group_norm).
#pragma once

#include <support/array.hpp>
#include <support/references.hpp>

namespace test {

struct ChannelOperands {
  Array x, dy, w, b, y, dx, dw, db;
  ChannelOperands(const Shape& s, DType t, Layout l, Layout of_results = Layout::dense)
      : x(Array::random(t, s, 1, -1, 3, l)),
        dy(Array::random(t, s, 2, -1, 1, l)),
        w(Array::random(t, {s[1]}, 3, 0.5, 2, l)),
        b(Array::random(t, {s[1]}, 4, -1, 1, l)),
        y(t, s, of_results),
        dx(t, s, of_results),
        dw(t, {s[1]}),
        db(t, {s[1]}) {}
  void check(const NormExpected& e, DType t, double steps) {
    check_close(y.values(), e.y, t, 40, 4);
    check_close(dx.values(), e.dx, t, steps, 4);
    check_close(dw.values(), e.dw, t, steps, 4);
    check_close(db.values(), e.db, t, steps, 4);
  }
};

inline const Shape kChannelShapes[] = {{2, 1},    {5, 3},        {17, 33},      {64, 130},     {3, 2, 7},
                                       {4, 6, 1}, {2, 4, 5, 13}, {9, 8, 3, 11}, {1, 4, 40, 50}};

}  // namespace test
