// Umbrella header of transformer/: tokenizers, attention, blocks, GPT-2 and Llama, training, sampling.
//
// It includes every header of the folder. A program that includes only the headers it needs compiles faster.
#pragma once

#include <tinytorch/transformer/attention.hpp>
#include <tinytorch/transformer/block.hpp>
#include <tinytorch/transformer/bpe.hpp>
#include <tinytorch/transformer/bpe_files.hpp>
#include <tinytorch/transformer/bpe_model.hpp>
#include <tinytorch/transformer/bpe_model_reader.hpp>
#include <tinytorch/transformer/bpe_trainer.hpp>
#include <tinytorch/transformer/char_tokenizer.hpp>
#include <tinytorch/transformer/char_tokenizer_file.hpp>
#include <tinytorch/transformer/composed_attention.hpp>
#include <tinytorch/transformer/generate.hpp>
#include <tinytorch/transformer/generated_text.hpp>
#include <tinytorch/transformer/gguf.hpp>
#include <tinytorch/transformer/gguf_config.hpp>
#include <tinytorch/transformer/gguf_weights.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/transformer/graph_decode.hpp>
#include <tinytorch/transformer/hugging_face.hpp>
#include <tinytorch/transformer/hugging_face_config.hpp>
#include <tinytorch/transformer/hugging_face_weights.hpp>
#include <tinytorch/transformer/language_model.hpp>
#include <tinytorch/transformer/language_model_trainer.hpp>
#include <tinytorch/transformer/llama.hpp>
#include <tinytorch/transformer/mlp.hpp>
#include <tinytorch/transformer/model_problems.hpp>
#include <tinytorch/transformer/positions.hpp>
#include <tinytorch/transformer/pretokenize.hpp>
#include <tinytorch/transformer/pretraining.hpp>
#include <tinytorch/transformer/sampling.hpp>
#include <tinytorch/transformer/speculative.hpp>
#include <tinytorch/transformer/token_data.hpp>
#include <tinytorch/transformer/token_tables.hpp>
#include <tinytorch/transformer/tokenizer.hpp>
#include <tinytorch/transformer/unicode.hpp>
#include <tinytorch/transformer/unicode_tables.hpp>
