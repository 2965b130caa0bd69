# dwell::prometheus, the endpoint that Prometheus scrapes: a separate library, so that dwell itself does not need its dependencies.
if(NOT DWELL_BUILD_PROMETHEUS)
  return()
endif()
find_package(prometheus-cpp CONFIG QUIET)
if(NOT prometheus-cpp_FOUND)
  message(STATUS "dwell: prometheus-cpp not found, dwell::prometheus is left out")
  return()
endif()

file(GLOB exporter_sources CONFIGURE_DEPENDS exporter/*.cpp)
list(FILTER exporter_sources EXCLUDE REGEX "\\.test\\.cpp$")
add_library(dwell_prometheus ${exporter_sources})
add_library(dwell::prometheus ALIAS dwell_prometheus)
target_include_directories(dwell_prometheus PRIVATE src "${PROJECT_SOURCE_DIR}")
target_link_libraries(dwell_prometheus PUBLIC dwell::dwell PRIVATE prometheus-cpp::pull)
dwell_warnings(dwell_prometheus)
set_target_properties(dwell_prometheus PROPERTIES
  EXPORT_NAME prometheus VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
)
