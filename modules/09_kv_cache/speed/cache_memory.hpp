// A cache of random keys and values for speed programs: B sequences of T tokens, each with one new row.
#pragma once

#include <support/speed.hpp>
#include <tinytorch/backend/kv_view.hpp>

namespace course {

class CacheMemory {
 public:
  // page 0: each sequence in one piece; else pages of so many tokens, in the reverse order of the tokens.
  CacheMemory(DType dtype, int64_t B, int64_t T, int64_t G, int64_t D, int64_t page = 0)
      : planes_{random(dtype, shape_of(B, T, G, D, page)), random(dtype, shape_of(B, T, G, D, page))} {
    const int64_t width = page > 0 ? (T + page - 1) / page : 1;
    Numbers pages, first;
    for (int64_t p = B * width; p-- > 0;) pages.push_back(static_cast<double>(p));
    for (int64_t b = 0; b <= B; ++b) first.push_back(static_cast<double>(b));
    table_ = held(Values::of(i32, {B * width}, pages));
    lengths_ = held(Values::of(i64, {B}, Numbers(static_cast<size_t>(B), static_cast<double>(T))));
    first_ = held(Values::of(i64, {B + 1}, first));
    view_.keys = planes_[0]->view().data, view_.values = planes_[1]->view().data, view_.dtype = dtype;
    view_.batch = B, view_.groups = G, view_.head_size = D, view_.page = page > 0 ? page : T;
    if (page > 0) view_.table = table_->view().as<const int32_t>(), view_.table_width = width;
    view_.lengths = lengths_->view().as<const int64_t>(),
    view_.first_row = first_->view().as<const int64_t>();
    view_.longest = T, view_.most_rows = 1;
    bytes_ = 2.0 * static_cast<double>(B * T * G * D) * static_cast<double>(size_of(dtype));
  }
  const backend::KvView& view() const { return view_; }
  double bytes() const { return bytes_; }

 private:
  static Shape shape_of(int64_t B, int64_t T, int64_t G, int64_t D, int64_t page) {
    return page > 0 ? Shape{B * ((T + page - 1) / page), G, page, D} : Shape{B, G, T, D};
  }

  Held planes_[2], table_, lengths_, first_;
  backend::KvView view_;
  double bytes_ = 0;
};

}  // namespace course
