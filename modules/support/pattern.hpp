// The pattern of a result's wrong numbers, as a guess at the mistake, for the message of a check.
#pragma once

#include <support/values.hpp>

namespace course {

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
    return text;
  } else if constexpr (requires { value.str(); }) {
    return value.str();
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? shown(*value) : "nothing";
  } else if constexpr (std::is_convertible_v<T, std::string>) {
    return '"' + std::string(value) + '"';
  } else {
    std::string text = "{";
    for (const auto& v : value) text += (text.size() > 1 ? ", " : "") + shown(v);
    return text + "}";
  }
}

Shape index_of(const Shape& shape, int64_t linear);

// The pattern of the numbers marked as wrong, of which there must be at least one; or an empty string.
std::string pattern_of(const Numbers& got, const Numbers& want, const std::vector<bool>& wrong,
                       const Shape& shape, DType dtype);

}  // namespace course
