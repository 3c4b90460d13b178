# Installation: headers, libraries, the files of find_package(tinytorch), and tinytorch.pc for pkg-config.
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/tinytorch")
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
install(TARGETS tinytorch tinytorch_compiled ${cuda_target} EXPORT tinytorch-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT tinytorch-targets NAMESPACE tinytorch:: DESTINATION "${package_folder}")
set(config "include(CMakeFindDependencyMacro)\n")
foreach(package IN LISTS package_needs)
  string(APPEND config "find_dependency(${package})\n")
endforeach()
string(APPEND config "include(\"\${CMAKE_CURRENT_LIST_DIR}/tinytorch-targets.cmake\")\n")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/tinytorch-config.cmake" CONTENT "${config}" @ONLY)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/tinytorch-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
list(JOIN pc_needs " " pc_requires)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/tinytorch.pc" @ONLY CONTENT
"prefix=\${pcfiledir}/../..
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: tinytorch
Description: @PROJECT_DESCRIPTION@ (header-only)
Version: @PROJECT_VERSION@
Requires: @pc_requires@
Cflags: -std=c++20 -I\${includedir}@pc_flags@
Libs:@pc_libs@
")
install(FILES "${PROJECT_BINARY_DIR}/generated/tinytorch-config.cmake"
              "${PROJECT_BINARY_DIR}/generated/tinytorch-config-version.cmake" DESTINATION "${package_folder}")
# tinytorch.pc lies in share/, two levels below the prefix whatever the name of the library folder is.
install(FILES "${PROJECT_BINARY_DIR}/generated/tinytorch.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
