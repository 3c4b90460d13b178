// JSON: everything that RFC 8259 allows is parsed exactly; anything else, or above a limit, is rejected.
#include <tinytorch/io/json.hpp>

#include <io/files.hpp>

namespace tt = tinytorch;
using files::refusal_of;

namespace {

tt::Json parse(std::string_view text) { return tt::parse_json(tt::as_bytes(text)); }
std::string code(std::string_view text) {
  return refusal_of([&] { parse(text); }).code;
}
double real(std::string_view text) { return parse(text).number()->real; }

}  // namespace

TEST_CASE("values of every kind") {
  CHECK(parse(" null ").is_null());
  CHECK(*parse("true").boolean());
  CHECK_FALSE(*parse("false").boolean());
  CHECK(*parse("\"a\"").string() == "a");
  CHECK(parse("[]").array()->empty());
  CHECK(parse("{}").object()->empty());
  const tt::Json tree = parse("{\"a\" : [1, {\"b\":[ ]} ,\"x\"]\n,\t\"c\":\r-2}");
  REQUIRE(tree.object()->size() == 2);
  CHECK((*tree.object())[0].first == "a");
  REQUIRE(tree.find("a")->array()->size() == 3);
  CHECK((*tree.find("a")->array())[1].find("b")->array()->empty());
  CHECK(tree.find("c")->integer() == -2);
  CHECK(tree.find("b") == nullptr);
  CHECK(tree.string() == nullptr);
  CHECK(std::string(tree.kind()) == "an object");
}

TEST_CASE("numbers: integers within 64 bits are exact, others are double") {
  CHECK(parse("9223372036854775807").integer() == INT64_MAX);
  CHECK(parse("-9223372036854775808").integer() == INT64_MIN);
  CHECK_FALSE(parse("9223372036854775808").integer());
  CHECK(real("9223372036854775808") == 0x1p63);
  CHECK_FALSE(parse("1.0").integer());
  CHECK_FALSE(parse("1e2").integer());
  CHECK(real("-12.5e-1") == -1.25);
  CHECK(real("0.1") == 0.1);
  CHECK(real("1E+2") == 100);
  CHECK(real("1e-400") == 0);
  CHECK(parse("-0").integer() == 0);
  for (const char* bad : {"01", "+1", "1.", ".5", "1e", "1e+", "-", "--1", "0x1", "1 2", "1e999", "NaN",
                          "Infinity", "-Infinity", "1,0"}) {
    CAPTURE(bad);
    CHECK(code(bad) == "TT-IO-03");
  }
}

TEST_CASE("strings: escapes, surrogate pairs, UTF-8") {
  CHECK(*parse(R"("\"\\\/\b\f\n\r\t")").string() == "\"\\/\b\f\n\r\t");
  CHECK(*parse(R"("\u0041\u00e4\u20AC")").string() == "A\xc3\xa4\xe2\x82\xac");
  CHECK(*parse(R"("\ud83d\ude00")").string() == "\xf0\x9f\x98\x80");
  CHECK(*parse(R"("\ud800\udc00\udbff\udfff")").string() == "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
  CHECK(parse(R"("\u0000")").string()->size() == 1);
  CHECK(*parse("\"\xc3\xa4\"").string() == "\xc3\xa4");
  for (const char* bad :
       {R"("\ud800")", R"("\ud800x")", R"("\ud800\u0041")", R"("\udc00")", R"("\u12g4")", R"("\u123)",
        R"("\x41")", "\"\n\"", "\"\xff\"", "\"\xc3\"", "\"abc", "\"\\", "'a'", "\"\xed\xa0\x80\""}) {
    CAPTURE(bad);
    CHECK(code(bad) == "TT-IO-03");
  }
}

TEST_CASE("invalid structure is rejected") {
  for (const char* bad :
       {"", " ", "[1,]", "[,1]", "[1 2]", "[1", "]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{\"a\":}",
        "{\"a\":1", "{1:2}", "nul", "True", "// x\n1", "[] []", "{} x", "{\xef\xbb\xbf}"}) {
    CAPTURE(bad);
    CHECK(code(bad) == "TT-IO-03");
  }
  const auto twice = refusal_of([] { parse(R"({"b":1,"a":2,"b":3})"); });
  CHECK(twice.code == "TT-IO-03");
  CHECK(files::contains(twice.text, "'b' twice"));
  CHECK(code(R"({"a":1,"\u0061":2})") == "TT-IO-03");
  const auto where = refusal_of([] { parse("[1, 2; 3]"); });
  CHECK(files::contains(where.text, "expected: ',' or ']'"));
  CHECK(files::contains(where.text, "'; 3]' at byte 5"));
}

TEST_CASE("a byte order mark is ignored only at the start") {
  CHECK(parse("\xef\xbb\xbf{\"a\": 1}").find("a")->integer() == 1);
  CHECK(code("\xef\xbb\xbf") == "TT-IO-03");
  CHECK(code(" \xef\xbb\xbf{}") == "TT-IO-03");
  CHECK(code("\xef\xbb\xbf\xef\xbb\xbf{}") == "TT-IO-03");
}

TEST_CASE("NaN and Infinity, as Python writes them, are accepted with not_finite") {
  const auto read = [](std::string_view text) {
    return tt::parse_json(tt::as_bytes(text), "x", {.not_finite = true});
  };
  const tt::Json all = read("[NaN, Infinity, -Infinity, -1, 2.5]");
  const auto at = [&](size_t i) { return (*all.array())[i].number()->real; };
  CHECK(std::isnan(at(0)));
  CHECK(at(1) == HUGE_VAL);
  CHECK(at(2) == -HUGE_VAL);
  CHECK(at(3) == -1);
  CHECK(at(4) == 2.5);
  CHECK_FALSE((*all.array())[1].integer());
  for (const char* bad :
       {"nan", "Nan", "-NaN", "inf", "Inf", "-Inf", "+Infinity", "Infinit", "NaN1", "1e999"}) {
    CAPTURE(bad);
    CHECK(refusal_of([&] { read(bad); }).code == "TT-IO-03");
  }
}

TEST_CASE("limits: depth, values, bytes") {
  const std::string deep = std::string(32, '[') + "1" + std::string(32, ']');
  CHECK(code(deep) == "");
  CHECK(code("[" + deep + "]") == "TT-IO-06");
  CHECK(code(std::string(1'000'000, '[')) == "TT-IO-06");
  const auto with = [](std::string_view text, const tt::JsonLimits& limits) {
    return refusal_of([&] { tt::parse_json(tt::as_bytes(text), "x", limits); }).code;
  };
  CHECK(with("[1,2,3]", {.depth = 1, .values = 4}) == "");
  CHECK(with("[1,2,3]", {.depth = 1, .values = 3}) == "TT-IO-06");
  CHECK(with("[1,2,3]", {.bytes = 7}) == "");
  CHECK(with("[1,2,3]", {.bytes = 6}) == "TT-IO-06");
}

TEST_CASE("to_json_string() is the inverse of parsing") {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "\xc3\xa4\xf0\x9f\x98\x80";
  CHECK(*parse(tt::to_json_string(all)).string() == all);
  CHECK(tt::to_json_string("a\"b\\\n\x01") == R"("a\"b\\\n\u0001")");
}

TEST_CASE("JSON: truncated and damaged texts are rejected") {
  const std::string text = R"({"a":[1,-2.5e3,true,null,"x\u00e4\ud83d\ude00"],"b":{"c":false}})";
  const auto bytes = tt::as_bytes(text);
  const std::vector<std::byte> valid(bytes.begin(), bytes.end());
  const auto parse_bytes = [](tt::Bytes b) { tt::parse_json(b); };
  files::check_cut_files(valid, parse_bytes);
  CHECK(files::check_damaged_files(valid, parse_bytes) > 100);
}
