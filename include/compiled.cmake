# The compiled library consists of five generated files. Each includes headers and defines one macro, which makes their
# bodies visible: the CPU kernels other than matrix products, the matrix products, the tensor functions, their
# factorizations of matrices, and the layers with the file formats of checkpoints.
function(tinytorch_bodies name define)
  set(text "#define ${define} 1\n")
  foreach(pattern IN LISTS ARGN)
    file(GLOB_RECURSE found RELATIVE "${headers}" CONFIGURE_DEPENDS "${headers}/tinytorch/${pattern}")
    list(SORT found)
    foreach(file IN LISTS found)
      set(known ON)
      if((file STREQUAL "tinytorch/io/print.hpp" AND NOT fmt_FOUND)
         OR (file MATCHES "^tinytorch/tensor/ops/linalg" AND NOT TARGET Eigen3::Eigen))
        set(known OFF)
      endif()
      if(known)
        string(APPEND text "#include <${file}>\n")
      endif()
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/${name}.cpp" CONTENT "${text}" @ONLY)
endfunction()
tinytorch_bodies(backend_bodies TINYTORCH_IMPLEMENT_BACKEND "backend/cpu/*.hpp")
tinytorch_bodies(products_bodies TINYTORCH_IMPLEMENT_PRODUCTS "backend/cpu/*.hpp")
tinytorch_bodies(tensor_bodies TINYTORCH_IMPLEMENT_TENSOR "tensor/*.hpp" "autograd/*.hpp")
tinytorch_bodies(layers_bodies TINYTORCH_IMPLEMENT_LAYERS "io/json.hpp" "io/safetensors.hpp" "layers/*.hpp")
tinytorch_bodies(linalg_bodies TINYTORCH_IMPLEMENT_LINALG "tensor/ops/linalg.hpp")
add_library(tinytorch_compiled STATIC "${PROJECT_BINARY_DIR}/generated/backend_bodies.cpp"
                                      "${PROJECT_BINARY_DIR}/generated/products_bodies.cpp"
                                      "${PROJECT_BINARY_DIR}/generated/tensor_bodies.cpp"
                                      "${PROJECT_BINARY_DIR}/generated/linalg_bodies.cpp"
                                      "${PROJECT_BINARY_DIR}/generated/layers_bodies.cpp")
add_library(tinytorch::compiled ALIAS tinytorch_compiled)
set_target_properties(tinytorch_compiled PROPERTIES EXPORT_NAME compiled OUTPUT_NAME tinytorch POSITION_INDEPENDENT_CODE ON)
target_link_libraries(tinytorch_compiled PUBLIC tinytorch)
target_compile_definitions(tinytorch_compiled PUBLIC TINYTORCH_COMPILED)
target_compile_options(tinytorch_compiled PRIVATE -fno-math-errno -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The jump threading of g++ 13 turns the ?: of a loop's body into branches, and the loop is then not vectorized: the
  # gradient of gelu and the extrema of columns took 8 times as long.
  set_source_files_properties("${PROJECT_BINARY_DIR}/generated/backend_bodies.cpp"
                              "${PROJECT_BINARY_DIR}/generated/products_bodies.cpp" PROPERTIES COMPILE_OPTIONS -fno-thread-jumps)
endif()
if(NOT OpenMP_CXX_FOUND)
  target_compile_options(tinytorch_compiled PRIVATE -fopenmp-simd)
endif()
if(TINYTORCH_SANITIZE)
  target_compile_options(tinytorch_compiled PRIVATE -O1 -g1)
elseif(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_options(tinytorch_compiled PRIVATE -O3)
endif()
if(TINYTORCH_NATIVE)
  # The width of a vector register is part of the interface between two objects (core/simd.hpp): a program that links
  # the compiled library must be built for the same machine.
  target_compile_options(tinytorch INTERFACE "$<BUILD_INTERFACE:-march=native>")
  target_compile_options(tinytorch_compiled PUBLIC -march=native)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")  # loops over elements use the widest vector registers
    target_compile_options(tinytorch_compiled PRIVATE -mprefer-vector-width=512)
  endif()
endif()
if(NOT PROJECT_IS_TOP_LEVEL)
  set_target_properties(tinytorch_compiled PROPERTIES EXCLUDE_FROM_ALL "$<NOT:$<BOOL:${TINYTORCH_INSTALL}>>")
endif()

# Warnings, debug information and sanitizers: all in-tree targets have these options, a user's program does not.
add_library(tinytorch_in_tree INTERFACE)
target_compile_options(tinytorch_in_tree INTERFACE -Wall -Wextra -Wconversion)
# -g1 names functions and lines for profilers and debuggers. Full debug information would double the compile time.
target_compile_options(tinytorch_in_tree INTERFACE $<$<CONFIG:RelWithDebInfo>:-g1>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tinytorch_in_tree INTERFACE -Wno-restrict)  # a false warning about std::string (GCC bug 105651)
endif()
if(TINYTORCH_SANITIZE)
  target_compile_options(tinytorch_in_tree INTERFACE -fsanitize=${TINYTORCH_SANITIZE} -fno-sanitize-recover=all
                                                     -fno-omit-frame-pointer)
  target_link_options(tinytorch_in_tree INTERFACE -fsanitize=${TINYTORCH_SANITIZE})
endif()
target_link_libraries(tinytorch_compiled PRIVATE "$<BUILD_INTERFACE:tinytorch_in_tree>")
