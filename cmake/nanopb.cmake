# gs_add_proto(target FILE.proto... [DOUBLES]): the C code that nanopb makes of protobuf files, and nanopb's run time.
#
# Each FILE.proto stands beside a FILE.options with the bounds of its fields. proto/x.proto is included as
# "proto/x.pb.h". PB_BUFFER_ONLY and PB_NO_ERRMSG change nanopb's structures, so they reach every user of the target.
# DOUBLES: made from a copy in which every float field is a double, in a folder of its own. The messages
# Line and Evaluation keep theirs: as doubles they would not fit the frame of an update.

set(GS_NANOPB ${PROJECT_SOURCE_DIR}/third_party/nanopb)
if(NOT EXISTS ${GS_NANOPB}/pb.h)
  message(FATAL_ERROR "third_party/nanopb is missing: run ./run setup build in ${PROJECT_SOURCE_DIR}, which unpacks it")
endif()

function(gs_add_proto target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "DOUBLES" "" "")
  set(generated ${PROJECT_BINARY_DIR}/generated)
  set(root ${PROJECT_SOURCE_DIR})
  if(arg_DOUBLES)
    set(generated ${PROJECT_BINARY_DIR}/generated_f64)
    set(root ${generated}/doubles)
  endif()
  set(sources ${GS_NANOPB}/pb_common.c ${GS_NANOPB}/pb_encode.c ${GS_NANOPB}/pb_decode.c)
  file(MAKE_DIRECTORY ${generated})
  foreach(file IN LISTS arg_UNPARSED_ARGUMENTS)
    cmake_path(GET file STEM stem)
    cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    cmake_path(GET path PARENT_PATH folder)
    set(base ${folder}/${stem})
    if(arg_DOUBLES)
      add_custom_command(
        OUTPUT ${root}/${base}.proto ${root}/${base}.options
        COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_SOURCE_DIR}/${base}.options ${root}/${base}.options
        COMMAND sed "/^message \\(Line\\|Evaluation\\) /,/^}/!s/\\bfloat\\b/double/"
                ${PROJECT_SOURCE_DIR}/${path} > ${root}/${base}.proto
        DEPENDS ${PROJECT_SOURCE_DIR}/${path} ${PROJECT_SOURCE_DIR}/${base}.options
        COMMENT "${path} with doubles"
        VERBATIM)
      file(MAKE_DIRECTORY ${root}/${folder})
    endif()
    add_custom_command(
      OUTPUT ${generated}/${base}.pb.c ${generated}/${base}.pb.h
      COMMAND ${GS_PYTHON} -s -E ${GS_NANOPB}/generator/nanopb_generator.py
        --quiet --error-on-unmatched -I ${root} -D ${generated} ${path}
      DEPENDS ${root}/${path} ${root}/${base}.options
      WORKING_DIRECTORY ${root}
      COMMENT "nanopb ${path}"
      VERBATIM)
    list(APPEND sources ${generated}/${base}.pb.c ${generated}/${base}.pb.h)
  endforeach()
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC $<BUILD_INTERFACE:${generated}>
    $<BUILD_INTERFACE:${GS_NANOPB}>)
  gs_layout(${target})
  target_compile_definitions(${target} PUBLIC PB_BUFFER_ONLY=1 PB_NO_ERRMSG=1)
endfunction()
