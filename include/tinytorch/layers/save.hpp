// A model's parameters and buffers in a file, by one line.
//
//   save(net, "net.safetensors");
//   Net again;
//   load(again, "net.safetensors");
//
// The file is safetensors, which Python reads, too: safetensors.torch.load_file(path). It is written under a
// temporary name and then renamed, so an interrupted save keeps the old file. A run that is to continue also
// needs its optimizer and its place in the data: layers/checkpoint.hpp.
#pragma once

#include <tinytorch/layers/module.hpp>

namespace tinytorch::inline TT_BUILD {

// Writes net.state_dict(). The name must end with ".safetensors" (TT-IO-02).
TT_API void save(const Module& net, const std::string& path, TT_LOC);

// Copies the tensors of a file into the model, which must have been built with the same sizes. Floating-point
// values are converted to the model's dtype and moved to its device. A training checkpoint
// (layers/checkpoint.hpp) is read, too: the model in it. A difference throws TT-NN-04 with a list of all
// differences, and changes nothing.
TT_API void load(Module& net, const std::string& path, TT_LOC);

// The tensors of such a file by name, and their way back into it: the form in which PyTorch's programs save,
// net.load_state_dict(load("net.safetensors")).
TT_API StateDict load(const std::string& path, TT_LOC);
TT_API void save(const StateDict& state, const std::string& path, TT_LOC);

}  // namespace tinytorch::inline TT_BUILD

#if TT_BODIES(LAYERS)

#include <tinytorch/io/safetensors.hpp>
#include <tinytorch/layers/checkpoint.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API void save(const Module& net, const std::string& path, Loc loc) { save(net.state_dict(), path, loc); }
TT_API void save(const StateDict& state, const std::string& path, Loc loc) {
  if (!path.ends_with(".safetensors")) {
    fail("TT-IO-02",
         "save: a model is saved as safetensors, and '" + path +
             "' has another ending\n  hint: name the file " + path + ".safetensors",
         loc);
  }
  save_safetensors(path, state, {}, loc);
}

TT_API void load(Module& net, const std::string& path, Loc loc) { net.load_state_dict(load(path, loc), loc); }
TT_API StateDict load(const std::string& path, Loc loc) {
  Metadata metadata;
  TensorMap tensors = load_safetensors(path, &metadata, loc);
  const auto format = metadata.find("format");
  if (format != metadata.end() && format->second == kCheckpointFormat)
    tensors = checkpoint::entries_under(tensors, "model.");
  return tensors;
}

}  // namespace tinytorch::inline TT_BUILD
#endif
