// Types that files have and tensors do not: files of NumPy, ml_dtypes and safetensors, every code of the
// 8-bit floats, and what does not fit.
#include <tinytorch/io/stored_type.hpp>

#include <algorithm>
#include <cmath>
#include <io/files.hpp>
#include <tinytorch/io/mapped_file.hpp>
#include <tinytorch/io/npy.hpp>
#include <tinytorch/io/npz.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tt = tinytorch;
using files::golden;
using files::refusal_of;
using tt::StoredType;

namespace {

constexpr StoredType kIntegers[] = {StoredType::i16, StoredType::u16, StoredType::u32, StoredType::u64};
constexpr StoredType kFloats[] = {StoredType::f8_e4m3, StoredType::f8_e5m2};

std::string name(StoredType type) { return tt::name_of(type); }
bool is_wide(StoredType type) { return type == StoredType::u32 || type == StoredType::u64; }

// The values that make_io.py writes: extremes(dtype).
std::vector<int64_t> extremes(StoredType type) {
  const int64_t high = type == StoredType::i16   ? 32767
                       : type == StoredType::u16 ? 65535
                       : type == StoredType::u32 ? 4294967295
                                                 : INT64_MAX;
  return {type == StoredType::i16 ? -32768 : 0, high, 0, 1, high / 2 + 1, high - 1, 200};
}
tt::Tensor numbers(StoredType type, const tt::Shape& shape) {
  tt::Tensor t = tt::empty(shape, tt::dtype_of_stored(type));
  for (int64_t k = 0; k < t.numel(); ++k) {
    const auto value = static_cast<int64_t>(files::ramp_value(k, tt::i32));
    if (t.dtype() == tt::i32) t.data<int32_t>()[k] = static_cast<int32_t>(value < 0 ? -value : value);
    if (t.dtype() == tt::i64) t.data<int64_t>()[k] = value < 0 ? -value : value;
    if (t.dtype() == tt::bf16)
      t.data<tt::BFloat16>()[k] = tt::BFloat16(static_cast<float>(value % 4));  // 2 bits
  }
  return t;
}
std::vector<StoredType> all_types() {
  return {StoredType::i16, StoredType::u16,     StoredType::u32,
          StoredType::u64, StoredType::f8_e4m3, StoredType::f8_e5m2};
}
tt::Tensor read_back(const tt::Tensor& t, StoredType type) {
  const std::vector<std::byte> bytes = tt::to_npy(t, type);
  return type == StoredType::f8_e4m3 ? tt::parse_npy(bytes, type) : tt::parse_npy(bytes);
}
// With a reader that is told the type of raw bytes, so that one file of each type can be tried.
void parse(tt::Bytes bytes) { tt::parse_npy(bytes, StoredType::f8_e4m3); }

}  // namespace

TEST_CASE("integers of NumPy that no dtype has become the next one that holds them, with every value") {
  for (const StoredType type : kIntegers) {
    CAPTURE(name(type));
    const tt::Tensor t = tt::load_npy(golden(name(type) + ".npy"));
    CHECK(t.dtype() == (is_wide(type) ? tt::i64 : tt::i32));
    CHECK(t.to(tt::i64).to_vector<int64_t>() == extremes(type));
    CHECK(files::same(tt::load_npy(golden("big_endian_" + name(type) + ".npy")), t));
    CHECK(files::same(tt::load_npy(golden("fortran_" + name(type) + ".npy")), numbers(type, {2, 3, 5})));
    const tt::Tensor scalar = tt::load_npy(golden("rank0_" + name(type) + ".npy"));
    CHECK(scalar.rank() == 0);
    CHECK(scalar.item<int64_t>() == 200);
    CHECK(tt::load_npy(golden("empty_" + name(type) + ".npy")).shape() == tt::Shape{3, 0, 2});
    // Written as the type that they had, they are NumPy's files again, byte for byte.
    for (const std::string& prefix : {std::string(), std::string("rank0_"), std::string("empty_")}) {
      const std::string file = prefix + name(type) + ".npy";
      CHECK(tt::to_npy(tt::load_npy(golden(file)), type) == files::golden_bytes(file));
    }
  }
}

TEST_CASE("a u64 that no i64 holds is refused with its value and place") {
  const auto refusal = refusal_of([] { tt::load_npy(golden("too_large_u64.npy")); });
  CHECK(refusal.code == "TT-IO-04");
  CHECK(files::contains(refusal.text, "9223372036854775808 as value 1"));
  CHECK(files::contains(refusal.text, "too_large_u64.npy"));
}

TEST_CASE("all 256 codes of the 8-bit floats have the values of ml_dtypes") {
  for (const StoredType type : kFloats) {
    CAPTURE(name(type));
    const bool says_its_type = type == StoredType::f8_e5m2;
    const std::string file = golden(name(type) + ".npy");
    const tt::Tensor t = says_its_type ? tt::load_npy(file) : tt::load_npy(file, type);
    CHECK(t.dtype() == tt::bf16);
    const std::vector<float> ours = t.to_vector<float>();
    const std::vector<float> expected = tt::load_npy(golden(name(type) + "_as_f32.npy")).to_vector<float>();
    REQUIRE(ours.size() == 256);
    int equal = 0, not_a_number = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      equal += std::bit_cast<uint32_t>(ours[i]) == std::bit_cast<uint32_t>(expected[i]);
      not_a_number += std::isnan(ours[i]) && std::isnan(expected[i]) &&
                      std::signbit(ours[i]) == std::signbit(expected[i]);
    }
    CHECK(not_a_number == (says_its_type ? 6 : 2));
    CHECK(equal >= 256 - not_a_number);
  }
}

TEST_CASE("raw bytes of npy are read as the type that the caller names") {
  const std::string file = golden("f8_e4m3.npy");
  const auto refusal = refusal_of([&] { tt::load_npy(file); });
  CHECK(refusal.code == "TT-IO-04");
  CHECK(files::contains(refusal.text, "StoredType::f8_e4m3"));
  CHECK(tt::load_npy(file, StoredType::f8_e5m2).to_vector<float>()[0x3c] == 1.0f);
  CHECK(tt::load_npy(file, StoredType::f8_e4m3).to_vector<float>()[0x38] == 1.0f);
  CHECK(refusal_of([&] { tt::load_npy(file, StoredType::u16); }).code == "TT-IO-04");
  // Files of other types do not change by it.
  CHECK(files::same(tt::load_npy(golden("f32.npy"), StoredType::f8_e4m3), tt::load_npy(golden("f32.npy"))));
}

TEST_CASE("a file of the reference implementation of safetensors has the same values as the files of NumPy") {
  const tt::TensorMap tensors = tt::load_safetensors(golden("stored_types.safetensors"));
  const auto mapping = std::make_shared<const tt::io::MappedFile>(golden("stored_types.safetensors"));
  const tt::TensorMap mapped = tt::map_safetensors(mapping, "mapped");
  CHECK(tensors.size() == 11);
  for (const auto& [key, t] : tensors) {
    CAPTURE(key);
    CHECK(files::same(mapped.at(key), t));
  }
  for (const StoredType type : all_types()) {
    CAPTURE(name(type));
    const std::string file = golden(name(type) + ".npy");
    const bool is_float = tt::dtype_of_stored(type) == tt::bf16;
    CHECK(files::same(tensors.at(name(type)), is_float ? tt::load_npy(file, type) : tt::load_npy(file)));
  }
  CHECK(tensors.at("rank0").item<int64_t>() == 200);
  CHECK(tensors.at("rank0").rank() == 0);
  CHECK(tensors.at("empty").shape() == tt::Shape{3, 0, 2});
  CHECK(tensors.at("empty").dtype() == tt::i64);
}

TEST_CASE(
    "safetensors are written as the reference implementation writes them, if the caller names the types") {
  const tt::TensorMap tensors = tt::load_safetensors(golden("stored_types.safetensors"));
  tt::StoredTypes types{{"rank0", StoredType::u16}, {"empty", StoredType::u32}};
  for (const StoredType type : all_types()) types[name(type)] = type;
  for (const StoredType type : kFloats) types["rounded." + name(type)] = type;
  std::vector<std::byte> expected = files::golden_bytes("stored_types.safetensors");
  const std::vector<std::byte> ours = tt::to_safetensors(tensors, {}, types);
  REQUIRE(ours.size() == expected.size());
  // A NaN of f8_e5m2 has one code when it is written, and three when it is read.
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto code = std::to_integer<unsigned>(expected[i]) & 0x7fu;
    if ((code == 0x7d || code == 0x7e) && expected[i] != ours[i]) expected[i] |= std::byte{0x7f};
  }
  CHECK(ours == expected);
  const files::TempFolder folder;
  tt::save_safetensors(folder / "t.safetensors", tensors, {}, types);
  CHECK(tt::read_file(folder / "t.safetensors") == ours);
  CHECK(tt::to_safetensors(tensors, {}, tt::StoredTypes{}) == tt::to_safetensors(tensors));
}

TEST_CASE("numbers are rounded to the 8-bit floats as ml_dtypes rounds them") {
  const tt::Tensor values = tt::load_npy(golden("f8_numbers.npy"));
  const tt::TensorMap rounded = tt::load_safetensors(golden("stored_types.safetensors"));
  for (const StoredType type : kFloats) {
    CAPTURE(name(type));
    const tt::Tensor expected = rounded.at("rounded." + name(type));
    for (const tt::DType dtype : {tt::f32, tt::f64}) {
      CHECK(files::same(read_back(values.to(dtype), type), expected));
    }
  }
}

TEST_CASE("round trips: every type, ranks 0 to 8, strided input") {
  const files::TempFolder folder;
  for (const StoredType type : all_types()) {
    CAPTURE(name(type));
    for (const tt::Shape& shape : {tt::Shape{}, tt::Shape{1}, tt::Shape{0}, tt::Shape{31}, tt::Shape{4, 0, 3},
                                   tt::Shape{1, 2, 1, 3, 2, 1, 2, 2}}) {
      CAPTURE(shape.str());
      const tt::Tensor t = numbers(type, shape);
      CHECK(files::same(read_back(t, type), t));
      CHECK(tt::to_npy(t, type).size() % 64 == static_cast<size_t>(t.numel()) * tt::size_of(type) % 64);
      tt::save_safetensors(folder / "t", {{"x", t}}, {}, {{"x", type}});
      CHECK(files::same(tt::load_safetensors(folder / "t").at("x"), t));
    }
    const tt::Tensor view = tt::alias(numbers(type, {4, 6}), {3, 4}, {2, 6}, 1);
    CHECK(files::same(read_back(view, type), view));
    tt::save_npy(folder / "t.npy", view, type);
    CHECK(tt::read_file(folder / "t.npy") == tt::to_npy(view, type));
  }
}

TEST_CASE("archives of NumPy have these types, too") {
#if TINYTORCH_WITH_LIBZIP
  const auto arrays = tt::load_npz(golden("stored_types.npz"));
  REQUIRE(arrays.size() == 4);
  for (const StoredType type : kIntegers)
    CHECK(arrays.at(name(type)).to(tt::i64).to_vector<int64_t>() == extremes(type));
#endif
}

TEST_CASE("archives are written with the arrays of NumPy, byte by byte") {
#if TINYTORCH_WITH_LIBZIP
  // An entry that is stored without compression has the bytes of the file that numpy.save writes.
  tt::TensorMap tensors;
  tt::StoredTypes types;
  for (const StoredType type : kIntegers) {
    tensors[name(type)] = tt::load_npy(golden(std::string(name(type)) + ".npy"));
    types[name(type)] = type;
  }
  for (const StoredType type : {StoredType::f8_e4m3, StoredType::f8_e5m2}) {
    tensors[name(type)] = tt::load_npy(golden(std::string(name(type)) + ".npy"), type);
    types[name(type)] = type;
  }
  tensors["plain"] = tt::ones({2, 3});
  const std::vector<std::byte> archive = tt::to_npz(tensors, types);
  for (const auto& item : types) {
    CAPTURE(item.first);
    // Every code is a number but the NaNs, which have one code each.
    const bool is_integer = tt::size_of(item.second) > 1;
    const std::vector<std::byte> array = is_integer ? tt::read_file(golden(item.first + ".npy"))
                                                    : tt::to_npy(tensors[item.first], item.second);
    CHECK(std::search(archive.begin(), archive.end(), array.begin(), array.end()) != archive.end());
  }
  const files::TempFolder folder;
  for (const bool compress : {false, true}) {
    tt::save_npz(folder / "t.npz", tensors, types, compress);
    const auto again = tt::load_npz(folder / "t.npz", {{"f8_e4m3", StoredType::f8_e4m3}});
    REQUIRE(again.size() == tensors.size());
    for (const auto& item : tensors) {
      CAPTURE(item.first);
      CHECK(files::same(item.second.to(tt::f64).to(tt::cpu), again.at(item.first).to(tt::f64).to(tt::cpu)));
    }
  }
  CHECK(refusal_of([&] { tt::load_npz(folder / "t.npz"); }).code == "TT-IO-04");
  const auto unknown = refusal_of([&] { tt::to_npz(tensors, {{"other", StoredType::u16}}); });
  CHECK(unknown.code == "TT-IO-02");
  CHECK(files::contains(unknown.text, "'other'"));
  CHECK(refusal_of([&] { tt::load_npz(folder / "t.npz", {{"other", StoredType::f8_e4m3}}); }).code != "");
  CHECK(refusal_of([&] {
          tt::to_npz({{"x", tt::full({1}, 70000, tt::i64)}}, {{"x", StoredType::u16}});
        }).code == "TT-IO-02");
#endif
}

TEST_CASE("values that a type does not hold are refused before a file is replaced") {
  const files::TempFolder folder;
  tt::save_npy(folder / "t.npy", tt::ones({1}));
  const std::vector<std::byte> before = tt::read_file(folder / "t.npy");
  const auto refused = [&](const tt::Tensor& t, StoredType type) {
    return refusal_of([&] { tt::save_npy(folder / "t.npy", t, type); });
  };
  const auto integer = [](int64_t value) { return tt::full({1}, static_cast<double>(value), tt::i64); };
  CHECK(refused(integer(32768), StoredType::i16).code == "TT-IO-02");
  CHECK(refused(integer(-32769), StoredType::i16).code == "TT-IO-02");
  CHECK(refused(integer(-1), StoredType::u16).code == "TT-IO-02");
  CHECK(refused(integer(-1), StoredType::u64).code == "TT-IO-02");
  CHECK(refused(integer(int64_t{1} << 32), StoredType::u32).code == "TT-IO-02");
  const auto large = refused(integer(70000), StoredType::u16);
  CHECK(files::contains(large.text, "integers that u16 holds"));
  CHECK(files::contains(large.text, "70000"));
  CHECK(refused(tt::full({1}, 1.5), StoredType::u16).code == "TT-IO-02");
  CHECK(refused(integer(1), StoredType::f8_e4m3).code == "TT-IO-02");
  CHECK(refused(tt::ones({2}, tt::boolean), StoredType::u16).code == "TT-IO-02");
  CHECK(tt::read_file(folder / "t.npy") == before);
  const auto unnamed = refusal_of([] {
    tt::to_safetensors({{"x", tt::ones({1})}}, {}, {{"y", StoredType::u16}});
  });
  CHECK(unnamed.code == "TT-IO-02");
  CHECK(files::contains(unnamed.text, "'y'"));
}

TEST_CASE("the range of the 8-bit floats: what rounds to the largest value is stored, the rest is refused") {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto stored = [](double x, StoredType type) {
    return read_back(tt::full({1}, x, tt::f64), type).to_vector<double>()[0];
  };
  const auto code = [](double x, StoredType type) {
    return refusal_of([&] { tt::to_npy(tt::full({1}, x, tt::f64), type); }).code;
  };
  CHECK(stored(464, StoredType::f8_e4m3) == 448);
  CHECK(stored(-464, StoredType::f8_e4m3) == -448);
  CHECK(code(464.0001, StoredType::f8_e4m3) == "TT-IO-02");
  CHECK(code(-infinity, StoredType::f8_e4m3) == "TT-IO-02");
  CHECK(stored(61439, StoredType::f8_e5m2) == 57344);
  CHECK(code(61440, StoredType::f8_e5m2) == "TT-IO-02");
  CHECK(code(-70000, StoredType::f8_e5m2) == "TT-IO-02");
  CHECK(stored(-infinity, StoredType::f8_e5m2) == -infinity);
  CHECK(stored(infinity, StoredType::f8_e5m2) == infinity);
  for (const StoredType type : kFloats) CHECK(std::isnan(stored(std::nan(""), type)));
}

TEST_CASE("stored types: truncated and damaged files are rejected") {
  for (const char* file :
       {"u16.npy", "fortran_u32.npy", "big_endian_u64.npy", "rank0_i16.npy", "f8_e4m3.npy", "f8_e5m2.npy"}) {
    CAPTURE(file);
    files::check_cut_files(files::golden_bytes(file), parse);
    CHECK(files::check_damaged_files(files::golden_bytes(file), parse) > 100);
  }
  const auto parse_map = [](tt::Bytes b) { tt::parse_safetensors(b); };
  files::check_cut_files(files::golden_bytes("stored_types.safetensors"), parse_map);
  CHECK(files::check_damaged_files(files::golden_bytes("stored_types.safetensors"), parse_map) > 1000);
}

TEST_CASE("stored types: sizes are checked in the width of the file before memory is allocated") {
  tt::reset_peak();
  const size_t before = tt::allocator_stats().peak;
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    const std::string header = std::string("{\"x\":{\"dtype\":\"") + dtype + "\",\"shape\":" + shape +
                               ",\"data_offsets\":" + offsets + "}}";
    std::vector<std::byte> bytes;
    tt::io::append(bytes, uint64_t{header.size()}, std::endian::little);
    tt::io::append(bytes, tt::as_bytes(header));
    bytes.resize(bytes.size() + 8);
    return refusal_of([&] { tt::parse_safetensors(bytes); });
  };
  CHECK(entry("U16", "[2000000000000]", "[0,4000000000000]").code == "TT-IO-03");
  CHECK(entry("F8_E4M3", "[288230376151711744]", "[0,288230376151711744]").code == "TT-IO-03");
  const auto wrong = entry("U16", "[2]", "[0,8]");  // the size of the i32 that it becomes
  CHECK(files::contains(wrong.text, "4 bytes for 'x', u16 [2]"));
  CHECK(tt::allocator_stats().peak == before);
  for (const char* dtype : {"U16", "I16"}) CHECK(entry(dtype, "[4]", "[0,8]").code == "");
  for (const char* dtype : {"F8_E4M3", "F8_E5M2"}) CHECK(entry(dtype, "[8]", "[0,8]").code == "");
  CHECK(entry("U32", "[2]", "[0,8]").code == "");
  CHECK(entry("U64", "[1]", "[0,8]").code == "");
}
