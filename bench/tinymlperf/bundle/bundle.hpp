// A bundle (.tmlp) is a submission in one file, identified by the SHA-256 of that file.
//
//   archive.hpp   the tar file: its format and limits
//   manifest.hpp  manifest.json, the first file of the archive
//   bundle.hpp    both together: the manifest lists exactly the files, with their sizes and digests
//   rules.hpp     the files and fields that a submission of each tier needs
// A Bundle in memory comes from read_bundle(), which makes the checks of the first three.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <tinymlperf/bundle/manifest.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinytorch/benchmarking/submission.hpp>
#include <tinytorch/io/file.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::bundle {

struct Bundle {
  std::string id;  // SHA-256 of the whole file
  Manifest manifest;
  std::string manifest_text;       // the bytes of manifest.json
  std::vector<ArchiveFile> files;  // without the manifest, in the order that it lists them

  // Returns the content of a file, or nullptr if the bundle has no such file.
  const std::string* find(std::string_view path) const {
    for (const ArchiveFile& file : files)
      if (file.path == path) return &file.content;
    return nullptr;
  }
};

// Throws Refusal.
inline Bundle read_bundle(std::string_view bytes) {
  std::vector<ArchiveFile> files = read_archive(bytes);
  const auto size = static_cast<int64_t>(files.empty() ? 0 : files.front().content.size());
  if (files.empty() || files.front().path != kManifestFile || size > limits::kJsonBytes)
    throw Refusal("bundle", "",
                  std::string(kManifestFile) + " as its first file, of at most " +
                      std::to_string(limits::kJsonBytes) + " bytes",
                  files.empty() ? "no file" : files.front().path + " of " + std::to_string(size) + " bytes");
  Bundle out{sha256(bytes), parse_manifest(files.front().content), files.front().content, {}};
  files.erase(files.begin());
  const std::vector<FileRecord>& named = out.manifest.files;
  for (size_t i = 0; i < std::max(files.size(), named.size()); ++i) {
    const std::string where = "files[" + std::to_string(i) + "]";
    if (i >= named.size()) throw Refusal(kManifestFile, where, "an entry for " + files[i].path, "none");
    if (i >= files.size() || files[i].path != named[i].path)
      throw Refusal("bundle", where, named[i].path + ", which the manifest lists",
                    i < files.size() ? files[i].path : "no further file");
    const std::string content =
        std::to_string(files[i].content.size()) + " bytes, " + sha256(files[i].content);
    const std::string expected = std::to_string(named[i].bytes) + " bytes, " + named[i].sha256;
    if (content != expected) throw Refusal("bundle", named[i].path, expected, content);
  }
  out.files = std::move(files);
  return out;
}

// Returns the bytes of a bundle with these files. Fills the manifest's list of files, and sorts the files by
// path, so that the same content has the same id. Throws Refusal if read_bundle() would refuse the result.
inline std::string pack(Manifest manifest, std::vector<ArchiveFile> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  manifest.files = tinytorch::benchmarking::records_of(files, sha256);
  files.insert(files.begin(), {kManifestFile, tinytorch::benchmarking::manifest_json(manifest)});
  std::string bytes = write_archive(files);
  read_bundle(bytes);
  return bytes;
}

// Returns all files below the folder except a manifest. Throws Refusal for links, devices, and too many files
// or bytes.
inline std::vector<ArchiveFile> read_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<ArchiveFile> files;
  int64_t room = ArchiveLimits{}.bytes;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  if (error) throw Refusal(folder.string(), "", "a folder that can be read", error.message());
  for (; it != end; ++it) {
    const std::string path = it->path().lexically_relative(folder).generic_string();
    const fs::file_status status = it->symlink_status();
    if (fs::is_directory(status)) continue;
    if (!fs::is_regular_file(status)) throw Refusal(path, "", "a plain file", "a link or a device");
    if (path == kManifestFile) continue;
    files.push_back({path, tinymlperf::detail::read_limited(it->path(), room)});
    room -= static_cast<int64_t>(files.back().content.size());
    if (files.size() > detail::kMostFiles)
      throw Refusal(folder.string(), "", "at most " + std::to_string(detail::kMostFiles) + " files", "more");
  }
  return files;
}

// Writes all files and the manifest to a new folder. If that fails, the folder does not exist afterwards.
// Throws Refusal if the path exists already.
inline void unpack(const Bundle& bundle, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::symlink_status(folder)))
    throw Refusal(folder.string(), "", "a path that does not exist yet", "a file or folder");
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  fs::create_directories(parent);
  TemporaryFolder temporary(parent);
  tinytorch::write_file((temporary.path() / kManifestFile).string(), std::string_view(bundle.manifest_text));
  for (const ArchiveFile& file : bundle.files) {
    const fs::path target = temporary.path() / file.path;
    fs::create_directories(target.parent_path());
    tinytorch::write_file(target.string(), std::string_view(file.content));
  }
  temporary.become(folder);
}

}  // namespace tinymlperf::bundle
