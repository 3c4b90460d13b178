// Writes and reads the tar file of a bundle. Writing is deterministic: the same files give the same bytes.
// Reading treats the bytes as untrusted input.
//
// A valid archive holds headers and contents back to back, and zeros at the end. Each entry is a plain file
// with a plain relative path that occurs once. Everything else that tar allows (links, devices, folders,
// sparse files, extended headers, bytes after the end) is refused and not interpreted, so that an archive
// cannot hide anything. A size is compared with the remaining bytes before memory is allocated for it.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tinymlperf/entries/entry.hpp>
#include <tinytorch/benchmarking/submission.hpp>
#include <vector>

namespace tinymlperf::bundle {

using ArchiveFile = tinytorch::benchmarking::BundleFile;

struct ArchiveLimits {
  size_t files = 160;
  int64_t bytes = limits::kWeightBytes + (int64_t{1} << 22);  // size of the archive
};

constexpr size_t kPathLength = 100, kPathDepth = 6;

// True for plain names joined by '/'. Absolute paths, "..", hidden files and characters with a meaning in a
// shell or in HTML are not plain.
inline bool is_plain_path(const std::string& path) {
  if (path.size() > kPathLength) return false;
  size_t parts = 0;
  for (size_t start = 0; start <= path.size(); ++parts) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (!is_plain_name(path.substr(start, end - start))) return false;
    start = end + 1;
  }
  return parts <= kPathDepth;
}

namespace detail {

constexpr const char* kArchive = "archive";
constexpr size_t kBlock = 512, kTypeAt = 156;
constexpr size_t round_up(size_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

using Writer = std::unique_ptr<archive, decltype(&archive_write_free)>;
using Reader = std::unique_ptr<archive, decltype(&archive_read_free)>;
using Header = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;

inline la_ssize_t append(archive*, void* to, const void* bytes, size_t count) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), count);
  return static_cast<la_ssize_t>(count);
}

inline void require(int status, archive* a) {
  if (status == ARCHIVE_OK) return;
  const char* why = archive_error_string(a);
  throw std::runtime_error(std::string("libarchive: ") + (why ? why : "an error without a message"));
}

// Checks one header and returns its path. `type` is the header's typeflag, which names the kind of file.
// `room` is the number of bytes behind the header.
inline std::string check_header(archive_entry* header, char type, size_t room) {
  const char* name = archive_entry_pathname(header);
  const std::string path = name ? name : "";
  const std::string shown = tinymlperf::detail::show(Json(path));
  if (!is_plain_path(path))
    throw Refusal(kArchive, "",
                  "relative paths of letters, digits, '.', '_' and '-', at most " +
                      std::to_string(kPathDepth) + " deep",
                  shown);
  const bool plain = (type == '0' || type == '\0') && archive_entry_filetype(header) == AE_IFREG &&
                     !archive_entry_hardlink(header) && !archive_entry_symlink(header);
  if (!plain) throw Refusal(kArchive, path, "a plain file", "a link, a folder, a device or a sparse file");
  const bool fits = archive_entry_size_is_set(header) && archive_entry_size(header) >= 0 &&
                    static_cast<uint64_t>(archive_entry_size(header)) <= room;
  if (!fits)
    throw Refusal(kArchive, path,
                  "at most the " + std::to_string(room) + " bytes that are left in the archive",
                  "a size of " + std::to_string(archive_entry_size(header)));
  return path;
}

inline std::string read_content(archive* a, const std::string& path, size_t size) {
  std::string content(size, '\0');
  for (size_t got = 0; got < size;) {
    const la_ssize_t n = archive_read_data(a, content.data() + got, size - got);
    if (n <= 0) throw Refusal(kArchive, path, std::to_string(size) + " bytes", "only " + std::to_string(got));
    got += static_cast<size_t>(n);
  }
  return content;
}

// Refuses a file whose path is the folder of another file.
inline void check_folders(const std::set<std::string>& paths) {
  for (const std::string& path : paths)
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
      if (paths.contains(path.substr(0, slash)))
        throw Refusal(kArchive, path, "a folder " + path.substr(0, slash), "a file of that name");
}

// The archive ends with at least two blocks of zeros and no more than tar's usual padding.
inline void check_end(std::string_view bytes, size_t end) {
  constexpr size_t kLeast = 2 * kBlock, kMost = 40 * kBlock;
  const bool sized = bytes.size() >= end + kLeast && bytes.size() <= end + kMost;
  if (!sized || bytes.substr(end).find_first_not_of('\0') != std::string_view::npos)
    throw Refusal(kArchive, "", "2 to 40 blocks of zeros after the last file, and nothing after them",
                  sized ? "other bytes" : "an archive of " + std::to_string(bytes.size()) + " bytes");
}

}  // namespace detail

// Returns an archive with the files in the given order, without dates and owners.
inline std::string write_archive(const std::vector<ArchiveFile>& files) {
  using namespace detail;
  std::string out;
  const Writer a(archive_write_new(), &archive_write_free);
  require(archive_write_set_format_ustar(a.get()), a.get());
  require(archive_write_add_filter_none(a.get()), a.get());
  require(archive_write_set_bytes_per_block(a.get(), static_cast<int>(kBlock)), a.get());
  require(archive_write_open(a.get(), &out, nullptr, append, nullptr), a.get());
  for (const ArchiveFile& file : files) {
    const Header header(archive_entry_new(), &archive_entry_free);
    archive_entry_set_pathname(header.get(), file.path.c_str());
    archive_entry_set_size(header.get(), static_cast<la_int64_t>(file.content.size()));
    archive_entry_set_filetype(header.get(), AE_IFREG);
    archive_entry_set_perm(header.get(), 0644);
    archive_entry_set_mtime(header.get(), 0, 0);
    require(archive_write_header(a.get(), header.get()), a.get());
    const la_ssize_t n = archive_write_data(a.get(), file.content.data(), file.content.size());
    if (n != static_cast<la_ssize_t>(file.content.size()))
      throw std::runtime_error("libarchive: could not write " + file.path);
  }
  require(archive_write_close(a.get()), a.get());
  return out;
}

// Throws Refusal.
inline std::vector<ArchiveFile> read_archive(std::string_view bytes, const ArchiveLimits& most = {}) {
  using namespace detail;
  if (bytes.size() > static_cast<uint64_t>(most.bytes))
    throw Refusal(kArchive, "", "at most " + std::to_string(most.bytes) + " bytes",
                  std::to_string(bytes.size()) + " bytes");
  const Reader a(archive_read_new(), &archive_read_free);
  require(archive_read_support_format_tar(a.get()), a.get());
  if (archive_read_open_memory(a.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    throw Refusal(kArchive, "", "a tar file", "another format");
  std::vector<ArchiveFile> files;
  std::set<std::string> paths;
  size_t end = 0;  // position after the last file that was read
  archive_entry* header = nullptr;
  for (int status; (status = archive_read_next_header(a.get(), &header)) != ARCHIVE_EOF;) {
    if (status != ARCHIVE_OK) {
      const char* why = archive_error_string(a.get());
      throw Refusal(kArchive, "", "a tar file", why ? why : "another format");
    }
    if (static_cast<size_t>(archive_read_header_position(a.get())) != end || bytes.size() < end + kBlock)
      throw Refusal(kArchive, "", "files back to back, without extended headers", "other bytes between them");
    std::string path = check_header(header, bytes[end + kTypeAt], bytes.size() - end - kBlock);
    if (!paths.insert(path).second) throw Refusal(kArchive, path, "each file once", "the same path again");
    if (paths.size() > most.files)
      throw Refusal(kArchive, "", "at most " + std::to_string(most.files) + " files", "more");
    const auto size = static_cast<size_t>(archive_entry_size(header));
    std::string content = read_content(a.get(), path, size);
    files.push_back({std::move(path), std::move(content)});
    end += kBlock + round_up(size);
  }
  check_folders(paths);
  check_end(bytes, end);
  return files;
}

}  // namespace tinymlperf::bundle
