// A header set: the folder include/tinytorch/ of a submission. Each file has the path of the library header
// that it replaces, and comes before it on the include path, so that the rest of the library uses it. A
// header set is code (tier T2): it is compiled into the process that answers, never into the judge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tinymlperf/support/json_fields.hpp>
#include <tree/source_folder.hpp>
#include <vector>

namespace tinymlperf {

constexpr const char* kHeaderFolder = "include";

// "; it is PATH now" for a header of an earlier version that has moved since, else "".
inline std::string moved_to(const std::string& name) {
  std::ifstream file(std::filesystem::path(tinytorch_tree::kSourceFolder) / "modules" / "moved.json");
  const auto moved = nlohmann::json::parse(file, nullptr, false);
  if (!moved.is_object() || !moved.contains(name)) return "";
  return "; it is include/" + moved[name].get<std::string>() + " now";
}

class HeaderSet {
 public:
  static constexpr size_t kMost = 128;
  static constexpr int64_t kMostBytes = int64_t{1} << 20;
  static constexpr std::string_view kPrefix = "include/";

  static bool holds(std::string_view path) { return path.starts_with(kPrefix); }
  // The names of the headers among `files`, in their order. The files must have been checked before.
  template <class Files>
  static std::vector<std::string> names_in(const Files& files) {
    std::vector<std::string> out;
    for (const auto& file : files)
      if (holds(file.path)) out.push_back(file.path.substr(kPrefix.size()));
    return out;
  }

  // Adds a file by its path in the submission: include/tinytorch/tensor/strides.hpp. Throws Refusal.
  void add(const std::string& path, int64_t bytes) {
    const std::string name = path.substr(kPrefix.size());
    if (name.starts_with("tinytorch/core/"))
      throw Refusal(
          path, "",
          "a header outside core/ (headers of core/ cannot be replaced; move the change to another header)",
          "a header of core/");
    if (!name.ends_with(".hpp"))
      throw Refusal(path, "", "a .hpp header (only headers for the CPU can be replaced; remove this file)",
                    "another kind of file");
    const std::filesystem::path library =
        std::filesystem::path(tinytorch_tree::kSourceFolder) / "include" / name;
    if (!name.starts_with("tinytorch/") || library.lexically_normal() != library ||
        !std::filesystem::is_regular_file(library))
      throw Refusal(
          path, "",
          "the path of the library's header that it replaces (move new code into such a header, or "
          "beside plugin.cpp)",
          "a file that replaces nothing, since the library has no include/" + name + moved_to(name));
    names_.insert(std::ranges::upper_bound(names_, name), name);
    bytes_ += bytes;
    if (names_.size() > kMost || bytes_ > kMostBytes)
      throw Refusal(
          kHeaderFolder, "",
          "at most " + std::to_string(kMost) + " headers and " + std::to_string(kMostBytes) +
              " bytes of them (remove headers that do not differ from the library's)",
          std::to_string(names_.size()) + " or more, of " + std::to_string(bytes_) + " bytes or more");
  }

  // The replaced headers as they are included (tinytorch/tensor/strides.hpp), sorted by name.
  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return names_.empty(); }

 private:
  std::vector<std::string> names_;
  int64_t bytes_ = 0;
};

// A sentence, without its full stop, that lists the headers which the contender `name` replaces.
inline std::string replaced_text(const std::string& name, const std::vector<std::string>& headers) {
  if (headers.empty()) return name + " replaces no headers of the library";
  std::string out = name + " replaces headers of the library:";
  for (size_t i = 0; i < headers.size(); ++i) out += (i ? ", " : " ") + headers[i];
  return out;
}

// The header set of `files`, each of which has a path; size_of(file) returns its bytes. Throws Refusal.
template <class Files, class SizeOf>
HeaderSet header_set_of(const Files& files, SizeOf&& size_of) {
  HeaderSet out;
  for (const auto& file : files)
    if (HeaderSet::holds(file.path)) out.add(file.path, size_of(file));
  return out;
}

// The header set of a submission's folder. Throws Refusal.
inline HeaderSet header_set_of(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  HeaderSet out;
  const fs::path top = folder / kHeaderFolder;
  const auto require_no_link = [&](const fs::path& path) {
    if (fs::is_symlink(fs::symlink_status(path)))
      throw Refusal(path.lexically_relative(folder).generic_string(), "",
                    "a file or a folder (replace the link by a copy)", "a link");
  };
  require_no_link(top);
  if (!fs::is_directory(top)) return out;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(top)) {
    require_no_link(file.path());
    if (!file.is_directory())
      out.add(file.path().lexically_relative(folder).generic_string(),
              file.is_regular_file() ? static_cast<int64_t>(file.file_size()) : 0);
  }
  return out;
}

}  // namespace tinymlperf
