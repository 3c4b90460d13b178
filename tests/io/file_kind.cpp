// Recognition of other kinds of files: every reader names the kind in its error.
#include <tinytorch/io/file_kind.hpp>

#include <functional>
#include <io/files.hpp>
#include <tinytorch/io/cifar10.hpp>
#include <tinytorch/io/idx.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/io/npz.hpp>
#include <tinytorch/io/safetensors.hpp>

namespace tt = tinytorch;
using tt::io::kind_of;

namespace {

const std::string kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n";
const std::string kPage = "\n<!DOCTYPE html>\n<html class=\"\"><head></head></html>\n";
// The first bytes of files written by torch.save, in the current and the old format.
const std::string kArchive(
    "PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x10\x00\x12\x00"
    "archive/data.pkl",
    46);
const std::string kOldPickle(
    "\x80\x02\x8a\x0al\xfc\x9c"
    "F\xf9 j\xa8P\x19.",
    14);

const tt::io::FileKind* kind(const std::string& text) { return kind_of(tt::as_bytes(text)); }

}  // namespace

TEST_CASE("kinds are recognized by the first bytes") {
  using namespace tt::io;
  CHECK(kind(kPointer) == &kGitLfsPointer);
  CHECK(kind(kPage) == &kWebPage);
  CHECK(kind("<HTML>") == &kWebPage);
  CHECK(kind("\xef\xbb\xbf<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>") == &kWebPage);
  CHECK(kind(kArchive) == &kTorchArchive);
  CHECK(kind(kOldPickle) == &kPickle);
  CHECK(kind("PK\x03\x04" + std::string(40, 'x')) == &kZip);
  CHECK(kind("\x1f\x8b\x08") == &kGzip);
  CHECK(kind("GGUF\x03") == &kGguf);
  CHECK(kind("\x89HDF\r\n\x1a\n") == &kHdf5);
  CHECK(kind("\x93NUMPY\x01") == &kNpy);
  CHECK(kind(std::string("\xff\xfe{\0", 4)) == &kUtf16);
  CHECK(kind(std::string("\xfe\xff\0{", 4)) == &kUtf16);
  CHECK(kind(std::string("{\0\"\0", 4)) == &kUtf16);  // without a byte order mark
  CHECK(kind(std::string("\0{\0\"", 4)) == &kUtf16);
}

TEST_CASE("valid files of the readers are not recognized as another kind") {
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("\xef\xbb\xbf{}"), std::string("First Citizen:"),
        std::string("<|endoftext|>"), std::string("version"), std::string("\x80"),
        std::string("\0\0\x08\x03", 4), std::string("a\0b", 3)}) {
    CAPTURE(text);
    CHECK(kind(text) == nullptr);
  }
  for (const char* name : {"all.safetensors", "none.safetensors"})
    CHECK(kind_of(files::golden_bytes(name)) == nullptr);
}

TEST_CASE("a safetensors header whose length looks like the first bytes of a pickle is read") {
  std::string header = "{\"__metadata__\":{\"k\":\"\"}}";
  header.insert(header.size() - 3, std::string(0x280 - header.size(), 'v'));
  std::string file("\x80\x02\0\0\0\0\0\0", 8);
  file += header;
  CHECK(kind(file) == &tt::io::kPickle);
  CHECK(tt::parse_safetensors(tt::as_bytes(file)).empty());
}

TEST_CASE("the error of every reader names the kind of file and says what to do") {
  const std::string utf16("\xff\xfe{\0}\0\r\0\n\0", 10);
  struct Reader {
    const char* format;
    std::function<void(tt::Bytes)> parse;
  };
  const Reader readers[] = {
    {"safetensors", [](tt::Bytes b) { tt::parse_safetensors(b, "f"); }},
    {"JSON", [](tt::Bytes b) { tt::parse_json(b, "f"); }},
    {"text", [](tt::Bytes b) { tt::parse_text(b, "f"); }},
    {"npy", [](tt::Bytes b) { tt::parse_npy(b, "f"); }},
#if TINYTORCH_WITH_LIBZIP
    {"npz", [](tt::Bytes b) { tt::parse_npz(b, "f"); }},
#endif
    {"IDX", [](tt::Bytes b) { tt::parse_idx(b, "f"); }},
    {"CIFAR-10 binary", [](tt::Bytes b) { tt::parse_cifar10(b, "f"); }}
  };
  for (const Reader& reader : readers) {
    for (const auto& [text_of_kind, name_of_kind, hint] :
         {std::tuple(kPointer, "a git-lfs pointer", "git lfs pull"),
          std::tuple(kPage, "a web page", "/resolve/"),
          std::tuple(kArchive, "as written by torch.save", "save_file(torch.load("),
          std::tuple(kOldPickle, "a Python pickle", "weights_only=True"),
          std::tuple(utf16, "text in UTF-16", "iconv -f UTF-16 -t UTF-8")}) {
      const auto& text = text_of_kind;  // clang 14 cannot capture a structured binding in a lambda
      const std::string what = name_of_kind;
      CAPTURE(reader.format);
      CAPTURE(what);
      const files::Refusal refusal = files::refusal_of([&] { reader.parse(tt::as_bytes(text)); });
      if (what == "a web page" && std::string(reader.format) == "text") {
        CHECK(refusal.code == "");  // a web page is text
        continue;
      }
      CHECK(refusal.code == "TT-IO-03");
      CHECK(files::contains(refusal.text, "cannot read 'f' as " + std::string(reader.format)));
      CHECK(files::contains(refusal.text, what));
      CHECK(files::contains(refusal.text, hint));
    }
  }
}
