// Where the sources of this build lie. One small generated file holds the path (CMakeLists.txt), so that all
// others are the same in every checkout and a compiler cache answers for them.
#pragma once

namespace tinytorch_tree {

extern const char* const kSourceFolder;

}  // namespace tinytorch_tree
