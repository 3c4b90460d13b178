// Text files: any bytes are accepted or refused. Accepted text is UTF-8, and its lines hold no line ends.
#include <tinytorch/io/text.hpp>

#include <fuzz/fuzz.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::run(data, size, [](tt::Bytes bytes) {
    const std::string text = tt::parse_text(bytes, "input");
    fuzz::require(tt::find_invalid_utf8(text) == text.size());
    size_t total = 0;
    for (const std::string& line : tt::split_lines(text)) {
      fuzz::require(line.find('\n') == std::string::npos);
      total += line.size() + 1;
    }
    fuzz::require(total <= text.size() + 1);
  });
}
