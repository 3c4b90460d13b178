// npz: named arrays in one zip archive, each as "<name>.npy" (numpy.savez, numpy.savez_compressed).
//
// libzip reads and writes the archive; checksums are verified. An entry's stated size may be at most 1032
// times its compressed size, the limit of deflate. Written archives have a fixed date, so the same tensors
// always give the same bytes. Without TINYTORCH_WITH_LIBZIP, every call throws an error that says how to
// enable it.
#pragma once

#include <map>
#include <tinytorch/io/npy.hpp>

#if TINYTORCH_WITH_LIBZIP
#include <zip.h>

#include <memory>
#endif

namespace tinytorch::inline TT_BUILD {

#if TINYTORCH_WITH_LIBZIP

namespace io {

// Owns the objects of libzip. The zip_error_t is kept as long as its message may be needed.
class ZipArchive {
 public:
  ZipArchive() { zip_error_init(&error_); }
  ~ZipArchive() {
    if (archive_) zip_discard(archive_);
    if (source_) zip_source_free(source_);
    zip_error_fini(&error_);
  }
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  // False if libzip reports an error, which message() returns.
  bool open(const void* data, size_t size, int flags) {
    source_ = zip_source_buffer_create(data, size, 0, &error_);
    if (!source_) return false;
    zip_source_keep(source_);  // kept to read the written bytes; freed in the destructor
    archive_ = zip_open_from_source(source_, flags, &error_);
    if (!archive_) zip_source_free(source_);
    return archive_ != nullptr;
  }
  bool close() {
    if (zip_close(archive_) != 0) return false;
    archive_ = nullptr;
    return true;
  }
  zip_t* get() const { return archive_; }
  zip_source_t* source() const { return source_; }
  std::string message() { return archive_ ? zip_strerror(archive_) : zip_error_strerror(&error_); }

 private:
  zip_error_t error_;
  zip_source_t* source_ = nullptr;
  zip_t* archive_ = nullptr;
};

struct CloseZipFile {
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};

// Throws TT-IO-02 unless every name of `types` is one of `tensors`.
inline void require_names(const StoredTypes& types, const std::map<std::string, Tensor>& tensors,
                          const std::string& where, Loc loc) {
  for (const auto& item : types) {
    if (tensors.contains(item.first)) continue;
    fail("TT-IO-02",
         "npz: there is no array " + in_quotes(item.first) + " in " + where + " for the type " +
             name_of(item.second),
         loc);
  }
}

inline std::vector<std::byte> read_zip_entry(ZipArchive& archive, uint64_t index, const zip_stat_t& info,
                                             const Source& source) {
  constexpr uint64_t kDeflateRatio = 1032;
  const std::string entry = in_quotes(info.name);
  if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE) {
    source.reject("entries stored or deflated", entry + " with method " + std::to_string(info.comp_method),
                  "TT-IO-04");
  }
  if (info.encryption_method != ZIP_EM_NONE)
    source.reject("entries without a password", entry + " encrypted", "TT-IO-04");
  if (info.size / kDeflateRatio > info.comp_size) {
    source.reject("at most 1032 times the compressed size",
                  entry + " with " + count_of(info.size, "bytes from ") + count_of(info.comp_size, "bytes"));
  }
  const std::unique_ptr<zip_file_t, CloseZipFile> file(zip_fopen_index(archive.get(), index, 0));
  if (!file) source.reject("a readable entry", entry + ": " + archive.message());
  // One byte more than the size, because libzip verifies the checksum only when the end of the entry is read.
  std::vector<std::byte> out(static_cast<size_t>(info.size) + 1);
  size_t used = 0;
  while (used < out.size()) {
    const zip_int64_t n = zip_fread(file.get(), out.data() + used, out.size() - used);
    if (n < 0) source.reject("undamaged data in " + entry, zip_file_strerror(file.get()));
    if (n == 0) break;
    used += static_cast<size_t>(n);
  }
  if (used != info.size)
    source.reject(count_of(info.size, "bytes in ") + entry, used > info.size ? "more" : std::to_string(used));
  out.resize(used);
  return out;
}

}  // namespace io

// Parses all arrays of an archive held in memory, by name without ".npy". Raw bytes ('V1') of an array have
// the type that `raw` names for it (npy.hpp). Throws TT-IO-02 for a name in `raw` that the archive does not
// have.
inline std::map<std::string, Tensor> parse_npz(Bytes bytes, const StoredTypes& raw,
                                               const std::string& name = "npz data", TT_LOC) {
  const io::Source source{name, "npz", loc};
  io::ZipArchive archive;
  // libzip would accept an empty buffer as an empty archive.
  source.expect(!bytes.empty(), "a zip archive", "an empty file");
  if (const io::FileKind* const kind = io::kind_of(bytes); kind && kind != &io::kZip)
    io::refuse_kind(*kind, source);
  if (!archive.open(bytes.data(), bytes.size(), ZIP_RDONLY | ZIP_CHECKCONS))
    source.reject("a zip archive", archive.message());
  std::map<std::string, Tensor> out;
  uint64_t compressed_left =
      bytes.size();  // entries must not share bytes, which would defeat the bound on memory
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t info;
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                                     ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    const auto index = static_cast<zip_uint64_t>(i);
    if (zip_stat_index(archive.get(), index, 0, &info) != 0 || (info.valid & kNeeded) != kNeeded)
      source.reject("a complete archive entry", archive.message());
    if (info.comp_size > compressed_left) {
      source.reject("entries that do not overlap in the archive",
                    io::in_quotes(info.name) + " with " + io::count_of(info.comp_size, "compressed bytes"));
    }
    compressed_left -= info.comp_size;
    std::string key = info.name;
    if (!key.ends_with(".npy")) source.reject("only entries named *.npy", io::in_quotes(key));
    const std::vector<std::byte> array = io::read_zip_entry(archive, index, info, source);
    const std::string path = name + ":" + key;
    key.resize(key.size() - 4);
    const auto type = raw.find(key);
    const Tensor t =
        type == raw.end() ? parse_npy(array, path, loc) : parse_npy(array, type->second, path, loc);
    if (!out.emplace(key, t).second) source.reject("each name once", io::in_quotes(key) + " twice");
  }
  io::require_names(raw, out, name, loc);
  return out;
}

// The content of the file that save_npz writes.
inline std::vector<std::byte> to_npz(const std::map<std::string, Tensor>& tensors, const StoredTypes& types,
                                     bool compress = false, TT_LOC) {
  io::require_names(types, tensors, "these tensors", loc);
  if (tensors.empty()) {  // libzip cannot write an empty archive, which is only the end record
    std::vector<std::byte> none(22);
    std::memcpy(none.data(), "PK\x05\x06", 4);
    return none;
  }
  io::ZipArchive archive;
  const auto check = [&](bool holds, const std::string& reason = {}) {
    if (!holds) fail("TT-IO-02", "npz: " + (reason.empty() ? archive.message() : reason), loc);
  };
  std::vector<std::vector<std::byte>> arrays;  // kept, because libzip reads them at close()
  check(archive.open(nullptr, 0, ZIP_TRUNCATE));
  for (const auto& [name, t] : tensors) {
    check(name.find('\0') == std::string::npos, "a name contains a zero byte: " + io::in_quotes(name));
    const auto type = types.find(name);
    arrays.push_back(type == types.end() ? to_npy(t, loc) : to_npy(t, type->second, loc));
    zip_source_t* data = zip_source_buffer(archive.get(), arrays.back().data(), arrays.back().size(), 0);
    check(data);
    const zip_int64_t index = zip_file_add(archive.get(), (name + ".npy").c_str(), data, ZIP_FL_ENC_UTF_8);
    if (index < 0) zip_source_free(data);
    check(index >= 0);
    const auto entry = static_cast<zip_uint64_t>(index);
    check(zip_set_file_compression(archive.get(), entry, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) == 0);
    constexpr zip_uint16_t kDate = (0 << 9) | (1 << 5) | 1;  // 1980-01-01, the first day of zip's calendar
    check(zip_file_set_dostime(archive.get(), entry, 0, kDate, 0) == 0);
  }
  check(archive.close());
  zip_stat_t info;
  check(zip_source_stat(archive.source(), &info) == 0 && zip_source_open(archive.source()) == 0);
  std::vector<std::byte> out(static_cast<size_t>(info.size));
  const zip_int64_t n = zip_source_read(archive.source(), out.data(), out.size());
  zip_source_close(archive.source());
  check(n == static_cast<zip_int64_t>(out.size()));
  return out;
}

#else

namespace io {
[[noreturn]] inline void fail_without_libzip(const std::string& name, Loc loc) {
  fail("TT-IO-05",
       "npz: cannot read or write '" + name +
           "': this program was built without libzip\n  hint: install libzip-dev and build with "
           "-DTINYTORCH_WITH_LIBZIP=1 -lzip, or store single arrays as npy",
       loc);
}
}  // namespace io

inline std::map<std::string, Tensor> parse_npz(Bytes, const StoredTypes&,
                                               const std::string& name = "npz data", TT_LOC) {
  io::fail_without_libzip(name, loc);
}
inline std::vector<std::byte> to_npz(const std::map<std::string, Tensor>&, const StoredTypes&, bool = false,
                                     TT_LOC) {
  io::fail_without_libzip("npz data", loc);
}

#endif

inline std::map<std::string, Tensor> parse_npz(Bytes bytes, const std::string& name = "npz data", TT_LOC) {
  return parse_npz(bytes, StoredTypes{}, name, loc);
}
inline std::vector<std::byte> to_npz(const std::map<std::string, Tensor>& tensors, bool compress = false,
                                     TT_LOC) {
  return to_npz(tensors, StoredTypes{}, compress, loc);
}

inline std::map<std::string, Tensor> load_npz(const std::string& path, TT_LOC) {
  return parse_npz(read_file(path, uint64_t{1} << 40, loc), path, loc);
}
inline std::map<std::string, Tensor> load_npz(const std::string& path, const StoredTypes& raw, TT_LOC) {
  return parse_npz(read_file(path, uint64_t{1} << 40, loc), raw, path, loc);
}
// Writes named tensors (any device, any strides); `compress` compresses each entry by deflate.
inline void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors,
                     bool compress = false, TT_LOC) {
  write_file(path, to_npz(tensors, compress, loc), loc);
}
// As above, with the values of some arrays as the types that `types` names, which must hold them (TT-IO-02):
//   save_npz("data.npz", {{"tokens", tokens}, {"mean", mean}}, {{"tokens", StoredType::u16}});
inline void save_npz(const std::string& path, const std::map<std::string, Tensor>& tensors,
                     const StoredTypes& types, bool compress = false, TT_LOC) {
  write_file(path, to_npz(tensors, types, compress, loc), loc);
}

}  // namespace tinytorch::inline TT_BUILD
