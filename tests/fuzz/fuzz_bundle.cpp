// Bundles as untrusted input: any bytes give a bundle in which manifest, sizes and digests agree, or a
// Refusal.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tinymlperf/bundle/bundle.hpp>

namespace {

// Corrects the checksums of the tar headers. Otherwise most inputs are refused before a header is read.
std::string with_sums(std::string bytes) {
  for (size_t block = 0; block + 512 <= bytes.size(); block += 512) {
    if (bytes.compare(block + 257, 5, "ustar") != 0) continue;
    bytes.replace(block + 148, 8, "        ");
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(bytes[block + i]);
    for (size_t digit = 0; digit < 6; ++digit, sum /= 8)
      bytes[block + 153 - digit] = static_cast<char>('0' + sum % 8);
    bytes[block + 154] = '\0';
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tinymlperf;
  using namespace tinymlperf::bundle;
  using tinytorch::benchmarking::manifest_json;
  const std::string raw(reinterpret_cast<const char*>(data), size), input = with_sums(raw);
  try {
    const std::vector<ArchiveFile> files = read_archive(input);
    for (const ArchiveFile& file : files)
      if (!is_plain_path(file.path) || file.content.size() > size) std::abort();
    // An accepted archive can be written and read again, with the same result.
    const std::string again = write_archive(files);
    if (write_archive(read_archive(again)) != again) std::abort();
    const Bundle b = read_bundle(input);
    if (b.id != sha256(input) || b.files.size() != b.manifest.files.size()) std::abort();
    for (size_t i = 0; i < b.files.size(); ++i)
      if (sha256(b.files[i].content) != b.manifest.files[i].sha256) std::abort();
  } catch (const Refusal&) {
  }
  try {
    const Manifest m = parse_manifest(raw);
    if (!is_plain_name(m.name) || m.author.empty()) std::abort();
    const std::string text = manifest_json(m);
    if (manifest_json(parse_manifest(text)) != text) std::abort();
  } catch (const Refusal&) {
  }
  return 0;
}
