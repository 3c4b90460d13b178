// A stranger's model.json: any bytes give an entry that keeps the limits, or a Refusal. Nothing else.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tinymlperf/entry.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tinymlperf;
  try {
    const EntrySpec spec = parse_entry(std::string(reinterpret_cast<const char*>(data), size));
    if (spec.parameters > limits::kParameters || spec.multiply_adds > limits::kMultiplyAdds) std::abort();
    if (!is_plain_name(spec.name) || spec.layers.empty()) std::abort();
    // What was understood can be written and is understood the same way again.
    const std::string text = to_json(spec).dump();
    if (to_json(parse_entry(text)).dump() != text) std::abort();
  } catch (const Refusal&) {
  }
  return 0;
}
