# gs_add_proto(target FILE.proto...): the C code that nanopb makes of protobuf files, and nanopb's run time.
#
# Each FILE.proto stands beside a FILE.options with the bounds of its fields. proto/x.proto is included as
# "proto/x.pb.h". PB_BUFFER_ONLY and PB_NO_ERRMSG change nanopb's structures, so they reach every user of the target.

set(GS_NANOPB ${PROJECT_SOURCE_DIR}/third_party/nanopb)
if(NOT EXISTS ${GS_NANOPB}/pb.h)
  message(FATAL_ERROR "third_party/nanopb is missing: run ./run setup")
endif()

function(gs_add_proto target)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  set(sources ${GS_NANOPB}/pb_common.c ${GS_NANOPB}/pb_encode.c ${GS_NANOPB}/pb_decode.c)
  file(MAKE_DIRECTORY ${generated})
  foreach(file IN LISTS ARGN)
    cmake_path(GET file STEM stem)
    cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    cmake_path(GET path PARENT_PATH folder)
    set(base ${folder}/${stem})
    add_custom_command(
      OUTPUT ${generated}/${base}.pb.c ${generated}/${base}.pb.h
      COMMAND /usr/bin/python3 -s -E ${GS_NANOPB}/generator/nanopb_generator.py
        --quiet --error-on-unmatched -I ${PROJECT_SOURCE_DIR} -D ${generated} ${path}
      DEPENDS ${PROJECT_SOURCE_DIR}/${path} ${PROJECT_SOURCE_DIR}/${base}.options
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMENT "nanopb ${path}"
      VERBATIM)
    list(APPEND sources ${generated}/${base}.pb.c ${generated}/${base}.pb.h)
  endforeach()
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC ${generated} ${GS_NANOPB})
  target_compile_definitions(${target} PUBLIC PB_BUFFER_ONLY=1 PB_NO_ERRMSG=1)
endfunction()
