// model.json as untrusted input: for the task of each benchmark, any bytes give an entry within the limits,
// or a Refusal.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tinymlperf/entries/entry.hpp>

namespace {

void read(const std::string& text, const tinymlperf::Task& task) {
  using namespace tinymlperf;
  try {
    const EntrySpec spec = parse_entry(text, task);
    if (spec.parameters > limits::kParameters || spec.multiply_adds > limits::kMultiplyAdds) std::abort();
    if (!is_plain_name(spec.name) || spec.layers.empty() != spec.gpt.has_value()) std::abort();
    // An accepted entry can be written and read again, with the same result.
    const std::string written = to_json(spec).dump();
    if (to_json(parse_entry(written, task)).dump() != written) std::abort();
  } catch (const Refusal&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  for (const tinymlperf::Descriptor* about : tinymlperf::descriptors())
    read(std::string(reinterpret_cast<const char*>(data), size), about->shape);
  return 0;
}
