// A strict JSON parser (RFC 8259) for headers inside files. It parses a whole text into a tree.
//
//   const Json header = parse_json(bytes, "weights.safetensors");
//   if (const Json* shape = header.find("shape"); shape && shape->array())
//     for (const Json& n : *shape->array()) ... n.integer() ...
//
// It is strict: UTF-8 only, no comments, no trailing commas, no duplicate keys, nothing after the value. A
// byte order mark at the start is ignored. Nesting is limited, because the parser is recursive, and so is the
// number of values, because a value takes more memory than its text.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <tinytorch/io/text.hpp>
#include <utility>
#include <variant>

namespace tinytorch::inline TT_BUILD {

struct JsonLimits {
  int depth = 32;
  size_t values = size_t{1} << 22;
  size_t bytes = 100'000'000;
  bool not_finite = false;  // also accept NaN, Infinity and -Infinity, which Python's json writes
};

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in the order of the text
  struct Number {
    double real;                     // finite, unless JsonLimits::not_finite is set
    std::optional<int64_t> integer;  // if written without fraction or exponent and within 64 bits
  };
  using Value = std::variant<std::nullptr_t, bool, Number, std::string, Array, Object>;

  Json() = default;
  explicit Json(Value value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  // The following return null if the value is of another kind.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const Number* number() const { return std::get_if<Number>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  // The value as an integer, if it is one.
  std::optional<int64_t> integer() const { return number() ? number()->integer : std::nullopt; }
  // The member with that name, or null.
  const Json* find(std::string_view key) const {
    if (const Object* members = object()) {
      for (const auto& [name, value] : *members) {
        if (name == key) return &value;
      }
    }
    return nullptr;
  }
  // The kind of the value for messages, such as "an array".
  const char* kind() const {
    constexpr const char* kKinds[] = {"null",     "true or false", "a number",
                                      "a string", "an array",      "an object"};
    return kKinds[value_.index()];
  }

 private:
  Value value_ = nullptr;
};

// Parses the whole of `text`. Throws TT-IO-03 with the byte position if it is not JSON, or with the kind of
// file if that is recognized (file_kind.hpp), and TT-IO-06 above a limit.
TT_API Json parse_json(Bytes text, const std::string& name = "JSON text", const JsonLimits& limits = {},
                       TT_LOC);

// Parses text that is part of a file; errors name `source`.
TT_API Json parse_json(Bytes text, const io::Source& source, const JsonLimits& limits = {});

// The UTF-8 `text` as a JSON string, including the quotes.
TT_API std::string to_json_string(std::string_view text);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)
namespace tinytorch::inline TT_BUILD {

namespace io {

class JsonParser {
 public:
  JsonParser(std::string_view text, const Source& source, const JsonLimits& limits)
      : text_(text), source_(source), limits_(limits) {}

  Json run() {
    if (text_.size() > limits_.bytes) {
      source_.reject("at most " + count_of(limits_.bytes, "bytes of JSON"), count_of(text_.size(), "bytes"),
                     "TT-IO-06");
    }
    refuse_other_kind(as_bytes(text_), source_);
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    Json value = parse_value(0);
    skip_space();
    if (at_ < text_.size()) reject("the end of the JSON text");
    return value;
  }

 private:
  [[noreturn]] void reject(const std::string& expected, const char* code = "TT-IO-03") const {
    const std::string found = at_ < text_.size() ? in_quotes(text_.substr(at_, 12)) : "the end of the text";
    source_.reject(expected, found + " at byte " + std::to_string(at_) + " of the JSON text", code);
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Json parse_value(int depth) {
    if (depth > limits_.depth)
      reject("at most " + std::to_string(limits_.depth) + " nested levels", "TT-IO-06");
    if (++values_ > limits_.values)
      reject("at most " + count_of(limits_.values, "values in JSON text"), "TT-IO-06");
    skip_space();
    switch (peek()) {
      case '{':
        return parse_object(depth);
      case '[':
        return parse_array(depth);
      case '"':
        return Json(parse_string());
      case 't':
        return parse_word("true", Json(Json::Value(true)));
      case 'f':
        return parse_word("false", Json(Json::Value(false)));
      case 'n':
        return parse_word("null", Json());
      default:
        return limits_.not_finite && at_word() ? parse_not_finite() : parse_number();
    }
  }
  bool at_word() const {
    const std::string_view rest = text_.substr(std::min(at_, text_.size()));
    return rest.starts_with('N') || rest.starts_with('I') || rest.starts_with("-I");
  }
  Json parse_not_finite() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const auto word = [&](std::string_view name, double value) {
      return parse_word(name, Json(Json::Number{value, std::nullopt}));
    };
    if (peek() == 'N') return word("NaN", std::numeric_limits<double>::quiet_NaN());
    return peek() == 'I' ? word("Infinity", kInfinity) : word("-Infinity", -kInfinity);
  }
  Json parse_word(std::string_view word, Json value) {
    if (text_.substr(at_, word.size()) != word) reject("a JSON value");
    at_ += word.size();
    return value;
  }

  Json parse_array(int depth) {
    Json::Array out;
    accept('[');
    if (accept(']')) return Json(std::move(out));
    do {
      out.push_back(parse_value(depth + 1));
    } while (accept(','));
    if (!accept(']')) reject("',' or ']'");
    return Json(std::move(out));
  }

  Json parse_object(int depth) {
    Json::Object out;
    accept('{');
    if (accept('}')) return Json(std::move(out));
    do {
      skip_space();
      if (peek() != '"') reject("a member name in double quotes");
      std::string key = parse_string();
      if (!accept(':')) reject("':'");
      out.emplace_back(std::move(key), parse_value(depth + 1));
    } while (accept(','));
    if (!accept('}')) reject("',' or '}'");
    refuse_duplicates(out);
    return Json(std::move(out));
  }
  void refuse_duplicates(const Json::Object& members) const {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& [name, value] : members) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) source_.reject("each name once", in_quotes(*twice) + " twice");
  }

  std::string parse_string() {
    ++at_;  // the quote
    std::string out;
    while (true) {
      const size_t start = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      const std::string_view plain = text_.substr(start, at_ - start);
      if (find_invalid_utf8(plain) != plain.size()) {
        at_ = start + find_invalid_utf8(plain);
        reject("UTF-8");
      }
      out += plain;
      if (peek() == '"' && at_ < text_.size()) {
        ++at_;
        return out;
      }
      if (peek() != '\\') reject("'\"' at the end of a string, and control characters only as \\u");
      ++at_;
      parse_escape(out);
    }
  }
  void parse_escape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const size_t known = at_ < text_.size() ? kLetters.find(text_[at_]) : std::string_view::npos;
    if (known != std::string_view::npos) {
      out += kMeanings[known];
      ++at_;
      return;
    }
    uint32_t code = parse_utf16_unit();
    if (code >= 0xd800 && code < 0xdc00) {  // the first half of a surrogate pair
      if (peek() != '\\') reject("the second half of a surrogate pair");
      ++at_;
      const uint32_t low = parse_utf16_unit();
      if (low < 0xdc00 || low > 0xdfff) reject("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
      reject("the first half of a surrogate pair before the second");
    }
    append_utf8(out, code);
  }
  uint32_t parse_utf16_unit() {
    uint32_t unit = 0;
    const char* digits = text_.data() + at_ + 1;
    const bool fits = peek() == 'u' && text_.size() - at_ >= 5;
    if (!fits || std::from_chars(digits, digits + 4, unit, 16).ptr != digits + 4)
      reject("an escape: one of \"\\/bfnrt, or u and four hexadecimal digits");
    at_ += 5;
    return unit;
  }

  bool skip_digits() {
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ > start;
  }
  Json parse_number() {
    const size_t start = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;  // no digit may follow a leading zero
    } else if (!skip_digits()) {
      reject("a JSON value");
    }
    bool whole = true;
    if (peek() == '.') {
      ++at_;
      whole = false;
      if (!skip_digits()) reject("digits after '.'");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      whole = false;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!skip_digits()) reject("digits in the exponent");
    }
    const std::string_view digits = text_.substr(start, at_ - start);
    Json::Number number{0, std::nullopt};
    int64_t integer = 0;
    if (whole && std::from_chars(digits.data(), digits.data() + digits.size(), integer).ec == std::errc{})
      number.integer = integer;
    number.real = real_of(digits);
    if (!std::isfinite(number.real)) reject("a number within the range of double before this point");
    return Json(Json::Value(number));
  }
  // Some standard libraries lack from_chars for double. strtod depends on the locale's decimal separator.
  static double real_of(std::string_view digits) {
#if defined(__cpp_lib_to_chars)
    double value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end.ec == std::errc::result_out_of_range) return std::strtod(std::string(digits).c_str(), nullptr);
    return value;
#else
    return std::strtod(std::string(digits).c_str(), nullptr);
#endif
  }

  std::string_view text_;
  const Source& source_;
  const JsonLimits& limits_;
  size_t at_ = 0;
  size_t values_ = 0;
};

}  // namespace io

TT_API Json parse_json(Bytes text, const io::Source& source, const JsonLimits& limits) {
  return io::JsonParser(as_text(text), source, limits).run();
}
TT_API Json parse_json(Bytes text, const std::string& name, const JsonLimits& limits, Loc loc) {
  return parse_json(text, io::Source{name, "JSON", loc}, limits);
}

TT_API std::string to_json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
    const size_t special = kSpecial.find(c);
    if (special != std::string_view::npos) {
      out += {'\\', kLetters[special]};
    } else if (u < 0x20) {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'u', '0', '0', kHex[u >> 4], kHex[u & 15]};
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace tinytorch::inline TT_BUILD
#endif
