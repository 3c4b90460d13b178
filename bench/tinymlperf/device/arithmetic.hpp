// Arithmetic on shapes in a launch plan: "ceil_div(size(out), 256)", "min(in0[1], 1024)". Its grammar:
//
//   sum       product {+ or - product}
//   product   factor {*, / or % factor}
//   factor    a number, -factor, (sum), T[d]: the size of dimension d, size(T): the number of elements,
//             min(a, b), max(a, b), ceil_div(a, b), power_of_two(a): the smallest power of two >= a
//   T         in0, in1, ... or out
// Numbers are integers of 64 bits; / and % truncate as in C++. Overflow and division by zero are errors.
// There are no loops and no variables, so an evaluation always ends, with the same result on every machine.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/support/json_fields.hpp>
#include <vector>

namespace tinymlperf::device {

// The shapes of a query's inputs and of its output.
struct Shapes {
  std::vector<Shape> in;
  Shape out;
};

// Returns 0 for "in0", 1 for "in1", ... (at most 99), and nothing for other names.
inline std::optional<size_t> input_number(std::string_view name) {
  size_t number = 0;
  if (!name.starts_with("in") || name.size() == 2) return std::nullopt;
  const auto end = std::from_chars(name.data() + 2, name.data() + name.size(), number);
  if (end.ec != std::errc{} || end.ptr != name.data() + name.size() || number > 99) return std::nullopt;
  return number;
}

namespace detail {

// Recursive descent parser that evaluates while it parses.
class Evaluation {
 public:
  // If `shapes` is null, only the syntax is checked, with 1 for the size of each dimension.
  Evaluation(std::string_view text, const Shapes* shapes) : text_(text), shapes_(shapes) {
    if (text.size() > kLongest) fail("expected at most 200 characters");
  }

  int64_t operator()() {
    const int64_t value = sum();
    peek();
    if (at_ < text_.size())
      fail("expected an operator");  // also at a null character, for which peek() returns 0
    return value;
  }

 private:
  static constexpr size_t kLongest = 200;

  [[noreturn]] void fail(const std::string& what) const {
    std::string shown(text_.substr(0, kLongest));
    std::ranges::replace(shown, '\0', '?');  // what() would end at a null character
    throw std::invalid_argument("\"" + shown + "\", character " + std::to_string(at_ + 1) + ": " + what);
  }
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void require(char c) {
    if (!take(c)) fail(std::string("expected ") + c);
  }
  template <bool (*overflows)(int64_t, int64_t, int64_t*)>
  int64_t checked(int64_t a, int64_t b) const {
    int64_t out = 0;
    if (overflows(a, b, &out)) fail("the result does not fit in 64 bits");
    return out;
  }
  static bool add(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
  static bool subtract(int64_t a, int64_t b, int64_t* out) { return __builtin_sub_overflow(a, b, out); }
  static bool multiply(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }
  int64_t divided(int64_t a, int64_t b, bool rest = false) const {
    if (b == 0 && !shapes_) return 0;
    if (b == 0) fail("division by zero");
    if (b == -1) return rest ? 0 : checked<subtract>(0, a);  // INT64_MIN / -1 overflows
    return rest ? a % b : a / b;
  }

  int64_t sum() {
    int64_t value = product();
    for (;;) {
      if (take('+')) {
        value = checked<add>(value, product());
      } else if (take('-')) {
        value = checked<subtract>(value, product());
      } else {
        return value;
      }
    }
  }
  int64_t product() {
    int64_t value = factor();
    for (;;) {
      if (take('*')) {
        value = checked<multiply>(value, factor());
      } else if (take('/')) {
        value = divided(value, factor());
      } else if (take('%')) {
        value = divided(value, factor(), true);
      } else {
        return value;
      }
    }
  }
  int64_t factor() {
    if (take('-')) return checked<subtract>(0, factor());
    if (take('(')) {
      const int64_t value = sum();
      require(')');
      return value;
    }
    const std::string_view word = next_word();
    if (word.empty()) fail("expected a number, a dimension such as in0[1], or a function");
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return number(word);
    if (word == "out" || input_number(word)) return side(tensor(word));
    return call(word);
  }
  std::string_view next_word() {
    peek();
    const size_t begin = at_;
    const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  int64_t number(std::string_view word) const {
    int64_t value = 0;
    const auto end = std::from_chars(word.data(), word.data() + word.size(), value);
    if (end.ec != std::errc{} || end.ptr != word.data() + word.size()) fail("not an integer of 64 bits");
    return value;
  }
  // Returns null if there are no shapes.
  const Shape* tensor(std::string_view word) const {
    const auto input = input_number(word);
    if (word != "out" && !input) fail("expected in0, in1, ... or out");
    if (!shapes_) return nullptr;
    if (!input) return &shapes_->out;
    if (*input >= shapes_->in.size())
      fail("the op has " + std::to_string(shapes_->in.size()) + " inputs; the first is in0");
    return &shapes_->in[*input];
  }
  int64_t side(const Shape* shape) {
    require('[');
    const std::string_view word = next_word();
    if (word.empty()) fail("expected the number of a dimension");
    const int64_t place = number(word);
    require(']');
    if (!shape) return 1;
    if (place >= static_cast<int64_t>(shape->size()))
      fail("a tensor of shape " + to_text(*shape) + " has no dimension " + std::to_string(place));
    return (*shape)[static_cast<size_t>(place)];
  }
  int64_t call(std::string_view name) {
    require('(');
    int64_t value = 0;
    if (name == "size") {
      value = elements(tensor(next_word()));
    } else if (name == "power_of_two") {
      value = power_of_two(sum());
    } else if (name == "min" || name == "max" || name == "ceil_div") {
      const int64_t a = sum();
      require(',');
      const int64_t b = sum();
      value = name == "min" ? std::min(a, b) : name == "max" ? std::max(a, b) : ceil_div(a, b);
    } else {
      fail("unknown function " + std::string(name) +
           "; the functions are size, min, max, ceil_div and power_of_two");
    }
    require(')');
    return value;
  }
  int64_t elements(const Shape* shape) const {
    int64_t count = 1;
    if (shape)
      for (const int64_t one : *shape) count = checked<multiply>(count, one);
    return count;
  }
  int64_t ceil_div(int64_t a, int64_t b) const {
    if (shapes_ && (a < 0 || b <= 0)) fail("ceil_div(a, b) requires a >= 0 and b > 0");
    return divided(a, b) + (divided(a, b, true) != 0);
  }
  int64_t power_of_two(int64_t a) const {
    constexpr int64_t kMost = int64_t{1} << 62;
    if (a > kMost) fail("the result does not fit in 64 bits");
    int64_t out = 1;
    while (out < a) out *= 2;
    return out;
  }

  std::string_view text_;
  const Shapes* shapes_;
  size_t at_ = 0;
};

}  // namespace detail

// Both throw std::invalid_argument with the position of the error if the syntax is wrong. evaluate() also
// throws if the text has no value for these shapes.
inline int64_t evaluate(std::string_view text, const Shapes& shapes) {
  return detail::Evaluation(text, &shapes)();
}
inline void require_arithmetic(std::string_view text) { (void)detail::Evaluation(text, nullptr)(); }

}  // namespace tinymlperf::device
