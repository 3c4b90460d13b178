// Each name that a user of PyTorch types on layers, losses, optimizers and files has a line here, with its
// value.
#include <doctest/doctest.h>

#include <cmath>
#include <io/files.hpp>
#include <support/errors.hpp>
#include <tinytorch/io/npy.hpp>
#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/layers/layers.hpp>
#include <tinytorch/profiling/summary.hpp>
#include <tinytorch/tensor/ops/linalg.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/vision/vision.hpp>

using namespace tinytorch;  // as a user's program: no name may become ambiguous
using doctest::Approx;
using Values = std::vector<float>;

namespace {

Tensor grid() { return arange(6).to(f32).reshape(2, 3); }  // [[0, 1, 2], [3, 4, 5]]
double total(const Tensor& x) { return x.to(f64).sum().item<double>(); }

struct Net : Module {
  Linear fc1{3, 4}, fc2{4, 2};
  Net() { add("fc1", fc1), add("fc2", fc2); }
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
};

// One parameter with the value 1 and the gradient 1.
struct One : Module {
  Tensor w = add_parameter("w", ones(1));
  One() { w.set_grad(ones(1)); }
  float value() const { return w.item(); }
};

}  // namespace

TEST_CASE("losses") {
  const Tensor x = grid(), y = x + 1, t = arange(2), one = ones(2, 3);
  CHECK(mse_loss(x, y).item() == 1);
  CHECK(mse_loss(x, y, Reduction::sum).item() == 6);
  CHECK(mse_loss(x, y, Reduction::none).shape() == Shape{2, 3});
  CHECK(l1_loss(x, y).item() == 1);
  CHECK(huber_loss(x, x + 2).item() == 1.5);
  CHECK(huber_loss(x, y, Reduction::mean, 0.5).item() == 0.375);
  CHECK(smooth_l1_loss(x, y).item() == 0.5);
  CHECK(smooth_l1_loss(x, y, Reduction::sum, 0.5).item() == 4.5);
  CHECK(cross_entropy(x, t).item() == Approx(1.907606));
  CHECK(cross_entropy(x, t, {.ignore_index = 0}).item() == Approx(1.407606));
  CHECK(cross_entropy(x, t, {.label_smoothing = 0.1}).item() == Approx(1.857606));
  CHECK(cross_entropy(x, t, {.reduction = Reduction::none}).shape() == Shape{2});
  CHECK(cross_entropy(x, t, {.reduction = Reduction::sum, .weight = 2 * ones(3)}).item() == Approx(7.630424));
  CHECK(cross_entropy(x, softmax(zeros(2, 3), 1)).item() == Approx(1.407606));
  CHECK(cross_entropy(zeros({2, 3, 4, 4}), zeros({2, 4, 4}, i64)).item() == Approx(std::log(3)));
  CHECK(nll_loss(log_softmax(x, 1), t).item() == Approx(1.907606));
  CHECK(nll_loss(log_softmax(x, 1), t, {.weight = ones(3)}).item() == Approx(1.907606));
  CHECK(kl_div(log_softmax(x, 1), softmax(y, 1)).item() == Approx(0));
  CHECK(binary_cross_entropy(full({2}, 0.5), ones(2)).item() == Approx(std::log(2)));
  CHECK(bce_with_logits(zeros(2), ones(2)).item() == Approx(std::log(2)));
  CHECK(binary_cross_entropy_with_logits(zeros(2), ones(2)).item() == Approx(std::log(2)));
  CHECK(binary_cross_entropy_with_logits(x, one, BceOptions{}).item() ==
        Approx(bce_with_logits(x, one).item()));
  // The factor of target 1 leaves target 0 as it is.
  const Tensor half = tensor({{1., 0., 1.}, {0., 1., 0.}}), plain = bce_with_logits(x, half, Reduction::none);
  const Tensor weighted =
      binary_cross_entropy_with_logits(x, half, {.pos_weight = 3 * ones(3), .reduction = Reduction::none});
  CHECK(allclose(weighted, plain * (1 + 2 * half), 1e-5, 1e-6));
  CHECK(binary_cross_entropy_with_logits(x, half, {.weight = 2 * ones(3)}).item() ==
        Approx(2 * plain.mean().item()));
  CHECK(triplet_margin_loss(x, x, y, {.margin = 2.}).item() == Approx(2 - std::sqrt(3.)).epsilon(1e-4));
  CHECK(total(cosine_similarity(x, x)) == Approx(2));
  CHECK(cosine_embedding_loss(x, x, ones(2)).item() == Approx(0));
  CHECK(MSELoss()(x, y).item() == 1);
  CHECK(MSELoss(Reduction::sum)(x, y).item() == 6);
  CHECK(L1Loss()(x, y).item() == 1);
  CHECK(BCELoss()(full({2}, 0.5), ones(2)).item() == Approx(std::log(2)));
  CHECK(BCEWithLogitsLoss()(zeros(2), ones(2)).item() == Approx(std::log(2)));
  CHECK(CrossEntropyLoss()(x, t).item() == Approx(1.907606));
  CHECK(CrossEntropyLoss({.label_smoothing = 0.1})(x, t).item() == Approx(1.857606));
  CHECK(NLLLoss()(log_softmax(x, 1), t).item() == Approx(1.907606));
  CHECK(KLDivLoss()(log_softmax(x, 1), softmax(y, 1)).item() == Approx(0));
  CHECK(HuberLoss(0.5)(x, y).item() == 0.375);
  CHECK(SmoothL1Loss()(x, y).item() == 0.5);
  CHECK(TripletMarginLoss({.margin = 2.})(x, x, y).item() == Approx(2 - std::sqrt(3.)).epsilon(1e-4));
  CHECK(CosineEmbeddingLoss()(x, x, ones(2)).item() == Approx(0));
}

TEST_CASE("constructors with options") {
  const Tensor x = grid(), image = ones(2, 3, 8, 8);
  CHECK_FALSE(Linear(3, 4, false).bias.defined());
  // The option .bias and the argument behind the options are the same.
  CHECK_FALSE(Conv1d(3, 4, 3, {.padding = 1, .bias = false}).bias.defined());
  CHECK_FALSE(Conv2d(3, 4, 3, {.padding = 1, .bias = false}).bias.defined());
  CHECK_FALSE(Conv3d(3, 4, 3, {.padding = 1, .bias = false}).bias.defined());
  CHECK_FALSE(ConvTranspose1d(3, 4, 3, {.stride = 2, .bias = false}).bias.defined());
  CHECK_FALSE(ConvTranspose2d(3, 4, 3, {.stride = 2, .bias = false}).bias.defined());
  CHECK_FALSE(Conv2d(3, 4, 3, {.padding = 1}, false).options.bias);
  CHECK(Conv2d(3, 4, 3, {.padding = 1}).bias.defined());
  Generator first(3), second(3);
  Conv2d by_option(3, 4, 3, {.padding = 1, .bias = false}, true, first);
  Conv2d by_argument(3, 4, 3, {.padding = 1}, false, second);
  CHECK(by_option(image).equal(by_argument(image)));
  CHECK(by_option.named_parameters().size() == 1);
  CHECK(Conv2d(3, 4, {3, 5}, {.stride = {2, 1}, .padding = {1, 2}})(image).shape() == Shape{2, 4, 4, 8});
  CHECK(Conv1d(3, 4, 3)(ones(2, 3, 9)).shape() == Shape{2, 4, 7});
  CHECK(ConvTranspose1d(3, 4, 3)(ones(2, 3, 9)).shape() == Shape{2, 4, 11});
  CHECK(ConvTranspose2d(3, 4, 2, {.stride = 2})(image).shape() == Shape{2, 4, 16, 16});
  CHECK(Conv3d(1, 2, 3)(ones(1, 1, 5, 5, 5)).shape() == Shape{1, 2, 3, 3, 3});
  CHECK(total(BatchNorm1d(3)(x)) == Approx(0));
  CHECK(BatchNorm2d(3).running_mean.shape() == Shape{3});
  CHECK(BatchNorm2d(3, {.affine = false}).parameters().empty());
  CHECK(InstanceNorm2d(3)(image).shape() == image.shape());
  CHECK(LayerNorm(3)(x)[0].to_vector()[1] == 0);
  CHECK(GroupNorm(1, 3)(image).shape() == image.shape());
  CHECK(RMSNorm(3)(ones(1, 3)).to_vector()[0] == Approx(1));
  CHECK(Embedding(10, 4)(arange(2)).shape() == Shape{2, 4});
  CHECK(embedding(arange(2), x).equal(x));
  CHECK(embedding(x, arange(2)).equal(x));
  CHECK(Flatten()(image).shape() == Shape{2, 192});
  CHECK(Unflatten(1, {3, 1})(x).shape() == Shape{2, 3, 1});
  CHECK(Identity()(x).equal(x));
  CHECK(PixelShuffle(2)(arange(4).to(f32).reshape(1, 4, 1, 1)).to_vector() == Values{0, 1, 2, 3});
  CHECK(MaxPool2d(2)(image).shape() == Shape{2, 3, 4, 4});
  CHECK(MaxPool2d(3, 2, 1)(image).shape() == Shape{2, 3, 4, 4});
  CHECK(max_pool2d(ones(1, 1, 5, 5), {.kernel = 2, .ceil_mode = true}).shape() == Shape{1, 1, 3, 3});
  CHECK(AvgPool2d(2, 2)(image).shape() == Shape{2, 3, 4, 4});
  CHECK(AdaptiveAvgPool2d(1)(image).shape() == Shape{2, 3, 1, 1});
  CHECK(AdaptiveAvgPool2d(2)(image).shape() == Shape{2, 3, 2, 2});
  CHECK(AdaptiveAvgPool2d({2, 1})(image).shape() == Shape{2, 3, 2, 1});
  CHECK(AdaptiveMaxPool2d(2)(image).shape() == Shape{2, 3, 2, 2});
  CHECK(adaptive_avg_pool2d(image, 2).shape() == Shape{2, 3, 2, 2});
  CHECK(adaptive_avg_pool2d(image, {1, 2}).shape() == Shape{2, 3, 1, 2});
  CHECK(adaptive_max_pool2d(image, 2, 2).shape() == Shape{2, 3, 2, 2});
  CHECK(interpolate(image, {.scale_factor = 2, .mode = Interpolation::bilinear}).shape() ==
        Shape{2, 3, 16, 16});
  CHECK(interpolate(image, {.size = {4, 4}}).shape() == Shape{2, 3, 4, 4});
  CHECK(Upsample({.scale_factor = 2})(image).shape() == Shape{2, 3, 16, 16});
  CHECK(LeakyReLU(0.2)(-x)[0].to_vector()[1] == Approx(-0.2));
  CHECK(CELU()(x).equal(x));
  CHECK(Softmin(1)(x)[0].to_vector()[0] == Approx(0.665241));
  CHECK(Hardshrink(1)(x)[0].to_vector() == Values{0, 0, 2});
  CHECK(Softshrink(1)(x)[0].to_vector() == Values{0, 0, 1});
  CHECK(Tanhshrink()(x)[0].to_vector()[1] == Approx(1 - std::tanh(1.)));
  CHECK(Threshold(1, 20)(x)[0].to_vector() == Values{20, 20, 2});
}

TEST_CASE("dropout") {
  const Tensor x = ones(4, 8, 3, 3);
  Dropout element(0.5);
  element.eval();
  CHECK(element(x).equal(x));
  CHECK(dropout(x, 0.5, false).equal(x));
  CHECK_FALSE(dropout(x, 0.5, true).equal(x));
  // A channel is dropped as a whole, and the others are doubled.
  Dropout2d channels(0.5);
  const Tensor sums = channels(x).sum({2, 3});
  CHECK(((sums == 0) | (sums == 18)).all().item<bool>());
  CHECK((sums == 0).any().item<bool>());
  CHECK((sums == 18).any().item<bool>());
  channels.eval();
  CHECK(channels(x).equal(x));
}

TEST_CASE("recurrent layers and attention") {
  const Tensor x = ones(5, 2, 3);
  CHECK(RNN(3, 4)(x).output.shape() == Shape{5, 2, 4});
  auto [output, hidden] = GRU(3, 4)(x);
  CHECK(output[-1].equal(hidden[0]));
  LSTM lstm(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  CHECK(lstm(x).output.shape() == Shape{5, 2, 8});
  CHECK(lstm(x).state.cell.shape() == Shape{4, 5, 4});
  CHECK(GRUCell(3, 4)(x[0]).shape() == Shape{2, 4});
  CHECK(RNNCell(3, 4)(x[0]).shape() == Shape{2, 4});
  CHECK(LSTMCell(3, 4)(x[0]).cell.shape() == Shape{2, 4});
  // Lengths in place of a packed sequence: the second sample has two steps, and its other outputs are 0.
  CHECK(GRU(3, 4)(x, {}, tensor({5, 2})).output[2][1].to_vector() == Values(4, 0));
  MultiheadAttention attention(8, 2);
  CHECK(attention(ones(2, 5, 8), ones(2, 5, 8), ones(2, 5, 8)).output.shape() == Shape{2, 5, 8});
}

TEST_CASE("modules, their parameters and modes") {
  const Tensor x = grid();
  Net net;
  CHECK(net(x).shape() == Shape{2, 2});
  CHECK(net.named_parameters()[0].name == "fc1.weight");
  CHECK(net.parameter_count() == 26);
  net.requires_grad_(false);
  CHECK_FALSE(net(x).requires_grad());
  net.requires_grad_();
  for (const auto& [name, parameter] : net.named_parameters()) CHECK(parameter.requires_grad());
  net(x).sum().backward();
  CHECK(net.fc1.weight.grad().shape() == Shape{4, 3});
  net.zero_grad();
  CHECK_FALSE(net.fc1.weight.grad().defined());
  net.eval();
  CHECK_FALSE(net.fc1.training());
  net.train();
  CHECK(net.training());
  Net other;
  other.load_state_dict(net.state_dict());
  CHECK(other.fc1.weight.equal(net.fc1.weight));
  net.to(f64);
  CHECK(net.fc1.weight.dtype() == f64);
  Sequential stack(Linear(3, 4), ReLU());
  stack.append(Dropout(0.1)).push_back(Linear(4, 2));
  CHECK(stack.size() == 4);
  CHECK(stack(x).shape() == Shape{2, 2});
  ModuleList<Linear> list;
  list.append(Linear(3, 3));
  CHECK(list[0].weight.shape() == Shape{3, 3});
  ModuleDict dict;
  dict.add("a", Linear(2, 2));
  CHECK(dict.contains("a"));
  CHECK(profiling::summary(other, {1, 3}).str().find("26") != std::string::npos);
  const init::WithoutInitialization only_sizes;
  CHECK(resnet18().parameter_count() == 11689512);
  CHECK(resnet50().parameter_count() == 25557032);
  CHECK(vit_b_16().parameter_count() == 86567656);
}

TEST_CASE("initialization with PyTorch's names") {
  const Tensor w = empty(40, 50);
  init::zeros_(w);
  CHECK(total(w) == 0);
  init::ones_(w);
  CHECK(total(w) == 2000);
  init::constant_(w, 2);
  CHECK(total(w) == 4000);
  init::uniform_(w, 2, 3);
  CHECK((w >= 2).all().item<bool>());
  init::normal_(w, 100, 1);
  CHECK(w.mean().item() == Approx(100).epsilon(0.01));
  init::xavier_uniform_(w);
  CHECK(w.abs().max().item() <= std::sqrt(6.f / 90));
  init::xavier_normal_(w);
  CHECK(w.std().item() == Approx(std::sqrt(2. / 90)).epsilon(0.1));
  init::kaiming_uniform_(w);
  CHECK(w.abs().max().item() <= std::sqrt(6.f / 50));
  init::kaiming_normal_(w);
  CHECK(w.std().item() == Approx(std::sqrt(2. / 50)).epsilon(0.1));
}

TEST_CASE("optimizers, groups and clipping") {
  const auto after_step = [](One& net, Optimizer& optimizer) {
    optimizer.step();
    return net.value();
  };
  One a, b, c, d, e, f, g;
  SGD sgd(a.parameters(), 0.1);
  CHECK(after_step(a, sgd) == Approx(0.9));
  Adam adam(b.parameters(), 0.1);
  CHECK(after_step(b, adam) == Approx(0.9));
  AdamW adamw(c.parameters(), 0.1);
  CHECK(adamw.options.weight_decay == 0.01);
  CHECK(after_step(c, adamw) == Approx(0.899));
  RMSprop rmsprop(d.parameters(), 0.1);
  CHECK(after_step(d, rmsprop) == Approx(0));
  Adagrad adagrad(e.parameters(), 0.1);
  CHECK(after_step(e, adagrad) == Approx(0.9));
  Lion lion(f.parameters(), 0.1);
  CHECK(after_step(f, lion) == Approx(0.9));
  CHECK(SGD(g.parameters(), {.lr = 0.2, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true}).lr() ==
        0.2);
  CHECK(SGD(g.parameters(), {}).lr() == 0.01);
  CHECK(Muon(Tensors{ones(2, 2).requires_grad_()}, 0.1).lr() == 0.1);
  CHECK(Adam(g.parameters(), {.lr = 1e-3, .amsgrad = true}).lr() == 1e-3);
  WeightAverage average(g.parameters(), {.decay = 0.5});
  average.update();
  One h, i;
  SGD grouped(h.parameters(), {.lr = 0.1});
  grouped.add_group(i.parameters(), {.lr = 0.01});
  grouped.step();
  CHECK(h.value() == Approx(0.9));
  CHECK(i.value() == Approx(0.99));
  CHECK(grouped.state_dict().size() == 3);  // lr, and a step count for each of "0" and "1"
  grouped.load_state_dict(grouped.state_dict());
  i.w.set_grad(tensor({3.}));
  CHECK(clip_grad_norm_(i.parameters(), 1.0) == Approx(3));
  CHECK(i.w.grad().item() == Approx(1));
  clip_grad_value_(i.parameters(), 0.25);
  CHECK(i.w.grad().item() == 0.25);
}

TEST_CASE("files") {
  const files::TempFolder folder;
  const std::string path = folder / "net.safetensors";
  Net net, other, third;
  save(net, path);
  load(other, path);
  CHECK(other.fc2.weight.equal(net.fc2.weight));
  save(net.state_dict(), path);
  third.load_state_dict(load(path));
  CHECK(third.fc2.weight.equal(net.fc2.weight));
  CHECK(errors::thrown_by([&] { save(net.state_dict(), folder / "net.pt"); }).code == "TT-IO-02");
  const Tensor tokens = tensor({1, 65535});
  save_npy(folder / "tokens.npy", tokens, StoredType::u16);
  CHECK(load_npy(folder / "tokens.npy").to_vector<int64_t>() == tokens.to_vector<int64_t>());
  save_safetensors(folder / "half.safetensors", {{"x", grid()}}, {}, {{"x", StoredType::f8_e4m3}});
  CHECK(load_safetensors(folder / "half.safetensors").at("x").to_vector() == grid().to_vector());
}

TEST_CASE("batches") {
  const DataLoaderOptions options{.batch_size = 1, .shuffle = true};
  DataLoader loader(grid().cpu(), arange(2).cpu(), options);
  CHECK(loader.size() == 2);
  double sum = 0;
  for (const auto& [inputs, targets] : loader) sum += total(inputs) + total(targets);
  CHECK(sum == 16);
}

TEST_CASE("linear algebra") {
  const Tensor a = tensor({{2., 0.}, {0., 4.}});
  CHECK(linalg::inv(a).to_vector() == Values{0.5, 0, 0, 0.25});
  CHECK(linalg::det(a).item() == Approx(8));
  CHECK(linalg::svd(a).S.to_vector()[0] == Approx(4));
  CHECK(linalg::eigh(a).values.to_vector()[0] == Approx(2));
  CHECK(total(linalg::qr(a).R.abs()) == Approx(6));
  CHECK(linalg::solve(a, tensor({2., 4.})).to_vector()[1] == Approx(1));
}
