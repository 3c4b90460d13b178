// Small valid bundles for tests, and tar headers that a normal packer would not write.
#pragma once

#include <cstdio>
#include <string>
#include <tinymlperf/bundle/rules.hpp>
#include <tinymlperf/entries/network.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <utility>
#include <vector>

namespace test {

// The files of an entry with an untrained linear model.
inline std::vector<tinymlperf::bundle::ArchiveFile> entry_files(const std::string& name, uint64_t seed = 1) {
  using namespace tinymlperf;
  const EntrySpec spec = parse_entry(R"({"schema": 1, "name": ")" + name +
                                     R"(", "input": [1, 28, 28], "classes": 10, "layers": [)"
                                     R"({"type": "avg_pool2d", "kernel": 7}, {"type": "flatten"}, )"
                                     R"({"type": "linear", "in": 16, "out": 10}]})");
  tinytorch::Generator random(seed);
  const TemporaryFolder folder;
  save_entry(folder.path() / "entry", spec, build_layers(spec, random)->state_dict());
  return bundle::read_folder(folder.path() / "entry");
}

// The files of an entry with an untrained language model.
inline std::vector<tinymlperf::bundle::ArchiveFile> text_entry_files(const std::string& name,
                                                                     uint64_t seed = 1) {
  using namespace tinymlperf;
  const EntrySpec spec = parse_entry(R"({"schema": 1, "benchmark": "lm", "type": "gpt", "context": 70, )"
                                     R"("features": 8, "layers": 1, "heads": 1, "name": ")" +
                                         name + "\"}",
                                     task_of("lm"));
  tinytorch::manual_seed(seed);
  const TemporaryFolder folder;
  save_entry(folder.path() / "entry", spec, build_gpt(spec)->state_dict());
  return bundle::read_folder(folder.path() / "entry");
}

inline tinymlperf::bundle::Manifest manifest(const std::string& name, const std::string& author = "Ada") {
  tinymlperf::bundle::Manifest m;
  m.name = name;
  m.author = author;
  m.licence = "CC0-1.0";
  return m;
}

inline std::string bundle_bytes(const std::string& name, uint64_t seed = 1,
                                const std::string& author = "Ada") {
  return tinymlperf::bundle::pack(manifest(name, author), entry_files(name, seed));
}

// One ustar header and its content. `type` is tar's type flag: '0' file, '1' hard link, '2' symbolic link,
// '3' device, '5' folder. `size` is the size in the header, if it differs from the content's.
inline std::string tar_member(const std::string& path, const std::string& content, char type = '0',
                              const std::string& link = "", long long size = -1) {
  std::string h(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { h.replace(at, text.size(), text); };
  const auto octal = [](long long value, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits, value);
    return std::string(text);
  };
  put(0, path.substr(0, 100));
  put(100, "0000644"), put(108, "0000000"), put(116, "0000000");
  put(124, octal(size < 0 ? static_cast<long long>(content.size()) : size, 11));
  put(136, "00000000000"), put(148, "        ");
  h[156] = type;
  put(157, link.substr(0, 100));
  put(257, std::string("ustar\0", 6) + "00");
  unsigned sum = 0;
  for (const char c : h) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + std::string("\0 ", 2));
  return h + content + std::string((512 - content.size() % 512) % 512, '\0');
}
inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace test
