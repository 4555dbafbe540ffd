# GS_PYTHON: a Python that runs nanopb's generator. The system's comes first, as a project may stand in an environment
# of its own whose Python has other modules.
function(gs_has_protobuf result candidate)
  execute_process(COMMAND ${candidate} -s -E -c "import google.protobuf.descriptor_pb2, pkg_resources"
    RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  if(NOT code EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(GS_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH VALIDATOR gs_has_protobuf)
find_program(GS_PYTHON NAMES python3 VALIDATOR gs_has_protobuf NO_CMAKE_FIND_ROOT_PATH)
if(NOT GS_PYTHON)
  message(FATAL_ERROR "no python3 here has the modules of nanopb's generator: install python3-protobuf and "
    "python3-pkg-resources (Debian), or protobuf and setuptools by pip, or name a Python by -DGS_PYTHON=/path/python3")
endif()
find_program(GS_PROTOC protoc NO_CMAKE_FIND_ROOT_PATH)
if(NOT GS_PROTOC)
  message(FATAL_ERROR "protoc is missing, which nanopb's generator runs: install protobuf-compiler (Debian)")
endif()
mark_as_advanced(GS_PYTHON GS_PROTOC)
