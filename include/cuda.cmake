# The CUDA backend. TINYTORCH_WITH_CUDA becomes one answer, with_cuda: ON, OFF or SIM, which is compiled into every object
# (core/config.hpp). ON needs nvcc; AUTO is ON if nvcc and a GPU are found.
string(TOUPPER "${TINYTORCH_WITH_CUDA}" with_cuda)
if(NOT with_cuda MATCHES "^(AUTO|SIM)$")
  if(with_cuda)
    set(with_cuda ON)
  else()
    set(with_cuda OFF)
  endif()
endif()
if(with_cuda MATCHES "^(AUTO|ON)$")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE gpu_capability
                  ERROR_QUIET RESULT_VARIABLE gpu_missing)
  string(REGEX MATCH "[0-9]+\\.[0-9]+" gpu_capability "${gpu_capability}")
  include(CheckLanguage)
  check_language(CUDA)
  if(with_cuda STREQUAL "AUTO" AND (gpu_missing OR NOT CMAKE_CUDA_COMPILER))
    message(STATUS "tinytorch: CUDA off (AUTO needs nvcc and a GPU)")
    set(with_cuda OFF)
  elseif(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "TINYTORCH_WITH_CUDA=ON, but no CUDA compiler was found.\n"
      "Put nvcc on the PATH or set CMAKE_CUDA_COMPILER, or configure with -DTINYTORCH_WITH_CUDA=OFF.")
  else()
    set(with_cuda ON)
    enable_language(CUDA)
    if(CMAKE_VERSION VERSION_LESS 3.26 AND NOT TARGET CUDA::nvToolsExt)
      # CUDA 13 has no nvToolsExt; the FindCUDAToolkit of CMake 3.25 sets a property of it and fails if it does not exist.
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(architectures "${TINYTORCH_CUDA_ARCHITECTURES}")
    if(NOT architectures AND NOT gpu_missing)
      string(REPLACE "." "" architectures "${gpu_capability}")
    elseif(NOT architectures)
      set(architectures 75 90a)
    endif()
    list(TRANSFORM architectures REPLACE "^90$" "90a")  # 90a adds the instructions that only Hopper has
    message(STATUS "tinytorch: CUDA ${CUDAToolkit_VERSION} for sm_${architectures}")
  endif()
endif()

# The kernels are one generated file that includes cuda_impl.cuh. With ON, nvcc compiles it.
if(with_cuda STREQUAL "ON")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/cuda_bodies.cu" CONTENT "#include <tinytorch/cuda_impl.cuh>\n")
  add_library(tinytorch_cuda STATIC "${PROJECT_BINARY_DIR}/generated/cuda_bodies.cu")
  set_target_properties(tinytorch_cuda PROPERTIES CUDA_ARCHITECTURES OFF CUDA_STANDARD 20 EXPORT_NAME cuda
                        POSITION_INDEPENDENT_CODE ON)
  target_compile_options(tinytorch_cuda PRIVATE --expt-relaxed-constexpr $<$<NOT:$<CONFIG:Debug>>:-O3>)
  if(NOT "cuda_std_20" IN_LIST CMAKE_CUDA_COMPILE_FEATURES)  # CMake 3.25.1 does not know that nvcc has C++20
    target_compile_options(tinytorch_cuda PRIVATE -std=c++20)
  endif()
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.4)
    target_compile_options(tinytorch_cuda PRIVATE --split-compile=0)  # one file, but its kernels are optimized in parallel
  endif()
  foreach(architecture IN LISTS architectures)
    target_compile_options(tinytorch_cuda PRIVATE "SHELL:-gencode arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  target_link_libraries(tinytorch_cuda PUBLIC CUDA::cudart CUDA::cublasLt)
  target_compile_definitions(tinytorch_cuda PUBLIC TINYTORCH_WITH_CUDA=1)
endif()
if(with_cuda STREQUAL "SIM")
  # With SIM, the C++ compiler compiles the same file for the emulator. ThreadSanitizer's instrumentation reports every
  # memory access to the emulator, which defines the functions that the instrumentation calls
  # (backend/cuda/sim/access.hpp); the sanitizer's own run-time library is not linked.
  find_package(boost_context REQUIRED)
  # Line tables have version 4: addr2line of binutils 2.40 takes file 1 of version 5 for the main file. The locations of
  # variables are not needed. Without them, and with -Og for -O1, the kernels compile in two thirds of the time.
  set(kernel_options -Og -g1 -gdwarf-4 -fsanitize=thread -Wall -Wextra -Wconversion -Wno-unknown-pragmas)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND kernel_options -fno-var-tracking)
    list(APPEND kernel_options -Wno-class-memaccess -Wno-maybe-uninitialized)  # copies of elements as bytes; optional weights
  endif()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/cuda_bodies.cpp" CONTENT "#include <tinytorch/cuda_impl.cuh>\n")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/sim_bodies.cpp"
       CONTENT "#include <tinytorch/backend/cuda/sim/bodies.hpp>\n")
  add_library(tinytorch_cuda STATIC "${PROJECT_BINARY_DIR}/generated/cuda_bodies.cpp"
                                    "${PROJECT_BINARY_DIR}/generated/sim_bodies.cpp")
  set_target_properties(tinytorch_cuda PROPERTIES EXPORT_NAME cuda)
  set_source_files_properties("${PROJECT_BINARY_DIR}/generated/cuda_bodies.cpp" PROPERTIES COMPILE_OPTIONS "${kernel_options}")
  set_source_files_properties("${PROJECT_BINARY_DIR}/generated/sim_bodies.cpp" PROPERTIES COMPILE_OPTIONS "-O2")
  target_link_libraries(tinytorch_cuda PUBLIC Boost::context ${CMAKE_DL_LIBS})
  target_compile_definitions(tinytorch_cuda PUBLIC TINYTORCH_WITH_CUDA=1 TINYTORCH_CUDA_SIM=1)
  add_library(tinytorch::cuda_sim ALIAS tinytorch_cuda)
endif()
if(TARGET tinytorch_cuda)
  add_library(tinytorch::cuda ALIAS tinytorch_cuda)
  target_compile_features(tinytorch_cuda PUBLIC cxx_std_20)
  target_include_directories(tinytorch_cuda PRIVATE ${student_includes} "${headers}")
  target_link_libraries(tinytorch INTERFACE tinytorch_cuda)
  set(cuda_target tinytorch_cuda)
  if(with_cuda STREQUAL "ON")
    list(APPEND package_needs CUDAToolkit)
  else()
    list(APPEND package_needs boost_context)
  endif()
endif()
