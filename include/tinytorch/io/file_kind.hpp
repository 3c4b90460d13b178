// Recognizes common kinds of files by their first bytes, so that an error for a wrong file can name its kind
// and say how to get the right file.
//
// Readers use this only after their own check has failed, because the first bytes of a safetensors file are a
// length, which may look like another kind.
#pragma once

#include <cctype>
#include <tinytorch/io/bytes.hpp>

namespace tinytorch::inline TT_BUILD::io {

struct FileKind {
  const char* what;  // "a web page", for messages
  const char* hint;  // how to get the intended file
};

inline constexpr const char* kConvertPickle =
    "unpickling runs code from the file, so it is not read here. Convert it once, in Python: for a "
    "model's "
    "folder, AutoModelForCausalLM.from_pretrained('old').save_pretrained('new') writes safetensors; for a "
    "single "
    "file, safetensors.torch.save_file(torch.load('old.pt', weights_only=True), 'new.safetensors')";

inline constexpr FileKind kGitLfsPointer{
    "a git-lfs pointer to a large file that was not fetched",
    "run git lfs install and git lfs pull in the folder, or download the file itself"};
inline constexpr FileKind kWebPage{
    "a web page",
    "download the file itself, not the page about it: at Hugging Face, use the "
    "address with /resolve/ in place of /blob/"};
inline constexpr FileKind kPickle{"a Python pickle, as written by torch.save before 2020", kConvertPickle};
inline constexpr FileKind kTorchArchive{"a zip archive with a Python pickle, as written by torch.save",
                                        kConvertPickle};
inline constexpr FileKind kZip{"a zip archive", "unpack it first"};
inline constexpr FileKind kGzip{"a gzip file", "unpack it first, with gunzip or tar -xzf"};
inline constexpr FileKind kUtf16{"text in UTF-16", "convert it first: iconv -f UTF-16 -t UTF-8 OLD > NEW"};
inline constexpr FileKind kGguf{"a GGUF file, the format of llama.cpp",
                                "load_gguf reads models in this format, and open_gguf any file of it"};
inline constexpr FileKind kHdf5{"an HDF5 file, as written by Keras", "convert it to safetensors in Python"};
inline constexpr FileKind kNpy{"a NumPy array", "use load_npy to read it"};

// The kind of a file with these first bytes, or null if it is none of the above.
inline const FileKind* kind_of(Bytes bytes) {
  std::string_view text = as_text(bytes);
  if (text.starts_with("version https://git-lfs.github.com/spec/")) return &kGitLfsPointer;
  if (text.starts_with("PK\x03\x04"))  // the name of the first entry begins at byte 30
    return text.substr(0, 256).find("data.pkl") != std::string_view::npos ? &kTorchArchive : &kZip;
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5) return &kPickle;
  if (text.starts_with("\x1f\x8b")) return &kGzip;
  if (text.starts_with("GGUF")) return &kGguf;
  if (text.starts_with("\x89HDF\r\n\x1a\n")) return &kHdf5;
  if (text.starts_with("\x93NUMPY")) return &kNpy;
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return &kUtf16;
  const auto is_pair = [&](size_t letter, size_t zero) {
    return std::isprint(static_cast<unsigned char>(text[letter])) && text[zero] == '\0';
  };
  if (text.size() >= 4 && ((is_pair(0, 1) && is_pair(2, 3)) || (is_pair(1, 0) && is_pair(3, 2))))
    return &kUtf16;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string start(text.substr(0, 14));
  for (char& c : start) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_page = start == "<!doctype html" || start.starts_with("<html") || start.starts_with("<?xml");
  return is_page ? &kWebPage : nullptr;
}

[[noreturn]] inline void refuse_kind(const FileKind& kind, const Source& source) {
  source.reject(source.format, kind.what, "TT-IO-03", kind.hint);
}
// Throws if the bytes are of a kind above; returns otherwise.
inline void refuse_other_kind(Bytes bytes, const Source& source) {
  if (const FileKind* const kind = kind_of(bytes)) refuse_kind(*kind, source);
}

}  // namespace tinytorch::inline TT_BUILD::io
