// Folding: finds the tensors that produce the inputs of a linear layer, and moves scales of its channels
// there.
//
//   norm -> qkv                         weight and bias of the norm
//   rows of V in qkv -> projection      attention averages values, so a scale of a channel passes through it;
//                                       only if each head has values of its own
//   norm -> up, gate_up                 weight and bias of the norm
//   rows of up in gate_up -> down       f(gate) * up is linear in up
//   up -> down                          only through ReLU; GELU and SiLU do not pass scales
//   final norm -> head
//
// Any other layer divides its inputs by the scales itself (InputTransform): K divisions for each row, and 4 K
// bytes of scales.
#pragma once

#include <map>
#include <tinytorch/quantization/separate_mlp.hpp>
#include <tinytorch/quantization/smooth.hpp>
#include <tinytorch/transformer/decoder.hpp>
#include <tinytorch/transformer/gpt2.hpp>

namespace tinytorch::inline TT_BUILD::quantization {

// Maps each layer whose inputs are made by known tensors to these tensors, which have the channels as their
// first dimension.
using InputMakers = std::map<const Module*, Tensors>;

inline Tensors made_by(const LayerNorm& norm) { return {norm.weight, norm.bias}; }
inline Tensors made_by(const RMSNorm& norm) { return {norm.weight}; }
// A factor of 1 + weight cannot take a scale; its layer divides its inputs.
inline Tensors made_by(const OffsetRmsNorm& norm) {
  return norm.offset == 0 ? Tensors{norm.weight} : Tensors{};
}

// The last of `parts` equal blocks of rows of a layer; empty if it is packed already.
inline Tensors last_rows(const Linear& layer, int64_t parts) {
  if (!layer.weight.defined()) return {};
  const int64_t first = layer.weight.size(0) / parts * (parts - 1);
  Tensors rows{slice(layer.weight.detach(), 0, first, layer.weight.size(0))};
  if (layer.bias.defined()) rows.push_back(slice(layer.bias.detach(), 0, first, layer.bias.size(0)));
  return rows;
}

inline void add_feed(InputMakers& makers, const Tensors& norm, const Mlp& mlp) { makers[&mlp.up] = norm; }
template <class Gated>  // SwiGlu or GatedMlp
void add_feed(InputMakers& makers, const Tensors& norm, const Gated& mlp) {
  makers[&mlp.gate_up] = norm;
  makers[&mlp.down] = last_rows(mlp.gate_up, 2);
}
template <class Block>
void add_block(InputMakers& makers, Block& block) {
  const auto& o = block.attention.options;
  makers[&block.attention.qkv] = made_by(block.attention_norm);
  if (o.heads == o.groups) makers[&block.attention.projection] = last_rows(block.attention.qkv, 3);
  add_feed(makers, made_by(block.mlp_norm), block.mlp);
}

inline void add_mlp(InputMakers& makers, const Mlp& mlp) {
  if (mlp.fn == Activation::relu) makers[&mlp.down] = last_rows(mlp.up, 1);
}

// Call it before the layers are packed, and after the head of the model became a layer.
inline InputMakers input_makers(Module& model) {
  const NoGrad no_grad;
  InputMakers makers;
  model.for_each_module([&](const std::string&, Module& m) {
    if (auto* const b = dynamic_cast<TransformerBlock<LayerNorm, Mlp>*>(&m)) add_block(makers, *b);
    if (auto* const b = dynamic_cast<TransformerBlock<RMSNorm, SwiGlu>*>(&m)) add_block(makers, *b);
    if (auto* const b = dynamic_cast<DecoderBlock*>(&m)) add_block(makers, *b);
    if (auto* const mlp = dynamic_cast<Mlp*>(&m)) add_mlp(makers, *mlp);
    if (auto* const mlp = dynamic_cast<SeparateMlp*>(&m)) add_mlp(makers, mlp->mlp());
    if (auto* const gpt2 = dynamic_cast<Gpt2*>(&m); gpt2 && gpt2->own_head)
      makers[gpt2->own_head.get()] = made_by(gpt2->final_norm);
    if (auto* const llama = dynamic_cast<Llama*>(&m); llama && llama->own_head)
      makers[llama->own_head.get()] = made_by(llama->final_norm);
    if (auto* const decoder = dynamic_cast<Decoder*>(&m); decoder && decoder->own_head)
      makers[decoder->own_head.get()] = made_by(decoder->final_norm);
  });
  return makers;
}

}  // namespace tinytorch::inline TT_BUILD::quantization
