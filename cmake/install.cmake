# Installs headers, library, CMake package, pkg-config file, tool.

include(CMakePackageConfigHelpers)

set(dwell_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/dwell")

install(DIRECTORY include/dwell DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp")
install(TARGETS dwell EXPORT dwellTargets)
install(EXPORT dwellTargets NAMESPACE dwell:: DESTINATION "${dwell_package_dir}")

# A separate component, because it needs another package: find_package(dwell COMPONENTS prometheus).
if(TARGET dwell_prometheus)
  install(TARGETS dwell_prometheus EXPORT dwellPrometheusTargets)
  install(EXPORT dwellPrometheusTargets NAMESPACE dwell:: DESTINATION "${dwell_package_dir}")
endif()

configure_package_config_file(cmake/dwellConfig.cmake.in dwellConfig.cmake INSTALL_DESTINATION "${dwell_package_dir}")
write_basic_package_version_file(dwellConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/dwellConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/dwellConfigVersion.cmake"
  DESTINATION "${dwell_package_dir}"
)

# Relative to the file itself, so that an installed tree may be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE dwell_pc_prefix)
set(dwell_pc_prefix "\${pcfiledir}/${dwell_pc_prefix}")
configure_file(dwell.pc.in dwell.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/dwell.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(TARGET dwell_cli)
  install(TARGETS dwell_cli)
  # Everything that is installed, for script/demo.
  add_custom_target(dwell_installed DEPENDS dwell dwell_cli $<TARGET_NAME_IF_EXISTS:dwell_prometheus>)
endif()
