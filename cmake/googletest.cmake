# GoogleTest from Debian's sources, so that each preset (sanitizers, other processors) has it with its own flags.
if(NOT EXISTS /usr/src/googletest/CMakeLists.txt)
  message(FATAL_ERROR "/usr/src/googletest is missing: run ./run setup")
endif()
function(gs_add_googletest)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
  set(CMAKE_EXPORT_COMPILE_COMMANDS OFF)
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK ON)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0")  # compiled once a preset, run for seconds
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
endfunction()
gs_add_googletest()
