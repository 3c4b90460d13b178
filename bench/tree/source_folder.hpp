// Path of the source folder of this build. One small generated file (CMakeLists.txt) defines it, so that all
// other files are the same in every checkout and a compiler cache can serve them.
#pragma once

namespace tinytorch_tree {

extern const char* const kSourceFolder;

}  // namespace tinytorch_tree
