#include <doctest/doctest.h>

#include <io/files.hpp>
#include <support/device.hpp>
#include <support/fresh.hpp>
#include <tinytorch/quantization/files.hpp>

using namespace tinytorch;
using files::refusal_of;

namespace {

Gpt2 small_gpt2() {
  return Gpt2({.vocabulary = 96, .context = 16, .features = 64, .layers = 1, .heads = 4, .deviation = 0.2});
}
Llama small_llama() {
  return Llama({.vocabulary = 96,
                .context = 16,
                .features = 64,
                .layers = 1,
                .heads = 4,
                .groups = 2,
                .hidden = 128,
                .deviation = 0.2});
}
bool same_state(const Module& a, const Module& b) {
  const StateDict x = a.state_dict(), y = b.state_dict();
  if (x.size() != y.size()) return false;
  for (const auto& [name, t] : x)
    if (!y.count(name) || !files::same(t.to(cpu), y.at(name).to(cpu))) return false;
  return true;
}

// Reads and checks a file as load_packed does before it looks at a model.
void read_packed(Bytes bytes) {
  Metadata metadata;
  const TensorMap tensors = parse_safetensors(bytes, "packed", &metadata);
  const io::Source source{"packed", "a model with packed weights", Loc::current()};
  const quantization::PackedReader reader(tensors, metadata, source);
  for (const quantization::PackedEntry& e : reader.run()) (void)reader.weight(e);
}

struct Net : Module {
  Linear first{64, 3}, second{3, 2};
  Net() { add("first", first), add("second", second); }
  Tensor forward(const Tensor& x) override { return second(relu(first(x))); }
};

}  // namespace

TEST_CASE("a packed model comes back with the same bits, in a fresh model of floats or a packed one") {
  const NoGrad no_grad;
  const files::TempFolder folder;
  const auto check = [&](auto&& make) {
    const Tensor tokens = randint(0, 96, {2, 9}, DType::i64);
    for (const char* format : {"Q8_0", "Q4_1", "I8_zero", "F8_E4M3_tensor"}) {
      for (const char* head : {"", "Q8_0"}) {
        CAPTURE(std::string(format));
        CAPTURE(std::string(head));
        auto model = make();
        model.eval();
        quantize(model, {.format = format, .head = head, .activations = Activations::floats});
        save_packed(model, folder / "model.safetensors");
        CHECK(folder.count() == 1);
        auto fresh = make();
        fresh.eval();
        CHECK(!equal(fresh(tokens), model(tokens)));
        load_packed(fresh, folder / "model.safetensors");
        CHECK(same_state(fresh, model));
        CHECK(equal(fresh(tokens), model(tokens)));
        auto packed = make();
        packed.eval();
        quantize(packed, {.format = format, .head = head});
        load_packed(packed, folder / "model.safetensors");
        CHECK(equal(packed(tokens), model(tokens)));  // the rounding of activations is that of the file
      }
    }
  };
  check(small_gpt2);
  check(small_llama);
}

TEST_CASE("a model of one layer, and one with layers that stay floats") {
  const NoGrad no_grad;
  const files::TempFolder folder;
  Net a, b;
  pack_linear(a.first, block_format("Q4_0"));
  save_packed(a, folder / "net");
  load_packed(b, folder / "net");
  CHECK(same_state(a, b));
  Linear layer(64, 5), other(64, 5);
  quantize(layer, {.format = "I8"});
  save_packed(layer, folder / "layer");
  load_packed(other, folder / "layer");
  const Tensor x = randn({2, 64});
  CHECK(equal(layer(x), other(x)));
  // Without any packed layer it is a checked file of floats.
  Net c, d;
  save_packed(c, folder / "floats");
  load_packed(d, folder / "floats");
  CHECK(same_state(c, d));
}

TEST_CASE("a file that does not fit the model changes nothing in it") {
  const NoGrad no_grad;
  const files::TempFolder folder;
  const std::string path = folder / "net";
  Net packed;
  pack_linear(packed.first, block_format("Q4_0"));
  save_packed(packed, path);
  const auto refuses = [&](Module& model, const char* word) {
    StateDict before;
    for (const auto& [name, t] : model.state_dict()) before[name] = t.clone();
    const files::Refusal r = refusal_of([&] { load_packed(model, path); });
    CHECK(r.code == "TT-NN-04");
    CHECK(files::contains(r.text, word));
    const StateDict after = model.state_dict();
    CHECK(after.size() == before.size());
    for (const auto& [name, t] : before) CHECK(files::same(t.to(cpu), after.at(name).to(cpu)));
  };
  Net other;
  pack_linear(other.first, block_format("Q8_0"));
  refuses(other, "Q8_0");
  struct Wide : Net {
    Linear third{2, 2};
    Wide() { add("third", third); }
  } wide;
  refuses(wide, "third.weight");
  struct Renamed : Module {
    Linear one{64, 3}, two{3, 2};
    Renamed() { add("one", one), add("second", two); }
  } renamed;
  refuses(renamed, "no such layer");
  struct Narrow : Module {
    Linear one{32, 3}, two{3, 2};
    Narrow() { add("first", one), add("second", two); }
  } narrow;
  refuses(narrow, "[3, 32]");
}

TEST_CASE("another layout, format, version or checksum is refused with the reason") {
  const NoGrad no_grad;
  const files::TempFolder folder;
  const std::string path = folder / "net";
  Net net;
  pack_linear(net.first, block_format("Q4_0"));
  save_packed(net, path);
  Metadata metadata;
  const TensorMap tensors = load_safetensors(path, &metadata);
  // The file with another entry, and a checksum that fits it unless `sum` is false.
  const auto with = [&](const std::string& key, const std::string& from, const std::string& to,
                        bool sum = true) {
    Metadata changed = metadata;
    std::string& text = changed[key];
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    if (sum) changed["sha256"] = quantization::packed_checksum(tensors, changed, Loc::current());
    save_safetensors(path, tensors, changed);
    Net fresh;
    return refusal_of([&] { load_packed(fresh, path); });
  };
  const auto is = [](const files::Refusal& r, const char* code, const char* word) {
    CAPTURE(r.text);
    CHECK(r.code == code);
    CHECK(files::contains(r.text, word));
  };
  is(with("format", "tinytorch.packed", "pt"), "TT-IO-04", "tinytorch.packed");
  is(with("version", "1", "2"), "TT-IO-04", "version");
  is(with("packed.first", "Q4_0", "Q4_9"), "TT-IO-04", "known format");
  is(with("packed.first", "rows", "rows interleaved by 8"), "TT-IO-04", "layout");
  is(with("packed.first", "\"bytes\": 18", "\"bytes\": 20"), "TT-IO-04", "18 bytes");
  is(with("packed.first", "Q4_0", "Q4_1"), "TT-IO-04", "bytes");  // a block of it has 20
  is(with("packed.first", "[3, 64]", "[3, 96]"), "TT-QUANT-02", "rows of 96");
  is(with("packed.first", "[3, 64]", "[4, 64]"), "TT-IO-03", "[4, bytes of 64");
  is(with("packed.first", "[3, 64]", "[3, -64]"), "TT-IO-03", "shape");
  is(with("packed.first", "int8", "int2"), "TT-IO-04", "activations");
  is(with("packed.first", "{", "["), "TT-IO-03", "");
  is(with("packed.first", "rows", "rowz", false), "TT-IO-03", "checksum");
  is(with("sha256", metadata.at("sha256").substr(0, 1), "x", false), "TT-IO-03", "checksum");
  CHECK(with("packed.first", "rows", "rows").code.empty());
  TensorMap damaged = tensors;
  damaged["first.weight"] = tensors.at("first.weight").clone();
  damaged["first.weight"].data<uint8_t>()[77] ^= 1;
  save_safetensors(path, damaged, metadata);
  is(refusal_of([&] { load_packed(net, path); }), "TT-IO-03", "checksum");
  is(refusal_of([&] { load_packed(net, folder / "none"); }), "TT-IO-01", "none");
}

TEST_CASE("every change of a byte and every cut is refused, without a read out of bounds") {
  const NoGrad no_grad;
  Linear layer(64, 2);
  const files::TempFolder folder;
  quantize(layer, {.format = "I8_zero"});
  save_packed(layer, folder / "layer");
  const std::vector<std::byte> valid = read_file(folder / "layer");
  files::check_cut_files(valid, read_packed);
  int accepted = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    std::vector<std::byte> damaged = valid;
    damaged[i] ^= std::byte{1};
    const files::Refusal r = refusal_of([&] { read_packed(damaged); });
    accepted += r.code.empty();
    CHECK((r.code.empty() || r.code.starts_with("TT-IO-") || r.code == "TT-QUANT-02"));
  }
  CHECK(accepted == 0);
}
