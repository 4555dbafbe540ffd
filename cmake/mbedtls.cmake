# gs_mbedtls: Mbed TLS 3.6 of third_party/, built with the configuration of this platform.
#
# The configuration is GS_MBEDTLS_CONFIG if set, else mbedtls_config.h in the board's folder if it has one. Else it is
# the one for all boards or the one for hosts in cmake/.
#
# GRADSTREAM_MBEDTLS_TARGET: gs_mbedtls is that target of the project around this one, with its own configuration.
# runtime/link/tls.cc names what that configuration lacks. Two Mbed TLS in one program would clash by their symbols.
# GS_TLS_CONTEXTS_SIZE: bytes for its two structures of a session, where a configuration makes them larger than usual.
if(GRADSTREAM_MBEDTLS_TARGET)
  if(NOT TARGET ${GRADSTREAM_MBEDTLS_TARGET})
    message(FATAL_ERROR "GRADSTREAM_MBEDTLS_TARGET=${GRADSTREAM_MBEDTLS_TARGET} is no target: add the project of that "
      "Mbed TLS before gradstream, or leave it empty for the one of third_party/")
  elseif(GRADSTREAM_SERVER)
    message(FATAL_ERROR "GRADSTREAM_MBEDTLS_TARGET is for a device's libraries alone: set GRADSTREAM_SERVER=OFF")
  endif()
  add_library(gs_mbedtls INTERFACE)
  target_link_libraries(gs_mbedtls INTERFACE ${GRADSTREAM_MBEDTLS_TARGET})
  target_compile_definitions(gs_mbedtls INTERFACE GS_OWN_MBEDTLS=1)
  if(GS_TLS_CONTEXTS_SIZE)
    target_compile_definitions(gs_mbedtls INTERFACE GS_TLS_CONTEXTS_SIZE=${GS_TLS_CONTEXTS_SIZE})
  endif()
  return()
endif()

if(NOT EXISTS ${PROJECT_SOURCE_DIR}/third_party/mbedtls/CMakeLists.txt)
  message(FATAL_ERROR "third_party/mbedtls is missing: run ./run setup build in ${PROJECT_SOURCE_DIR}, which unpacks "
    "it, or name an Mbed TLS of your project by GRADSTREAM_MBEDTLS_TARGET")
endif()
if(TARGET mbedtls OR TARGET mbedcrypto)
  message(FATAL_ERROR "this project has targets of an Mbed TLS already: set GRADSTREAM_MBEDTLS_TARGET to the one to "
    "link, such as mbedtls, before it adds gradstream")
endif()

set(GS_MBEDTLS_CONFIG "" CACHE FILEPATH "Configuration header of Mbed TLS, instead of the platform's own")
set(board_config ${PROJECT_SOURCE_DIR}/boards/${GS_BOARD}/mbedtls_config.h)
set(own_board_config ${GRADSTREAM_BOARD_DIR}/mbedtls_config.h)
if(GS_MBEDTLS_CONFIG)
  set(mbedtls_config ${GS_MBEDTLS_CONFIG})
elseif(GS_BOARD AND EXISTS ${board_config})
  set(mbedtls_config ${board_config})
elseif(GRADSTREAM_BOARD_DIR AND EXISTS ${own_board_config})
  set(mbedtls_config ${own_board_config})
elseif(GS_BARE_METAL)
  set(mbedtls_config ${PROJECT_SOURCE_DIR}/cmake/mbedtls_config_board.h)
else()
  set(mbedtls_config ${PROJECT_SOURCE_DIR}/cmake/mbedtls_config_host.h)
endif()

include(x25519)

function(gs_add_mbedtls)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # its options take the values below
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  set(CMAKE_EXPORT_COMPILE_COMMANDS OFF)
  set(CMAKE_POLICY_DEFAULT_CMP0126 NEW)  # and the cache, which is of all projects, keeps none of them
  set(MBEDTLS_TARGET_PREFIX gradstream_)  # it has a target `lib`, a name that other projects use
  set(Python3_EXECUTABLE ${GS_PYTHON})
  set(ENABLE_PROGRAMS OFF)
  set(ENABLE_TESTING OFF)
  set(GEN_FILES OFF)
  set(MBEDTLS_FATAL_WARNINGS OFF)
  set(USE_STATIC_MBEDTLS_LIBRARY ON)
  set(USE_SHARED_MBEDTLS_LIBRARY OFF)
  set(MBEDTLS_CONFIG_FILE ${mbedtls_config})
  add_subdirectory(${PROJECT_SOURCE_DIR}/third_party/mbedtls ${PROJECT_BINARY_DIR}/mbedtls EXCLUDE_FROM_ALL SYSTEM)
  # Its structures stand in ours, and its configuration reads our definitions.
  foreach(target gradstream_mbedtls gradstream_mbedx509 gradstream_mbedcrypto gradstream_p256m)
    if(TARGET ${target})
      gs_layout(${target})
    endif()
  endforeach()
  # The header is part of a preprocessor definition, so the dependency scan finds it; nothing else to declare.
  gs_add_x25519()
  set(GS_X25519_SOURCES ${GS_X25519_SOURCES} PARENT_SCOPE)
endfunction()
gs_add_mbedtls()

# Multiplying a block of GCM reverses the bytes of its operands in loops of 16 steps, which are two thirds of its time
# at -O2. As vectors they are one instruction each (SSSE3), which every processor has that this file's instructions are
# for; what asks whether they are there is in it too, and has nothing to vectorise.
# Not -maes: aesni.h would choose intrinsics, which want aligned keys, in this file alone, and aes.c aligns none.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND NOT GS_BARE_METAL)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/third_party/mbedtls/library/aesni.c
    TARGET_DIRECTORY gradstream_mbedcrypto PROPERTIES COMPILE_OPTIONS "-O3;-mssse3")
endif()

add_library(gs_mbedtls INTERFACE)
target_link_libraries(gs_mbedtls INTERFACE gradstream_mbedtls gradstream_mbedx509 gradstream_mbedcrypto)
