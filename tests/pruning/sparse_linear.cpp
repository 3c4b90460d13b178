#include <tinytorch/pruning/sparse_linear.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/pruning/magnitude.hpp>
#include <tinytorch/pruning/nm.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Generator g{3};
  tt::Linear hidden{64, 80, true, g}, out{80, 16, false, g};
  Net() { add("hidden", hidden), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(hidden(x))); }
};

}  // namespace

TEST_CASE("layers whose bytes fall are stored, and the model computes the same; others stay dense") {
  for (const char* const format : {"bitmap", "gaps", "csr"}) {
    Net net;
    net.to(tt::cpu);  // there is no csr on a GPU
    {
      const tt::NoGrad no_grad;
      net.hidden.weight.copy_(tt::masked(net.hidden.weight, tt::magnitude_mask(net.hidden.weight, 0.8)));
    }
    tt::Generator g(9);
    const tt::Tensor x = tt::randn({7, 64}, tt::f32, tt::cpu, g);
    const tt::NoGrad no_grad;
    const tt::Tensor before = net(x);
    CHECK(tt::store_sparse(net, format) == 1);
    CHECK(tt::max(tt::abs(net(x) - before)).item<double>() < 1e-5);
    CHECK(net.named_parameters().size() == 1);
    CHECK(net.state_dict().count("hidden.values") == 1);
    CHECK(net.state_dict().count("hidden.bias") == 1);
    CHECK_FALSE(net.hidden.weight.defined());
    CHECK(tt::store_sparse(net, format) == 0);
    net.to(tt::bf16);
    CHECK(net(x.to(tt::bf16)).dtype() == tt::bf16);
    CHECK(tt::max(tt::abs(net(x.to(tt::bf16)).to(tt::f32) - before)).item<double>() < 0.1);
  }
}

TEST_CASE("scales of 8-bit codes, and no other part of a weight, keep f32 in a model that is converted") {
  const tt::Tensor w =
      tt::masked(sparse_matrix(32, 64, 1, 5), tt::nm_mask(sparse_matrix(32, 64, 1, 5), 2, 4));
  for (const char* const format : {"bitmap", "gaps", "csr", "bsr16", "2:4", "strips", "bsr16_int8"}) {
    const bool strips = std::string_view(format) == "strips";
    for (const tt::NamedPart& part : tt::sparse_weight(strips ? w.to(tt::bf16) : w, format).parts())
      CHECK(part.exact == (std::string_view(part.name) == "scales"));
  }
  Net net;
  net.to(tt::cpu);
  CHECK(tt::store_sparse(net, "bsr16_int8") == 2);
  const tt::Tensor before = net.state_dict().at("hidden.scales").clone();
  net.to(tt::bf16);
  CHECK(net.state_dict().at("hidden.scales").dtype() == tt::f32);
  CHECK(same_values(net.state_dict().at("hidden.scales"), before));
  CHECK(net.state_dict().at("hidden.bias").dtype() == tt::bf16);
  CHECK(net(tt::zeros({2, 64}, tt::bf16, tt::cpu)).dtype() == tt::bf16);
}

TEST_CASE("gaps that are made from their parts on a device equal those of the CPU") {
  const tt::Device here = tt::default_device();
  const tt::Tensor w = sparse_matrix(40, 70, 0.3, 4), x = sparse_matrix(5, 70, 1, 6);
  const tt::GapMatrix s = tt::to_gaps(w.to(tt::cpu));
  const tt::GapMatrix moved(s.values().to(here), s.gaps().to(here), s.offsets().to(here), 70);
  CHECK(same_values(moved.dense().to(tt::cpu), w.to(tt::cpu)));
  const tt::Tensor y = tt::sparse_linear(x.to(here), tt::SparseWeight(moved)).to(tt::cpu);
  const tt::Tensor wanted = tt::matmul(x.to(tt::f64), w.to(tt::f64).t());
  CHECK(tt::max(tt::abs(y.to(tt::f64) - wanted.to(tt::cpu))).item<double>() < 1e-4);
}

TEST_CASE("blocks of a slice that begins inside of 16 bytes are multiplied on every device") {
  const tt::Device here = tt::default_device();
  for (const tt::DType t : {tt::bf16, tt::f16}) {
    const tt::Tensor w = sparse_matrix(40, 70, 1, 4).to(t).to(here),
                     x = sparse_matrix(5, 70, 1, 6).to(t).to(here);
    const tt::BsrMatrix s = tt::to_bsr(w, 16);
    const tt::Tensor memory = tt::zeros({s.stored() + 1}, t, here);
    tt::Tensor values = memory.slice(0, 1).reshape(s.values().shape());
    values.copy_(s.values());
    const tt::SparseWeight sliced{tt::BsrMatrix(values, s.indices(), s.offsets(), 40, 70)};
    const tt::Tensor y = tt::sparse_linear(x, sliced), wanted = tt::sparse_linear(x, tt::SparseWeight(s));
    CHECK(same_values(y.to(tt::cpu), wanted.to(tt::cpu)));
  }
}

TEST_CASE("2:4 in strips: layers of 16 bits compute on every device, others stay dense") {
  for (const tt::DType t : {tt::bf16, tt::f16}) {
    Net net;
    net.to(t), net.to(tt::default_device());
    tt::Generator g(9);
    const tt::Tensor x = tt::randn({7, 64}, tt::f32, tt::cpu, g).to(t).to(tt::default_device());
    const tt::NoGrad no_grad;
    CHECK(tt::store_sparse(net, "strips") == 0);  // no pattern yet
    net.hidden.weight.copy_(tt::masked(net.hidden.weight, tt::nm_mask(net.hidden.weight, 2, 4)));
    const tt::Tensor dense = net.hidden.weight.clone();
    const auto wide = [](const tt::Tensor& y) { return y.detach().to(tt::cpu).to(tt::f64); };
    const tt::Tensor wanted = tt::matmul(wide(x), wide(dense).t()) + wide(net.hidden.bias);
    const auto error = [&](const tt::Tensor& y) { return tt::max(tt::abs(wide(y) - wanted)).item<double>(); };
    CHECK(tt::store_sparse(net, "strips") == 1);
    const auto stored = std::dynamic_pointer_cast<tt::SparseLinear>(net.hidden.replacement());
    REQUIRE(stored);
    CHECK(stored->weight().format() == "strips");
    CHECK(stored->weight().dtype() == t);
    CHECK(stored->weight().bytes() == 5 * 1152);
    CHECK(stored->weight().bytes() * 16 == 9 * dense.numel() * 2);
    CHECK(same_values(stored->weight().dense(), dense));
    CHECK(net.state_dict().count("hidden.strips") == 1);
    const double limit = t == tt::bf16 ? 0.02 : 0.003;
    CHECK(error(net.hidden(x)) < limit);
    CHECK(error(net.hidden(x.reshape({7, 1, 64})).reshape({7, 80})) < limit);
    CHECK(net.hidden(x.slice(0, 0, 0)).shape() == tt::Shape{0, 80});
    net.to(tt::cpu);
    CHECK(stored->weight().device() == tt::cpu);
    CHECK(error(net.hidden(x.to(tt::cpu))) < limit);
    CHECK(errors::thrown_by([&] { (void)net.hidden(x.to(tt::cpu).to(tt::f32)); }).code == "TT-DTYPE-02");
  }
  Net wide;
  wide.to(tt::cpu);
  CHECK(errors::thrown_by([&] { (void)tt::store_sparse(wide.hidden, "strips"); }).code == "TT-PRUNE-01");
  CHECK(tt::store_sparse(wide, "2:4") == 0);
  wide.hidden.weight.detach().zero_();
  CHECK(errors::thrown_by([&] { (void)tt::store_sparse(wide.hidden, "strips"); }).code == "TT-DTYPE-02");
  CHECK(tt::store_sparse(wide, "strips") == 0);
}

TEST_CASE("weights of density 0 and 1, with empty rows and without rows, compute in every format") {
  const tt::NoGrad no_grad;
  tt::Generator g(21);
  const tt::Tensor x = tt::randn({3, 64}, tt::f32, tt::cpu, g), bias = tt::randn({64}, tt::f32, tt::cpu, g);
  for (const char* const format : {"bitmap", "gaps", "csr", "bsr16", "bsr32", "bsr64"}) {
    INFO(format);
    for (const double density : {0.0, 0.3, 1.0}) {
      const tt::Tensor w = sparse_matrix(64, 64, density, 22);  // rows 0 and 63 are empty below 1
      const tt::Tensor y = tt::sparse_linear(x, tt::sparse_weight(w, format), bias);
      const tt::Tensor wanted = tt::matmul(x.to(tt::f64), w.to(tt::f64).t()) + bias.to(tt::f64);
      CHECK(tt::max(tt::abs(y.to(tt::f64) - wanted)).item<double>() < 1e-4);
      CHECK(tt::sparse_weight(w, format).bytes() > 0);
    }
    const tt::Tensor none =
        tt::sparse_linear(x, tt::sparse_weight(tt::zeros({0, 64}, tt::f32, tt::cpu), format));
    CHECK(none.shape() == tt::Shape{3, 0});
  }
  CHECK(errors::thrown_by([&] {
          (void)tt::sparse_weight(tt::zeros({64, 66}), "2:4");
        }).code == "TT-PRUNE-01");
  CHECK(errors::thrown_by([&] {
          (void)tt::sparse_weight(tt::zeros({64, 66}), "coo");
        }).code == "TT-PRUNE-01");
}

TEST_CASE("blocks of 16 bits compute on every device, with any dtype of x and a bias") {
  const tt::NoGrad no_grad;
  const auto wide = [](const tt::Tensor& y) { return y.to(tt::cpu).to(tt::f64); };
  for (const tt::DType t : {tt::bf16, tt::f16}) {
    for (const char* const format : {"bsr16", "bsr32", "bsr64"}) {
      for (const double density : {0.0, 0.02, 1.0}) {
        INFO(format, " ", density);
        tt::Generator g(31);
        const tt::Tensor w = sparse_matrix(70, 100, density, 22, t), b = tt::randn({70}, tt::f32, tt::cpu, g);
        const tt::SparseWeight there = tt::sparse_weight(w, format).to(tt::default_device());
        CHECK(same_values(there.dense().to(tt::cpu), w));
        for (const tt::DType of_x : {t, tt::f32}) {
          const tt::Tensor x = tt::randn({2, 5, 100}, tt::f32, tt::cpu, g).to(t).to(of_x);
          const tt::Tensor y =
              tt::sparse_linear(x.to(tt::default_device()), there, b.to(tt::default_device()));
          CHECK(y.dtype() == of_x);
          CHECK(y.shape() == tt::Shape{2, 5, 70});
          const tt::Tensor wanted = tt::linear(wide(x), wide(w), wide(b));
          const double size = tt::max(tt::abs(wanted)).item<double>();
          const double unit = of_x == tt::f32 ? 1e-6
                              : t == tt::bf16 ? 1.0 / 128
                                              : 1.0 / 1024;  // two roundings
          CHECK(tt::max(tt::abs(wide(y) - wanted)).item<double>() < unit * size + 2e-5);
        }
      }
    }
  }
}

TEST_CASE("a layer of blocks computes where its model is") {
  const tt::NoGrad no_grad;
  Net net;
  net.to(tt::bf16), net.to(tt::default_device());
  tt::Tensor keep = tt::zeros({80, 64}, tt::bf16, tt::cpu);
  for (int64_t r = 16; r < 48; ++r)
    for (int64_t c = 32; c < 64; ++c) keep.slice(0, r, r + 1).slice(1, c, c + 1).fill_(1);
  net.hidden.weight.copy_(net.hidden.weight * keep.to(tt::default_device()));
  tt::Generator g(9);
  const tt::Tensor x = tt::randn({7, 64}, tt::f32, tt::cpu, g).to(tt::bf16).to(tt::default_device());
  const tt::Tensor before = net(x).to(tt::cpu).to(tt::f32);
  CHECK(tt::store_sparse(net, "bsr16") == 1);
  CHECK(tt::max(tt::abs(net(x).to(tt::cpu).to(tt::f32) - before)).item<double>() < 0.03);
  net.to(tt::cpu);
  CHECK(tt::max(tt::abs(net(x.to(tt::cpu)).to(tt::f32) - before)).item<double>() < 0.03);
}

TEST_CASE("blocks without a kernel on CUDA are refused there, with the formats that have one") {
  if (tt::default_device().is_cpu()) return;
  const auto refused = [](const tt::Tensor& w, tt::DType of_x, const char* format) {
    const tt::SparseWeight there = tt::sparse_weight(w, format).to(tt::cuda);
    return errors::thrown_by([&] { (void)tt::sparse_linear(tt::ones({2, 64}, of_x, tt::cuda), there); }).code;
  };
  const tt::Tensor w = sparse_matrix(64, 64, 0.5, 1);
  CHECK(refused(w, tt::f32, "bsr32") == "TT-PRUNE-06");
  CHECK(refused(w, tt::bf16, "csr") == "TT-PRUNE-06");
  CHECK(refused(w.to(tt::bf16), tt::f64, "bsr32") == "TT-PRUNE-06");
  CHECK(refused(w.to(tt::bf16), tt::f32, "bsr32") == "");
}
