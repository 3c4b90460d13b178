// Reading JSON from an untrusted source: every access checks presence, type and range, and a failure is a
// Refusal that names file, place, expected and found. Quoted values are shortened, so the reason stays
// readable.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tinytorch/benchmarking/samples.hpp>
#include <utility>
#include <vector>

namespace tinymlperf {

using Json = nlohmann::json;
using Shape = std::vector<int64_t>;

// Along the height and along the width of an image.
struct Sides {
  int64_t h = 0, w = 0;
  constexpr Sides(int64_t both = 0) : h(both), w(both) {}
  constexpr Sides(int64_t height, int64_t width) : h(height), w(width) {}
  bool square() const { return h == w; }
  friend bool operator==(const Sides&, const Sides&) = default;
};

inline Json interval_to_json(const tinytorch::statistics::Interval& i) {
  return {{"estimate", i.estimate}, {"low", i.low}, {"high", i.high}};
}
inline tinytorch::statistics::Interval interval_from_json(const Json& j) {
  return {j.at("estimate").get<double>(), j.at("low").get<double>(), j.at("high").get<double>()};
}

// A whole number that T holds: Json::get() would cut off what is behind the point, and go around at the ends.
// Throws std::invalid_argument.
template <class T = int64_t>
T whole(const Json& j) {
  const bool fits = j.is_number_unsigned() ? std::in_range<T>(j.get<uint64_t>())
                                           : j.is_number_integer() && std::in_range<T>(j.get<int64_t>());
  if (!fits)
    throw std::invalid_argument("expected a whole number of 64 bits, found " + j.dump().substr(0, 40));
  return j.get<T>();
}
inline std::vector<int64_t> wholes(const Json& j) {
  std::vector<int64_t> out;
  for (const Json& one : j) out.push_back(whole(one));
  return out;
}

// Why an entry does not take part.
class Refusal : public std::runtime_error {
 public:
  Refusal(std::string file, std::string where, std::string expected, std::string found)
      : std::runtime_error(file + (where.empty() ? "" : ": " + where) + ": expected " + expected +
                           ", found " + found),
        file(std::move(file)),
        where(std::move(where)),
        expected(std::move(expected)),
        found(std::move(found)) {}
  std::string file, where, expected, found;
};

inline std::string to_text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}
inline std::string to_text(const Sides& sides) { return to_text(Shape{sides.h, sides.w}); }

namespace detail {

constexpr const char* kFile = "model.json";

// Parses JSON from an untrusted source with at most 64 nested levels, because a copy of deeper JSON could
// overflow the stack. Throws Refusal, which names the file.
inline Json parse_json(std::string_view text, const std::string& file = kFile) {
  constexpr int kDeepest = 64;
  const auto not_too_deep = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) throw Refusal(file, "", "at most 64 levels of [ and {", "more");
    return true;
  };
  try {
    return Json::parse(text, not_too_deep);
  } catch (const Json::exception& e) {
    throw Refusal(file, "", "JSON", e.what());
  }
}

// The text of a value, shortened to 60 bytes, so that the reason of a refusal stays readable.
inline std::string show(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Reads the fields of one object. `where` is the object's place in the file, which refusals name.
class Fields {
 public:
  Fields(const Json& object, std::string where, std::initializer_list<const char*> allowed,
         const char* file = kFile)
      : object_(object), where_(std::move(where)), file_(file) {
    if (!object.is_object()) refuse("", "an object", show(object));
    std::string list;
    for (const char* key : allowed) list += (list.empty() ? "" : ", ") + std::string(key);
    for (const auto& [key, value] : object.items()) {
      bool known = false;
      for (const char* name : allowed) known = known || key == name;
      if (!known) refuse("", "only the keys " + list, show(Json(key)));
    }
  }
  int64_t integer(const char* key, int64_t low, int64_t high, int64_t fallback) const {
    return object_.contains(key) ? integer(key, low, high) : fallback;
  }
  int64_t integer(const char* key, int64_t low, int64_t high) const {
    return check_integer(required(key, "an integer"), key, low, high);
  }
  // A number, which holds along both sides, or [height, width].
  Sides sides(const char* key, int64_t low, int64_t high) const {
    const Json& value = required(key, "an integer or [height, width]");
    if (!value.is_array()) return check_integer(value, key, low, high);
    if (value.size() != 2) refuse(key, "an integer or [height, width]", show(value));
    return {check_integer(value[0], std::string(key) + "[0]", low, high),
            check_integer(value[1], std::string(key) + "[1]", low, high)};
  }
  Sides sides(const char* key, int64_t low, int64_t high, Sides fallback) const {
    return object_.contains(key) ? sides(key, low, high) : fallback;
  }
  bool boolean(const char* key, bool fallback) const {
    if (!object_.contains(key)) return fallback;
    if (!object_.at(key).is_boolean()) refuse(key, "true or false", show(object_.at(key)));
    return object_.at(key).get<bool>();
  }
  double number(const char* key, double low, double high, double fallback) const {
    if (!object_.contains(key)) return fallback;
    const Json& value = object_.at(key);
    const bool good = value.is_number() && value.get<double>() >= low && value.get<double>() < high;
    if (!good) refuse(key, "a number in [" + show(low) + ", " + show(high) + ")", show(value));
    return value.get<double>();
  }
  std::string text(const char* key, size_t longest, const char* fallback) const {
    if (!object_.contains(key) && fallback) return fallback;
    const Json& value = required(key, "a text");
    if (!value.is_string() || value.get_ref<const std::string&>().size() > longest)
      refuse(key, "a text of at most " + std::to_string(longest) + " bytes", show(value));
    return value.get<std::string>();
  }
  bool has(const char* key) const { return object_.contains(key); }
  Fields object(const char* key, std::initializer_list<const char*> allowed) const {
    return Fields(required(key, "an object"), where_.empty() ? key : where_ + "." + key, allowed, file_);
  }
  std::vector<std::string> texts(const char* key, size_t shortest, size_t longest,
                                 size_t longest_text) const {
    std::vector<std::string> out;
    for (const Json& value : array(key, shortest, longest)) {
      if (!value.is_string() || value.get_ref<const std::string&>().size() > longest_text)
        refuse(key, "texts of at most " + std::to_string(longest_text) + " bytes", show(value));
      out.push_back(value.get<std::string>());
    }
    return out;
  }
  // A word of a list; the fallback stands for a key that is not there.
  std::string one_of(const char* key, const char* fallback, const std::vector<std::string>& known) const {
    constexpr size_t kLongest = 100;
    std::string value = text(key, kLongest, fallback);
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    if (std::find(known.begin(), known.end(), value) == known.end())
      refuse(key, "one of " + list, show(Json(value)));
    return value;
  }
  const Json& array(const char* key, size_t shortest, size_t longest) const {
    const Json& value = required(key, "an array");
    if (!value.is_array()) refuse(key, "an array", show(value));
    if (value.size() < shortest || value.size() > longest)
      refuse(key, "an array of " + std::to_string(shortest) + " to " + std::to_string(longest) + " elements",
             std::to_string(value.size()) + " elements");
    return value;
  }
  int64_t check_integer(const Json& value, const std::string& key, int64_t low, int64_t high) const {
    // Unsigned values beyond int64 are compared as unsigned before any conversion.
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
      refuse(key, "an integer from " + std::to_string(low) + " to " + std::to_string(high), show(value));
    return value.get<int64_t>();
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& expected,
                           const std::string& found) const {
    const std::string dot = where_.empty() || key.empty() ? "" : ".";
    throw Refusal(file_, where_ + dot + key, expected, found);
  }

 private:
  const Json& required(const char* key, const char* what) const {
    if (!object_.contains(key)) refuse(key, what, "no such key");
    return object_.at(key);
  }
  const Json& object_;
  std::string where_;
  const char* file_;
};

// Size of a file; refuses what is absent, not a plain file, or larger than `limit`.
inline int64_t require_size(const std::filesystem::path& path, int64_t limit) {
  const std::string name = path.filename().string();
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Refusal(name, "", "a file", "no such file in the entry");
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes > static_cast<uintmax_t>(limit))
    throw Refusal(name, "", "at most " + std::to_string(limit) + " bytes", std::to_string(bytes) + " bytes");
  return static_cast<int64_t>(bytes);
}

inline std::string read_limited(const std::filesystem::path& path, int64_t limit) {
  require_size(path, limit);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Refusal(path.filename().string(), "", "a readable file", "a read error");
  return text.str();
}

// Equal structure, numbers equal to 1e-9 relative: logarithms differ in the last bits between C libraries.
inline bool agree(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>(), y = b.get<double>();
    return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y));
  }
  if (!a.is_structured() || a.type() != b.type() || a.size() != b.size()) return a == b;
  if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), agree);
  for (const auto& [key, value] : a.items())
    if (!b.contains(key) || !agree(value, b.at(key))) return false;
  return true;
}

}  // namespace detail

}  // namespace tinymlperf
