// npy: files written by NumPy, byte-exact round trips, rejected files.
#include <tinytorch/io/npy.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;

namespace {

std::vector<std::byte> npy(const std::string& header, size_t value_bytes, char major = 1) {
  std::string text = std::string("\x93NUMPY") + major + '\0';
  text += static_cast<char>(header.size() & 255);
  text += static_cast<char>(header.size() >> 8);
  if (major > 1) text += std::string(2, '\0');
  text += header + std::string(value_bytes, '\0');
  const auto bytes = tt::as_bytes(text);
  return {bytes.begin(), bytes.end()};
}
files::Refusal refused(const std::string& header, size_t value_bytes = 0) {
  return refusal_of([&] { tt::parse_npy(npy(header, value_bytes), "x.npy"); });
}

}  // namespace

TEST_CASE("files of NumPy: every dtype, both byte orders, column-major, all versions") {
  for (const tt::DType dtype : files::all_dtypes()) {
    CAPTURE(tt::name_of(dtype));
    const std::string name = std::string(tt::name_of(dtype)) + ".npy";
    const tt::Tensor expected = files::ramp({2, 3, 5}, dtype);
    CHECK(files::same(tt::load_npy(files::golden(name)), expected));
    // The output of to_npy() equals NumPy's, except for '<V2' (ml_dtypes), which NumPy writes as '|V2'.
    if (dtype != tt::bf16) CHECK(tt::to_npy(expected) == files::golden_bytes(name));
  }
  const tt::Tensor f4 = files::ramp({2, 3, 5}, tt::f32);
  CHECK(files::same(tt::load_npy(files::golden("big_endian.npy")), f4));
  CHECK(files::same(tt::load_npy(files::golden("version2.npy")), f4));
  CHECK(files::same(tt::load_npy(files::golden("version3.npy")), f4));
  CHECK(files::same(tt::load_npy(files::golden("big_endian_i64.npy")), files::ramp({2, 3, 5}, tt::i64)));
  CHECK(files::same(tt::load_npy(files::golden("fortran.npy")), files::ramp({2, 3, 5}, tt::f64)));
  CHECK(files::same(tt::load_npy(files::golden("fortran_big_endian.npy")), files::ramp({2, 3, 5}, tt::i32)));
  CHECK(tt::load_npy(files::golden("fortran.npy")).is_contiguous());
}

TEST_CASE("files of NumPy: rank 0, rank 1, empty") {
  const tt::Tensor scalar = tt::load_npy(files::golden("rank0.npy"));
  CHECK(scalar.rank() == 0);
  CHECK(scalar.item() == 2.5f);
  CHECK(files::same(tt::load_npy(files::golden("vector.npy")), files::ramp({7}, tt::i32)));
  CHECK(tt::load_npy(files::golden("empty.npy")).shape() == tt::Shape{3, 0, 2});
  for (const char* name : {"rank0.npy", "vector.npy", "empty.npy"})
    CHECK(tt::to_npy(tt::load_npy(files::golden(name))) == files::golden_bytes(name));
}

TEST_CASE("round trips through a file: every dtype, ranks 0 to 8, strided input") {
  const files::TempFolder folder;
  for (const tt::DType dtype : files::all_dtypes()) {
    for (const tt::Shape& shape : {tt::Shape{}, tt::Shape{1}, tt::Shape{0}, tt::Shape{31}, tt::Shape{4, 0, 3},
                                   tt::Shape{1, 2, 1, 3, 2, 1, 2, 2}}) {
      CAPTURE(shape.str());
      const tt::Tensor t = files::ramp(shape, dtype);
      tt::save_npy(folder / "t.npy", t);
      CHECK(files::same(tt::load_npy(folder / "t.npy"), t));
      CHECK(tt::to_npy(t).size() % 64 == t.bytes() % 64);  // values are aligned
    }
    const tt::Tensor t = files::ramp({4, 6}, dtype);
    const tt::Tensor view = tt::alias(t, {3, 4}, {2, 6}, 1);  // columns 1, 3, 5, transposed
    tt::save_npy(folder / "t.npy", view);
    CHECK(files::same(tt::load_npy(folder / "t.npy"), view));
    CHECK_FALSE(files::same(tt::load_npy(folder / "t.npy"), tt::alias(t, {3, 4}, {4, 1}, 1)));
  }
}

TEST_CASE("special floating values keep their bits") {
  const uint32_t bits[] = {0x7fc12345u, 0xffc00001u, 0x80000000u, 0x00000001u, 0x7f800000u};
  tt::Tensor t = tt::empty({5}, tt::f32);
  std::memcpy(t.raw(), bits, sizeof bits);
  CHECK(files::same(tt::parse_npy(tt::to_npy(t)), t));
}

TEST_CASE("unsupported types are rejected by name") {
  const auto complex = refusal_of([] { tt::load_npy(files::golden("complex.npy")); });
  CHECK(complex.code == "TT-IO-04");
  CHECK(files::contains(complex.text, "'<c8'"));
  CHECK(files::contains(complex.text, "complex.npy"));
  CHECK(refusal_of([] { tt::load_npy(files::golden("records.npy")); }).code == "TT-IO-04");
  for (const char* descr : {"<f16", "<c16", "|O", "<U3", "|S1", "<M8[ns]", "f4", "", "<", "|f4", "|u2", "<V1",
                            "<V3", "<V4", "?f4"}) {
    CAPTURE(descr);
    const auto r =
        refused("{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (), }\n", 4);
    CHECK(r.code == "TT-IO-04");
  }
  CHECK(refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n", 4).code ==
        "TT-IO-04");
}

TEST_CASE("headers: equivalent spellings are accepted, invalid ones are rejected") {
  CHECK(refused("{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"=f4\"}", 8).code == "");
  CHECK(refused("{'descr':'<f4','fortran_order':True,'shape':( 2 , 1 )}  \n", 8).code == "");
  for (const char* header : {"", "{}", "{'descr': '<f4', 'fortran_order': False}",
                             "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,1)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
                             "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': ()} x",
                             "{'descr': '<f4' 'fortran_order': False, 'shape': ()}",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (", "{'descr': '<f4"}) {
    CAPTURE(header);
    CHECK(refused(header, 4).code == "TT-IO-03");
  }
}

TEST_CASE("npy: sizes are checked before memory is allocated") {
  tt::reset_peak();
  const size_t before = tt::allocator_stats().peak;
  for (const char* shape :
       {"(1000000000000,)", "(4294967296, 4294967296)", "(9223372036854775807,)", "(18446744073709551616,)",
        "(0, 288230376151711745)", "(4294967296, 0, 4294967296, 4294967296)"}) {
    CAPTURE(shape);
    const auto r =
        refused("{'descr': '<f8', 'fortran_order': False, 'shape': " + std::string(shape) + ", }\n", 64);
    CHECK(r.code == "TT-IO-03");
  }
  CHECK(tt::allocator_stats().peak == before);
  const auto wrong = refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 25);
  CHECK(files::contains(wrong.text, "expected: 24 bytes of values for f32 [2, 3]"));
  CHECK(files::contains(wrong.text, "found:    25 bytes"));
}

TEST_CASE("versions 1.0, 2.0 and 3.0 are read") {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n";
  for (const char major : {'\1', '\2', '\3'})
    CHECK(refusal_of([&] { tt::parse_npy(npy(header, 4, major)); }).code == "");
  for (const char major : {'\0', '\4', '\x7f'})
    CHECK(refusal_of([&] { tt::parse_npy(npy(header, 4, major)); }).code == "TT-IO-04");
}

TEST_CASE("npy: truncated and damaged files are rejected") {
  const auto parse = [](tt::Bytes b) { tt::parse_npy(b); };
  for (const char* name : {"f32.npy", "fortran_big_endian.npy", "version2.npy", "bool.npy"}) {
    files::check_cut_files(files::golden_bytes(name), parse);
    CHECK(files::check_damaged_files(files::golden_bytes(name), parse) > 100);
  }
}
