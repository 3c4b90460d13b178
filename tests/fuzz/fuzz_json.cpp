// JSON: any bytes are accepted or refused, and an accepted value can be written and read again with the same
// result.
#include <tinytorch/io/json.hpp>

#include <fuzz/fuzz.hpp>

namespace {

// The value as JSON. Integers are exact, and 17 digits identify every double.
std::string to_text(const tt::Json& value) {
  if (value.is_null()) return "null";
  if (const bool* b = value.boolean()) return *b ? "true" : "false";
  if (const std::string* s = value.string()) return tt::to_json_string(*s);
  std::string out;
  if (const tt::Json::Number* n = value.number()) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17g", n->real);
    return n->integer.value_or(0) ? std::to_string(*n->integer) : digits;  // -0 keeps its sign
  }
  if (const tt::Json::Array* items = value.array()) {
    for (const tt::Json& item : *items) out += (out.empty() ? "" : ",") + to_text(item);
    return "[" + out + "]";
  }
  for (const auto& [name, member] : *value.object())
    out += (out.empty() ? "" : ",") + tt::to_json_string(name) + ":" + to_text(member);
  return "{" + out + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const tt::Json value = tt::parse_json(bytes, "input");
    const std::string written = to_text(value);
    fuzz::require(to_text(tt::parse_json(tt::as_bytes(written), "written")) == written);
  });
}
