// The text that every generated kernel begins with: the library's own functions of elements.
//
//   const Prelude& p = kernel_prelude();
//   if (p.problem.empty()) source = p.text + kernel;
//
// The text is made from the headers themselves (core/scalar_math.hpp, backend/activation.hpp,
// backend/functors.hpp), so that a generated kernel runs the same source as the loops of the library, and
// gives the same bits. The headers are found below the folders of the include path, in its order: those in
// the environment variable TINYTORCH_HEADERS (separated by ':'), those that the build names (in a
// linked file, CMakeLists.txt, or in TINYTORCH_HEADER_FOLDERS, if the library was installed), and those of
// the system. So a student's activation.hpp that replaces the library's also replaces it here. Without the
// headers there are no generated kernels.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <tinytorch/acceleration/prelude_shim.hpp>
#include <tinytorch/core/config.hpp>
#include <vector>

#ifdef TINYTORCH_LINKS_HEADER_FOLDERS
extern const char* const tinytorch_header_folders;  // separated by ':'
#endif

namespace tinytorch::inline TT_BUILD::acceleration {

struct Prelude {
  std::string text;
  std::string problem;  // why there is no text; empty if there is one
};

// The folders of the include path that may hold headers of the library, in its order.
inline std::vector<std::filesystem::path> header_folders() {
  std::vector<std::filesystem::path> folders;
  const auto add_list = [&](std::string_view list) {
    while (!list.empty()) {
      const size_t end = std::min(list.find(':'), list.size());
      if (end > 0) folders.emplace_back(list.substr(0, end));
      list.remove_prefix(std::min(end + 1, list.size()));
    }
  };
  if (const char* named = std::getenv("TINYTORCH_HEADERS")) add_list(named);
#if defined(TINYTORCH_LINKS_HEADER_FOLDERS)
  add_list(tinytorch_header_folders);
#elif defined(TINYTORCH_HEADER_FOLDERS)
  add_list(TINYTORCH_HEADER_FOLDERS);
#endif
  folders.insert(folders.end(), {"/usr/local/include", "/usr/include"});
  return folders;
}

// Joins headers to one text: includes of headers that the text needs are replaced by their content, all
// others are left out, because the shim defines what they would.
class PreludeText {
 public:
  explicit PreludeText(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  void add(const std::string& header) {
    if (!problem_.empty() || !seen_.insert(header).second) return;
    const std::string text = read(header);
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      add_line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  // The declaration of an enumeration in another header, which is not needed as a whole.
  void add_enum(const std::string& header, const std::string& name) {
    const std::string text = read(header);
    const size_t at = text.find("enum class " + name);
    const size_t end = at == std::string::npos ? at : text.find(';', at);
    if (end == std::string::npos) {
      if (problem_.empty()) problem_ = header + " has no enumeration " + name;
      return;
    }
    out_ += "namespace tinytorch::inline TT_BUILD::backend {\n" + text.substr(at, end - at) + ";\n}\n";
  }
  void add_text(std::string_view text) { out_ += text; }
  Prelude result() const { return problem_.empty() ? Prelude{out_, {}} : Prelude{{}, problem_}; }

 private:
  std::string read(const std::string& header) {
    for (const auto& folder : folders_) {
      std::ifstream file(folder / header, std::ios::binary);  // an absolute header replaces the folder
      if (file) return {std::istreambuf_iterator<char>(file), {}};
    }
    if (problem_.empty()) problem_ = "the header " + header + " was not found";
    return {};
  }
  // True for headers whose content a kernel needs. Files outside tinytorch/ are parts of a student's header.
  bool needed(const std::string& header) const {
    static const std::set<std::string> kNeeded = {"tinytorch/core/config.hpp", "tinytorch/core/dtype.hpp",
                                                  "tinytorch/core/scalar_math.hpp",
                                                  "tinytorch/backend/activation.hpp"};
    if (kNeeded.contains(header)) return true;
    if (header.starts_with("tinytorch/")) return false;
    for (const auto& folder : folders_) {
      std::error_code error;
      if (header.find('/') != std::string::npos && std::filesystem::is_regular_file(folder / header, error))
        return true;
    }
    return false;
  }
  void add_line(std::string_view line) {
    const size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string_view::npos) return;
    if (line.substr(hash).starts_with("//")) return;  // a changed comment changes no kernel
    if (line[hash] != '#') {
      out_.append(line).push_back('\n');
      return;
    }
    if (line.find("pragma once") != std::string_view::npos) return;
    if (line.find("include", hash) != line.find_first_not_of(" \t#", hash)) {
      out_.append(line).push_back('\n');
      return;
    }
    const size_t begin = line.find_first_of("<\""), end = line.find_first_of(">\"", begin + 1);
    if (begin == std::string_view::npos || end == std::string_view::npos) return;
    const std::string header(line.substr(begin + 1, end - begin - 1));
    if (needed(header)) add(header);
  }

  std::vector<std::filesystem::path> folders_;
  std::set<std::string> seen_;
  std::string out_, problem_;
};

// Makes the prelude of kernels on the CPU, or, with `device`, on a GPU, which also needs the device's
// versions of the functions.
inline Prelude make_prelude(std::vector<std::filesystem::path> folders, bool device = false) {
  PreludeText text(std::move(folders));
  text.add("tinytorch/core/config.hpp");
  text.add_text(prelude_shim(device));
  text.add_enum("tinytorch/backend/parameters.hpp", "PointwiseLoss");
  text.add_enum("tinytorch/backend/parameters.hpp", "Activation");
  text.add("tinytorch/backend/functors.hpp");
  if (device) {
    text.add("tinytorch/backend/cuda/device/vector.cuh");
    text.add("tinytorch/backend/cuda/device/functions.cuh");
  }
  return text.result();
}

// The prelude of this process; the headers are read at the first call.
inline const Prelude& kernel_prelude() {
  static const Prelude prelude = make_prelude(header_folders());
  return prelude;
}
inline const Prelude& device_prelude() {
  static const Prelude prelude = make_prelude(header_folders(), true);
  return prelude;
}

}  // namespace tinytorch::inline TT_BUILD::acceleration
