// The metadata of a GGUF file: values by key, such as "llama.context_length" -> u32 4096.
//
//   tt::GgufMetadata m;
//   m.set("general.architecture", "llama");
//   m.set("llama.context_length", uint32_t{4096});
//   m.find("llama.context_length")->integer();     // std::optional<int64_t>
//
// A value is a number, a bool, a text, or an array of one of them, with the type that the file states:
// programs that read GGUF files insist on a type for each key, so it is kept. Numbers are kept as the bytes
// of the file; an array of a million numbers takes no more memory than in the file, and a NaN keeps its bits.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <tinytorch/io/bytes.hpp>

namespace tinytorch::inline TT_BUILD {

// The numbers are those of the format.
enum class GgufValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

// Bytes of a number or bool; 0 for texts and arrays, whose length differs from value to value.
constexpr size_t size_of(GgufValueType type) {
  constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<size_t>(type)];
}
constexpr const char* name_of(GgufValueType type) {
  constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                    "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<size_t>(type)];
}

template <class T>
concept GgufNumber = std::same_as<T, bool> || std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && !std::same_as<T, char> && sizeof(T) <= 8);

template <GgufNumber T>
constexpr GgufValueType gguf_type_of() {
  if constexpr (std::same_as<T, bool>) return GgufValueType::boolean;
  if constexpr (std::floating_point<T>) return sizeof(T) == 4 ? GgufValueType::f32 : GgufValueType::f64;
  constexpr bool is_signed = std::is_signed_v<T>;
  if constexpr (sizeof(T) == 1) return is_signed ? GgufValueType::i8 : GgufValueType::u8;
  if constexpr (sizeof(T) == 2) return is_signed ? GgufValueType::i16 : GgufValueType::u16;
  if constexpr (sizeof(T) == 4) return is_signed ? GgufValueType::i32 : GgufValueType::u32;
  return is_signed ? GgufValueType::i64 : GgufValueType::u64;
}

class GgufValue {
 public:
  template <GgufNumber T>
  GgufValue(T value) : type_(gguf_type_of<T>()), raw_(sizeof(T)) {
    put(0, value);
  }
  GgufValue(std::string text) : type_(GgufValueType::string), texts_{std::move(text)} {}
  GgufValue(const char* text) : GgufValue(std::string(text)) {}
  template <GgufNumber T>
  GgufValue(const std::vector<T>& values)
      : type_(gguf_type_of<T>()), is_array_(true), raw_(values.size() * sizeof(T)) {
    for (size_t i = 0; i < values.size(); ++i) put<T>(i, values[i]);
  }
  GgufValue(std::vector<std::string> texts)
      : type_(GgufValueType::string), is_array_(true), texts_(std::move(texts)) {}
  // Little-endian numbers or bools of that type, as in a file. The caller has checked that a value that is
  // no array has one element, and that bools are 0 or 1.
  GgufValue(GgufValueType type, bool is_array, Bytes raw)
      : type_(type), is_array_(is_array), raw_(raw.begin(), raw.end()) {}

  GgufValueType type() const { return type_; }  // of the elements of an array
  bool is_array() const { return is_array_; }
  size_t count() const { return is_text() ? texts_.size() : raw_.size() / size_of(type_); }
  Bytes raw() const { return raw_; }  // empty for texts

  // The value, or none if it is of another kind or an array. An integer of type u64 above the range of
  // int64_t is none; number() also converts integers.
  std::optional<int64_t> integer() const { return is_array_ || count() != 1 ? std::nullopt : integer_at(0); }
  std::optional<double> number() const { return is_array_ || count() != 1 ? std::nullopt : number_at(0); }
  std::optional<bool> boolean() const {
    if (is_array_ || type_ != GgufValueType::boolean) return std::nullopt;
    return raw_[0] != std::byte{0};
  }
  const std::string* text() const { return is_text() && !is_array_ ? texts_.data() : nullptr; }
  const std::vector<std::string>* texts() const { return is_text() && is_array_ ? &texts_ : nullptr; }
  // The element of an array, or none if the elements are of another kind. `i` is below count().
  std::optional<int64_t> integer_at(size_t i) const {
    std::optional<int64_t> out;
    visit(i, [&](auto value) {
      using T = decltype(value);
      if constexpr (std::integral<T> && !std::same_as<T, bool>)
        if (std::in_range<int64_t>(value)) out = static_cast<int64_t>(value);
    });
    return out;
  }
  std::optional<double> number_at(size_t i) const {
    std::optional<double> out;
    visit(i, [&](auto value) {
      if constexpr (!std::same_as<decltype(value), bool>) out = static_cast<double>(value);
    });
    return out;
  }

  // "u32 4096", "string 'llama'", "f32[32000] 0 0 -1 ...", for messages and lists.
  std::string describe() const {
    constexpr size_t kShown = 3;
    std::string out = std::string(name_of(type_)) + (is_array_ ? "[" + std::to_string(count()) + "]" : "");
    for (size_t i = 0; i < std::min(count(), kShown); ++i) out += " " + element(i);
    return out + (count() > kShown ? " ..." : "");
  }

  friend bool operator==(const GgufValue&, const GgufValue&) = default;  // NaN equals itself: bits decide

 private:
  static_assert(std::endian::native == std::endian::little, "the bytes are those of the file");

  bool is_text() const { return type_ == GgufValueType::string; }
  template <class T>
  void put(size_t i, T value) {
    std::memcpy(raw_.data() + i * sizeof(T), &value, sizeof(T));
  }
  template <class T, class F>
  void pass(size_t i, F& f) const {
    T value;
    std::memcpy(&value, raw_.data() + i * sizeof(T), sizeof(T));
    f(value);
  }
  // Calls f with element i in its type; does nothing for texts.
  template <class F>
  void visit(size_t i, F&& f) const {
    switch (type_) {
      case GgufValueType::u8:
        return pass<uint8_t>(i, f);
      case GgufValueType::i8:
        return pass<int8_t>(i, f);
      case GgufValueType::u16:
        return pass<uint16_t>(i, f);
      case GgufValueType::i16:
        return pass<int16_t>(i, f);
      case GgufValueType::u32:
        return pass<uint32_t>(i, f);
      case GgufValueType::i32:
        return pass<int32_t>(i, f);
      case GgufValueType::f32:
        return pass<float>(i, f);
      case GgufValueType::boolean:
        return pass<bool>(i, f);
      case GgufValueType::u64:
        return pass<uint64_t>(i, f);
      case GgufValueType::i64:
        return pass<int64_t>(i, f);
      case GgufValueType::f64:
        return pass<double>(i, f);
      default:
        return;
    }
  }
  std::string element(size_t i) const {
    if (is_text()) return io::in_quotes(texts_[i]);
    if (type_ == GgufValueType::boolean) return raw_[i] != std::byte{0} ? "true" : "false";
    if (const std::optional<int64_t> n = integer_at(i)) return std::to_string(*n);
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", *number_at(i));
    return text;
  }

  GgufValueType type_;
  bool is_array_ = false;
  std::vector<std::byte> raw_;
  std::vector<std::string> texts_;
};

// Values by key, in the order of the file.
class GgufMetadata {
 public:
  // The value of the key, or null if there is none.
  const GgufValue* find(std::string_view key) const {
    for (const auto& entry : entries_)
      if (entry.first == key) return &entry.second;
    return nullptr;
  }
  // Replaces the value of the key, or appends a new entry.
  void set(std::string key, GgufValue value) {
    for (auto& entry : entries_)
      if (entry.first == key) return void(entry.second = std::move(value));
    append(std::move(key), std::move(value));
  }
  // Appends an entry whose key the caller knows to be new.
  void append(std::string key, GgufValue value) { entries_.emplace_back(std::move(key), std::move(value)); }

  size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  friend bool operator==(const GgufMetadata&, const GgufMetadata&) = default;

 private:
  std::vector<std::pair<std::string, GgufValue>> entries_;
};

}  // namespace tinytorch::inline TT_BUILD
