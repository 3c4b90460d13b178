#include <support/pattern.hpp>

namespace course {

Shape index_of(const Shape& shape, int64_t linear) {
  Shape at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = linear % shape[d];
    linear /= shape[d];
  }
  return at;
}

namespace {

// The numbers of a result that differ from the expected ones. There is at least one.
class WrongNumbers {
 public:
  WrongNumbers(const Numbers& got, const Numbers& want, const std::vector<bool>& wrong, const Shape& shape,
               DType dtype)
      : got_(got), want_(want), wrong_(wrong), shape_(shape), dtype_(dtype), last_(got.size()) {
    while (first_ < last_ && !wrong_[first_]) ++first_;
    while (last_ > first_ && !wrong_[last_ - 1]) --last_;
  }
  // A guess at the mistake, or an empty string.
  std::string pattern() const {
    for (const auto part :
         {&WrongNumbers::of_zeros, &WrongNumbers::of_special_values, &WrongNumbers::of_few_digits,
          &WrongNumbers::of_rubbish, &WrongNumbers::of_places, &WrongNumbers::of_sizes}) {
      std::string found = (this->*part)();
      if (!found.empty()) return found;
    }
    return "";
  }

 private:
  std::string of_zeros() const {
    if (!every([&](size_t i) { return got_[i] == 0; })) return "";
    if (first_ == 0 && last_ == got_.size())
      return "all zero: a factor is 0, nothing was added to a sum that began at 0, or the result went "
             "elsewhere";
    if (tail()) return "like missing remainder elements: all values from " + place(first_) + " on are zero";
    return "as if some elements were skipped: they are zero";
  }
  std::string of_special_values() const {
    if (every([&](size_t i) { return std::isnan(got_[i]); })) {
      const int64_t row = shape_.size() > 0 ? std::max<int64_t>(shape_.back(), 1) : 1;
      return "NaN from row " + std::to_string(static_cast<int64_t>(first_) / row) +
             " on: the cause can be inf - inf, 0 / 0, or memory that held no result yet";
    }
    if (every([&](size_t i) { return std::isinf(got_[i]); }))
      return "infinite: a value overflowed, or is the logarithm of 0";
    return "";
  }
  std::string of_few_digits() const {
    const bool close = every([&](size_t i) {
      return std::isfinite(want_[i]) && std::abs(got_[i] - want_[i]) <= 1e-5 * std::abs(want_[i]);
    });
    return close ? "right to about six digits: it was computed in float, or with a constant of so few digits"
                 : "";
  }
  std::string of_rubbish() const {
    const double fill = Values::unwritten(dtype_);
    size_t first_unwritten = last_, unwritten = 0, huge = 0;
    for (size_t i = last_; i-- > first_;) {
      if (!wrong_[i]) continue;
      if (std::abs(got_[i]) == fill) {
        first_unwritten = i;
        ++unwritten;
      }
      huge += std::isfinite(got_[i]) && std::abs(got_[i]) > 1e30;
    }
    const std::string from_there = " from " + place(first_unwritten) + " on";
    // Elements of half the size, written one after the other, end at half of the memory.
    const bool rest = last_ == got_.size() && unwritten == last_ - first_unwritten;
    const bool half = first_unwritten > 1 && first_unwritten <= (last_ + 1) / 2;
    if (size_of(dtype_) == 8 && rest && half && count_wrong(first_unwritten) == first_unwritten) {
      return std::string("as if it was written in a dtype narrower than ") + name_of(dtype_) +
             ": the memory is as it was" + from_there + ". Is the dtype passed on?";
    }
    // A single byte may have the value of unwritten memory by chance.
    if (unwritten > 0 && (size_of(dtype_) > 1 || unwritten == count_wrong(last_)))
      return "as if no value was written here, or each one to another address: the memory is as it was" +
             from_there;
    if (huge > 0)
      return "like arbitrary bits: they are of another dtype (is it passed on?), or of memory that holds no "
             "result";
    return "";
  }
  std::string of_places() const {
    if (shape_.size() == 2 && shape_[0] > 1 && shape_[1] > 1) {
      bool transposed = true;
      for (int64_t r = 0; r < shape_[0]; ++r) {
        for (int64_t c = 0; c < shape_[1]; ++c) {
          transposed = transposed && near(got_[static_cast<size_t>(c * shape_[0] + r)],
                                          want_[static_cast<size_t>(r * shape_[1] + c)]);
        }
      }
      if (transposed) return "transposed: rows and columns are exchanged";
    }
    return "";
  }
  std::string of_sizes() const {
    if (std::abs(want_[first_]) > 1e-6 && last_ - first_ > 1) {
      const double factor = got_[first_] / want_[first_];
      if (every([&](size_t i) { return near(got_[i], factor * want_[i]); }))
        return "scaled: every wrong value is " + shown(factor) + " times the expected one";
    }
    const double shift = got_[first_] - want_[first_];
    if (last_ - first_ > 2 && every([&](size_t i) { return near(got_[i] - want_[i], shift); }))
      return "shifted: every wrong value differs from the expected one by " + shown(shift);
    if (last_ - first_ > 2 && tail())
      return "as if only the last elements were wrong, from " + place(first_) + " on";
    return "";
  }

  size_t count_wrong(size_t end) const {
    size_t count = 0;
    for (size_t i = 0; i < end; ++i) count += wrong_[i];
    return count;
  }
  template <class F>
  bool every(F&& holds) const {
    for (size_t i = 0; i < got_.size(); ++i) {
      if (wrong_[i] && !holds(i)) return false;
    }
    return true;
  }
  bool tail() const { return last_ == got_.size() && first_ > got_.size() / 2; }
  std::string place(size_t i) const { return index_of(shape_, static_cast<int64_t>(i)).str(); }
  static bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * (std::abs(a) + std::abs(b)); }

  const Numbers &got_, &want_;
  const std::vector<bool>& wrong_;
  const Shape& shape_;
  const DType dtype_;
  size_t first_ = 0, last_;  // the first wrong number, and the position after the last one
};

}  // namespace

std::string pattern_of(const Numbers& got, const Numbers& want, const std::vector<bool>& wrong,
                       const Shape& shape, DType dtype) {
  return WrongNumbers(got, want, wrong, shape, dtype).pattern();
}

}  // namespace course
