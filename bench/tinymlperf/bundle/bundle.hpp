// A bundle (.tmlp): everything about a submission in one file, named by its SHA-256.
//
//   archive.hpp   the tar file, and what it must not contain
//   manifest.hpp  manifest.json, its first file
//   here          both together: every file is named with its size and digest, and nothing else is there
//   rules.hpp     what a submission of a tier must hold
// A bundle in memory (struct Bundle) has always passed these checks: read_bundle() and pack() are the ways to
// one.
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
  std::string manifest_text;       // as it stands in the file
  std::vector<ArchiveFile> files;  // without the manifest, in its order

  // The content of a file; nullptr: there is no such file.
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
    if (i >= named.size()) throw Refusal(kManifestFile, where, "a line on " + files[i].path, "none");
    if (i >= files.size() || files[i].path != named[i].path)
      throw Refusal("bundle", where, named[i].path + ", as the manifest says",
                    i < files.size() ? files[i].path : "no more file");
    const std::string content =
        std::to_string(files[i].content.size()) + " bytes, " + sha256(files[i].content);
    const std::string expected = std::to_string(named[i].bytes) + " bytes, " + named[i].sha256;
    if (content != expected) throw Refusal("bundle", named[i].path, expected, content);
  }
  out.files = std::move(files);
  return out;
}

// The bytes of the bundle of these files; the manifest's list of files is formed here. Files in the order of
// their paths, so that the same content has the same id. Throws Refusal where read_bundle would.
inline std::string pack(Manifest manifest, std::vector<ArchiveFile> files) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  manifest.files = tinytorch::benchmarking::records_of(files, sha256);
  files.insert(files.begin(), {kManifestFile, tinytorch::benchmarking::manifest_json(manifest)});
  std::string bytes = write_archive(files);
  read_bundle(bytes);
  return bytes;
}

// Every file below the folder, but a manifest. Throws Refusal for links and for what is too large.
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

// Makes the folder, with all files or not at all. The manifest comes along.
inline void unpack(const Bundle& bundle, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::symlink_status(folder)))
    throw Refusal(folder.string(), "", "a name that is not taken", "a file or folder");
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
