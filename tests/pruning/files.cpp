#include <tinytorch/pruning/files.hpp>

#include <io/files.hpp>
#include <pruning/formats.hpp>
#include <tinytorch/pruning/magnitude.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Linear hidden, out;
  explicit Net(tt::Generator& g) : hidden{64, 80, true, g}, out{80, 16, false, g} {
    add("hidden", hidden), add("out", out);
  }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

void mask(tt::Linear& layer, double sparsity) {
  const tt::NoGrad no_grad;
  layer.weight.copy_(tt::masked(layer.weight, tt::magnitude_mask(layer.weight, sparsity)));
}

}  // namespace

TEST_CASE("a sparse model comes back with the same bits in every format, and others layers stay dense") {
  const tt::NoGrad no_grad;
  const files::TempFolder folder;
  for (const char* const format : {"bitmap", "gaps", "csr", "bsr16", "bsr32", "bsr64", "2:4"}) {
    tt::Generator g(1), h(2);
    Net net(g), fresh(h);
    mask(net.hidden, 0.8);
    if (std::string(format) == "2:4") net.hidden.weight.slice(1, 2, 64).zero_();
    const tt::Tensor dense = net.hidden.weight.clone();
    const auto stored = tt::store_sparse(net.hidden, format);
    tt::save_sparse(net, folder / "net.safetensors");
    tt::load_sparse(fresh, folder / "net.safetensors");
    const auto back = std::dynamic_pointer_cast<tt::SparseLinear>(fresh.hidden.replacement());
    REQUIRE(back);
    CHECK(back->weight().format() == format);
    CHECK(same_values(back->weight().dense(), dense));
    CHECK(same_values(fresh.out.weight, net.out.weight));
    CHECK(same_values(back->bias(), stored->bias()));
    const tt::Tensor x = tt::ones({3, 64});
    if (std::string(format) != "2:4") CHECK(same_values(fresh(x), net(x)));
  }
}

TEST_CASE("blocks of 8-bit codes come back with the same bits, and a file without their scales is refused") {
  const tt::NoGrad no_grad;
  const files::TempFolder folder;
  for (const char* const format : {"bsr16_int8", "bsr32_int8", "bsr64_int8"}) {
    tt::Generator g(1), h(2);
    Net net(g), fresh(h), broken(h);
    net.hidden.weight.slice(0, 0, 32).zero_();
    const auto stored = tt::store_sparse(net.hidden, format);
    tt::save_sparse(net, folder / "net.safetensors");
    tt::load_sparse(fresh, folder / "net.safetensors");
    const auto back = std::dynamic_pointer_cast<tt::SparseLinear>(fresh.hidden.replacement());
    REQUIRE(back);
    CHECK(back->weight().format() == format);
    CHECK(back->weight().bytes() == stored->weight().bytes());
    CHECK(same_values(back->weight().dense(), stored->weight().dense()));
    const tt::Tensor x = tt::randn({3, 64}, tt::f32, tt::cpu, g);
    CHECK(same_values(fresh(x), net(x)));
    tt::Metadata metadata;
    tt::TensorMap tensors = tt::load_safetensors(folder / "net.safetensors", &metadata);
    tensors.erase("hidden.scales");
    metadata.erase("sha256");
    metadata["sha256"] = tt::quantization::packed_checksum(tensors, metadata, tt::Loc::current());
    tt::save_safetensors(folder / "broken.safetensors", tensors, metadata);
    CHECK(errors::thrown_by([&] { tt::load_sparse(broken, folder / "broken.safetensors"); }).code ==
          "TT-PRUNE-05");
  }
}

TEST_CASE("the scales of 8-bit blocks stay f32 in a model of another dtype, and its file is read") {
  const tt::NoGrad no_grad;
  const files::TempFolder folder;
  tt::Generator g(1), h(2);
  Net net(g), fresh(h);
  const auto stored = tt::store_sparse(net.hidden, "bsr16_int8");
  const tt::Tensor before = stored->weight().dense().clone();
  net.to(tt::bf16), fresh.to(tt::bf16);
  CHECK(same_values(stored->weight().dense(), before));
  tt::save_sparse(net, folder / "net.safetensors");
  tt::load_sparse(fresh, folder / "net.safetensors");
  const auto back = std::dynamic_pointer_cast<tt::SparseLinear>(fresh.hidden.replacement());
  REQUIRE(back);
  CHECK(same_values(back->weight().dense(), before));
}

TEST_CASE("strips come back with the same bits, and a file without their dtype is refused") {
  const tt::NoGrad no_grad;
  const files::TempFolder folder;
  for (const tt::DType t : {tt::bf16, tt::f16}) {
    tt::Generator g(1), h(2);
    Net net(g), fresh(h);
    net.hidden.weight.slice(1, 0, 64, 2).zero_();
    net.to(t), fresh.to(t);
    const tt::Tensor dense = net.hidden.weight.clone();
    tt::store_sparse(net.hidden, "strips");
    tt::save_sparse(net, folder / "net.safetensors");
    tt::load_sparse(fresh, folder / "net.safetensors");
    const auto back = std::dynamic_pointer_cast<tt::SparseLinear>(fresh.hidden.replacement());
    REQUIRE(back);
    CHECK(back->weight().format() == "strips");
    CHECK(back->weight().dtype() == t);
    CHECK(same_values(back->weight().dense(), dense));
    const tt::Tensor x = tt::ones({3, 64}, t);
    CHECK(same_values(fresh(x), net(x)));
  }
  tt::Metadata m;
  const tt::TensorMap tensors = tt::load_safetensors(folder / "net.safetensors", &m);
  m["sparse.hidden"] = R"({"format": "strips", "rows": 80, "columns": 64, "dtype": "f32"})";
  m["sha256"] = tt::quantization::packed_checksum(tensors, m, tt::Loc::current());
  tt::save_safetensors(folder / "bad", tensors, m);
  tt::Generator g(3);
  Net other(g);
  CHECK(errors::thrown_by([&] { tt::load_sparse(other, folder / "bad"); }).code == "TT-IO-03");
}

TEST_CASE("a file of another kind, model or version, and a damaged one, are refused, and the model stays") {
  const tt::NoGrad no_grad;
  const files::TempFolder folder;
  tt::Generator g(1);
  Net net(g), other(g);
  mask(net.hidden, 0.8);
  tt::store_sparse(net.hidden, "bitmap");
  const std::string good = folder / "good", bad = folder / "bad";
  tt::save_sparse(net, good);
  tt::Metadata metadata;
  const tt::TensorMap tensors = tt::load_safetensors(good, &metadata);
  const tt::Tensor before = other.hidden.weight.clone();
  const auto code_of = [&](const tt::TensorMap& t, tt::Metadata m, bool summed) {
    if (summed) m["sha256"] = tt::quantization::packed_checksum(t, m, tt::Loc::current());
    tt::save_safetensors(bad, t, m);
    const std::string code = errors::thrown_by([&] { tt::load_sparse(other, bad); }).code;
    CHECK(same_values(other.hidden.weight, before));
    return code;
  };
  const auto with = [&](const char* key, const std::string& value) {
    tt::Metadata m = metadata;
    m[key] = value;
    return m;
  };
  tt::TensorMap changed = tensors;
  changed["hidden.values"] = tensors.at("hidden.values") * 2;
  CHECK(code_of(changed, metadata, false) == "TT-IO-03");
  CHECK(code_of(tensors, with("format", "tinytorch.packed"), true) == "TT-IO-04");
  CHECK(code_of(tensors, with("version", "2"), true) == "TT-IO-04");
  CHECK(code_of(tensors, with("sparse.hidden", R"({"format": "coo", "rows": 80, "columns": 64})"), true) ==
        "TT-IO-04");
  CHECK(code_of(tensors, with("sparse.hidden", R"({"format": "bitmap", "rows": 80})"), true) == "TT-IO-03");
  CHECK(code_of(tensors, with("sparse.hidden", R"({"format": "bitmap", "rows": 80, "columns": 63})"), true) ==
        "TT-NN-04");
  CHECK(code_of(tensors, with("sparse.nobody", R"({"format": "bitmap", "rows": 80, "columns": 64})"), true) ==
        "TT-NN-04");
  changed = tensors;
  changed["hidden.bits"] = tensors.at("hidden.bits") * 0;
  CHECK(code_of(changed, metadata, true) == "TT-PRUNE-05");
  changed = tensors;
  changed.erase("hidden.offsets");
  CHECK(code_of(changed, metadata, true) == "TT-PRUNE-05");
  changed = tensors;
  changed.erase("out.weight");
  CHECK(code_of(changed, metadata, true) == "TT-NN-04");
  CHECK(errors::thrown_by([&] { tt::load_sparse(net, good); }).code == "TT-NN-04");  // it is sparse already
  CHECK(errors::thrown_by([&] { tt::load_sparse(other, folder / "none"); }).code == "TT-IO-01");
  tt::load_sparse(other, good);
  CHECK(same_values(other(tt::ones({1, 64})), net(tt::ones({1, 64}))));
}
