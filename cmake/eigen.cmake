# gs_eigen: headers only, the same for every processor. Reference in tests; types and maps where nothing is replicated.
if(NOT EXISTS /usr/include/eigen3/Eigen/Core)
  message(FATAL_ERROR "Eigen is missing: run ./run setup")
endif()
add_library(gs_eigen INTERFACE)
target_include_directories(gs_eigen SYSTEM INTERFACE /usr/include/eigen3)
