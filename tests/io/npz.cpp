// npz: archives written by NumPy, round trips, rejected archives.
#include <tinytorch/io/npz.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;

#if TINYTORCH_WITH_LIBZIP

namespace {

using Tensors = std::map<std::string, tt::Tensor>;

void check_same(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& item : a) {
    CAPTURE(item.first);
    REQUIRE(b.contains(item.first));
    CHECK(files::same(item.second, b.at(item.first)));
  }
}

// A zip archive written by libzip, with any entry names and bytes.
std::vector<std::byte> zip_of(const std::vector<std::pair<std::string, std::vector<std::byte>>>& entries,
                              const std::string& path) {
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  REQUIRE(archive);
  for (const auto& [name, bytes] : entries) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    REQUIRE(zip_file_add(archive, name.c_str(), source, 0) >= 0);
  }
  REQUIRE(zip_close(archive) == 0);
  return tt::read_file(path);
}

}  // namespace

TEST_CASE("archives of NumPy, stored and deflated") {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    INFO(std::string(name));
    const Tensors tensors = tt::load_npz(files::golden(name));
    REQUIRE(tensors.size() == 3);
    CHECK(files::same(tensors.at("weight"), files::ramp({3, 4}, tt::f32)));
    CHECK(files::same(tensors.at("bias"), files::ramp({4}, tt::f64)));
    CHECK(tensors.at("step").rank() == 0);
    CHECK(tensors.at("step").item<int64_t>() == 12);
  }
}

TEST_CASE("round trips: every dtype, empty, rank 0, strided; the output is deterministic") {
  const files::TempFolder folder;
  Tensors tensors;
  for (const tt::DType dtype : files::all_dtypes())
    tensors[tt::name_of(dtype)] = files::ramp({3, 5, 7}, dtype);
  tensors["empty"] = files::ramp({2, 0}, tt::f32);
  tensors["scalar"] = files::ramp({}, tt::i64);
  tensors["layers.0/w\xc3\xa4ight"] = files::ramp({300, 100}, tt::f32);
  tensors["view"] = tt::alias(tensors["f32"], {7, 3}, {1, 35}, 7);
  for (const bool compress : {false, true}) {
    tt::save_npz(folder / "t.npz", tensors, compress);
    check_same(tensors, tt::load_npz(folder / "t.npz"));
    CHECK(tt::to_npz(tensors, compress) == tt::read_file(folder / "t.npz"));
  }
  CHECK(tt::to_npz(tensors, true).size() < tt::to_npz(tensors, false).size() / 4);
}

TEST_CASE("an archive without arrays") {
  CHECK(tt::to_npz({}) == files::golden_bytes("none.npz"));
  CHECK(tt::load_npz(files::golden("none.npz")).empty());
}

TEST_CASE("names that zip cannot store are rejected") {
  CHECK(refusal_of([] { tt::to_npz({{"\xff", files::ramp({1}, tt::f32)}}); }).code == "TT-IO-02");
  CHECK(refusal_of([] {
          tt::to_npz({{std::string("a\0b", 3), files::ramp({1}, tt::f32)}});
        }).code == "TT-IO-02");
}

TEST_CASE("archives that are not npz are rejected") {
  const files::TempFolder folder;
  const auto refused = [&](const std::vector<std::pair<std::string, std::vector<std::byte>>>& entries) {
    const std::vector<std::byte> bytes = zip_of(entries, folder / "x.zip");
    return refusal_of([&] { tt::parse_npz(bytes, "x.npz"); });
  };
  const std::vector<std::byte> array = tt::to_npy(files::ramp({3}, tt::f32));
  CHECK(refused({{"a.npy", array}}).code == "");
  const auto other = refused({{"a.npy", array}, {"readme.txt", array}});
  CHECK(other.code == "TT-IO-03");
  CHECK(files::contains(other.text, "'readme.txt'"));
  const auto broken = refused({{"a.npy", {array.begin(), array.end() - 1}}});
  CHECK(broken.code == "TT-IO-03");
  CHECK(files::contains(broken.text, "'x.npz:a.npy'"));
  const auto text = refusal_of([] { tt::parse_npz(tt::as_bytes("not a zip archive at all"), "t.npz"); });
  CHECK(text.code == "TT-IO-03");
  CHECK(files::contains(text.text, "'t.npz'"));
  CHECK(refusal_of([] { tt::parse_npz({}); }).code == "TT-IO-03");
}

TEST_CASE("a false size in the archive does not allocate memory") {
  // The two sizes of the only deflated entry, 4 bytes each, follow its checksum in both headers.
  Tensors tensors;
  tensors["a"] = files::ramp({8}, tt::f32);
  std::vector<std::byte> bytes = tt::to_npz(tensors, true);
  int changed = 0;
  for (size_t i = 0; i + 4 <= bytes.size(); ++i) {
    if (tt::io::load<uint32_t>(bytes, i, std::endian::little) != 160)
      continue;  // 128 bytes of header and 32 bytes of values
    const uint32_t claim = 0x7fffffff;
    std::memcpy(bytes.data() + i, &claim, 4);
    ++changed;
  }
  REQUIRE(changed >= 1);
  const auto refusal = refusal_of([&] { tt::parse_npz(bytes, "x.npz"); });
  CHECK(refusal.code == "TT-IO-03");
  CHECK(files::contains(refusal.text, "expected: at most 1032 times the compressed size"));
  CHECK(files::contains(refusal.text, "'a.npy' with 2147483647 bytes"));
}

TEST_CASE("entries that share bytes are rejected") {
  // One stored array of 48 KB, listed 40 times in the directory, would become 2 MB from a file of 50 KB.
  Tensors tensors;
  tensors["a"] = files::ramp({12'000}, tt::f32);
  const std::vector<std::byte> bytes = tt::to_npz(tensors);
  const size_t end_record = bytes.size() - 22;
  const auto start = tt::io::load<uint32_t>(bytes, end_record + 16, std::endian::little);
  const auto length = tt::io::load<uint32_t>(bytes, end_record + 12, std::endian::little);
  constexpr uint16_t kCopies = 40;
  std::vector<std::byte> out(bytes.begin(), bytes.begin() + start);
  for (int i = 0; i < kCopies; ++i) tt::io::append(out, tt::Bytes(bytes).subspan(start, length));
  tt::io::append(out, tt::Bytes(bytes).subspan(end_record, 8));
  for (int i = 0; i < 2; ++i) tt::io::append(out, kCopies, std::endian::little);
  tt::io::append(out, kCopies * length, std::endian::little);
  tt::io::append(out, tt::Bytes(bytes).subspan(end_record + 16));
  const auto refusal = refusal_of([&] { tt::parse_npz(out, "x.npz"); });
  CHECK(refusal.code == "TT-IO-03");
}

TEST_CASE("npz: truncated and damaged archives are rejected") {
  const auto parse = [](tt::Bytes b) { tt::parse_npz(b); };
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    files::check_cut_files(files::golden_bytes(name), parse);
    CHECK(files::check_damaged_files(files::golden_bytes(name), parse) > 1000);
  }
  // The values are covered by the checksum, so every damage to them is detected.
  Tensors tensors;
  tensors["a"] = files::ramp({64}, tt::f32);
  const std::vector<std::byte> bytes = tt::to_npz(tensors);
  const std::vector<std::byte> values = tt::io::bytes_of_tensor(tensors["a"], tt::Loc::current());
  const auto at = std::search(bytes.begin(), bytes.end(), values.begin(), values.end()) - bytes.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[static_cast<size_t>(at) + i] ^= std::byte{4};
    CHECK(refusal_of([&] { tt::parse_npz(damaged); }).code == "TT-IO-03");
  }
}

#else

TEST_CASE("without libzip, the error says how to enable it") {
  for (const auto& refusal :
       {refusal_of([] { tt::parse_npz({}, "x.npz"); }), refusal_of([] { tt::to_npz({}); })}) {
    CHECK(refusal.code == "TT-IO-05");
    CHECK(files::contains(refusal.text, "libzip-dev"));
  }
}

#endif
