// Arithmetic on shapes, as it stands in a launch plan: "ceil_div(size(out), 256)", "min(in0[1], 1024)".
//
//   sum       product {+ or - product}
//   product   factor {*, / or % factor}
//   factor    a number, -factor, (sum), T[d]: side d of a tensor, size(T): all its elements,
//             min(a, b), max(a, b), ceil_div(a, b), power_of_two(a): the least one that is not below a
// where T is in0, in1, ... or out. Whole numbers of 64 bits; / and % as in C++. Beyond 64 bits, and by zero,
// is an error. There are no loops and no names of one's own, so it ends, and says the same on every machine.
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

// What a query is about.
struct Shapes {
  std::vector<Shape> in;
  Shape out;
};

// in0, in1, ... as a number; nothing for other names.
inline std::optional<size_t> input_number(std::string_view name) {
  size_t number = 0;
  if (!name.starts_with("in") || name.size() == 2) return std::nullopt;
  const auto end = std::from_chars(name.data() + 2, name.data() + name.size(), number);
  if (end.ec != std::errc{} || end.ptr != name.data() + name.size() || number > 99) return std::nullopt;
  return number;
}

namespace detail {

// Reads and computes at once.
class Evaluation {
 public:
  // Without shapes only the form is looked at: every side is 1.
  Evaluation(std::string_view text, const Shapes* shapes) : text_(text), shapes_(shapes) {
    if (text.size() > kLongest) fail("at most 200 characters");
  }

  int64_t operator()() {
    const int64_t value = sum();
    peek();
    if (at_ < text_.size()) fail("expected an operator");  // a character 0 is none either
    return value;
  }

 private:
  static constexpr size_t kLongest = 200;

  [[noreturn]] void fail(const std::string& what) const {
    std::string shown(text_.substr(0, kLongest));
    std::ranges::replace(shown, '\0', '?');  // a message ends at the first
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
    if (overflows(a, b, &out)) fail("beyond 64 bits");
    return out;
  }
  static bool add(int64_t a, int64_t b, int64_t* out) { return __builtin_add_overflow(a, b, out); }
  static bool subtract(int64_t a, int64_t b, int64_t* out) { return __builtin_sub_overflow(a, b, out); }
  static bool multiply(int64_t a, int64_t b, int64_t* out) { return __builtin_mul_overflow(a, b, out); }
  int64_t divided(int64_t a, int64_t b, bool rest = false) const {
    if (b == 0 && !shapes_) return 0;
    if (b == 0) fail("division by zero");
    if (b == -1) return rest ? 0 : checked<subtract>(0, a);  // the one division that does not fit
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
    if (word.empty()) fail("expected a number, a side or a function");
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
    if (end.ec != std::errc{} || end.ptr != word.data() + word.size()) fail("not a number of 64 bits");
    return value;
  }
  // Null where there are no shapes.
  const Shape* tensor(std::string_view word) const {
    const auto input = input_number(word);
    if (word != "out" && !input) fail("expected in0, in1, ... or out");
    if (!shapes_) return nullptr;
    if (!input) return &shapes_->out;
    if (*input >= shapes_->in.size())
      fail("the op has " + std::to_string(shapes_->in.size()) + " inputs, the first is in0");
    return &shapes_->in[*input];
  }
  int64_t side(const Shape* shape) {
    require('[');
    const std::string_view word = next_word();
    if (word.empty()) fail("expected the number of a side");
    const int64_t place = number(word);
    require(']');
    if (!shape) return 1;
    if (place >= static_cast<int64_t>(shape->size()))
      fail("a tensor of shape " + to_text(*shape) + " has no such side");
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
      fail("no function is called " + std::string(name) +
           "; there are size, min, max, ceil_div, power_of_two");
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
    if (shapes_ && (a < 0 || b <= 0)) fail("ceil_div takes a >= 0 and b > 0");
    return divided(a, b) + (divided(a, b, true) != 0);
  }
  int64_t power_of_two(int64_t a) const {
    constexpr int64_t kMost = int64_t{1} << 62;
    if (a > kMost) fail("beyond 64 bits");
    int64_t out = 1;
    while (out < a) out *= 2;
    return out;
  }

  std::string_view text_;
  const Shapes* shapes_;
  size_t at_ = 0;
};

}  // namespace detail

// Both throw std::invalid_argument, with the place, where the text is not arithmetic; evaluate() also where
// it has no value for these shapes.
inline int64_t evaluate(std::string_view text, const Shapes& shapes) {
  return detail::Evaluation(text, &shapes)();
}
inline void require_arithmetic(std::string_view text) { (void)detail::Evaluation(text, nullptr)(); }

}  // namespace tinymlperf::device
