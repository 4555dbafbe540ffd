# `cmake --install BUILD --component gradstream-dev`: the libraries of a device for other projects.
#
#   lib/cmake/gradstream/        find_package(gradstream): gradstream::device, ::posix, ::c_port, ::runtime
#   lib/pkgconfig/gradstream.pc  the same for a Makefile
#   lib/gradstream/              the archives; those of Mbed TLS have names that no system's own have
#   include/gradstream-VERSION/  the headers, as they stand in the tree; <gradstream/device.h> is in include/ there
#
# `./run package library` makes a Debian package of it. The target gradstream-dev builds the archives alone.
# The packages of server and client take none of it: their tools name each file that they pack.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(gs_component gradstream-dev)
set(gs_headers ${CMAKE_INSTALL_INCLUDEDIR}/gradstream-${PROJECT_VERSION})
set(gs_archives ${CMAKE_INSTALL_LIBDIR}/gradstream)
set(gs_cmake ${CMAKE_INSTALL_LIBDIR}/cmake/gradstream)

# In the order of a linker's command line: each before what it needs. The port stands behind the client.
set(gs_installed gs_firmware gs_c_port gs_board_posix gs_host gs_link gs_tls gs_wire gs_runtime gs_proto gs_mbedtls
  gradstream_mbedtls gradstream_mbedx509 gradstream_mbedcrypto)
foreach(target IN LISTS gs_installed)
  if(NOT TARGET ${target})
    list(REMOVE_ITEM gs_installed ${target})
  endif()
endforeach()
foreach(names "gs_firmware device" "gs_board_posix posix" "gs_c_port c_port" "gs_runtime runtime")
  separate_arguments(names)
  list(GET names 0 target)
  list(GET names 1 name)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  endif()
endforeach()

# Mbed TLS names its configuration by a path of this tree, and its structures stand in ours.
foreach(target gradstream_mbedtls gradstream_mbedx509 gradstream_mbedcrypto)
  get_target_property(definitions ${target} INTERFACE_COMPILE_DEFINITIONS)
  list(TRANSFORM definitions REPLACE "^(MBEDTLS_CONFIG_FILE=.*)$"
    "$<BUILD_INTERFACE:\\1>;$<INSTALL_INTERFACE:MBEDTLS_CONFIG_FILE=\"gradstream_mbedtls_config.h\">")
  set_target_properties(${target} PROPERTIES INTERFACE_COMPILE_DEFINITIONS "${definitions}")
  # A linker takes the first libmbedtls of its folders. A program that also names the system's would get that one.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${target})
endforeach()
# The archives must not tell where they were built: asserts name files from the root. A debugger of a host's program
# finds its sources by their whole paths; a package has no debug data.
foreach(target IN LISTS gs_installed)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  endif()
endforeach()
add_custom_target(gradstream-dev)
add_dependencies(gradstream-dev ${gs_installed})

install(TARGETS ${gs_installed} EXPORT gradstream
  ARCHIVE DESTINATION ${gs_archives} COMPONENT ${gs_component})
install(EXPORT gradstream NAMESPACE gradstream:: FILE gradstreamTargets.cmake
  DESTINATION ${gs_cmake} COMPONENT ${gs_component})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/gradstreamConfig.cmake.in
  ${PROJECT_BINARY_DIR}/gradstreamConfig.cmake INSTALL_DESTINATION ${gs_cmake}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gradstreamConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradstreamConfig.cmake ${PROJECT_BINARY_DIR}/gradstreamConfigVersion.cmake
  DESTINATION ${gs_cmake} COMPONENT ${gs_component})

# pkg-config finds the rest beside its file, wherever that was put.
cmake_path(SET gs_prefix ${CMAKE_INSTALL_PREFIX})
cmake_path(RELATIVE_PATH gs_prefix BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(gs_link_line "")
foreach(target IN LISTS gs_installed)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL STATIC_LIBRARY AND NOT target STREQUAL gs_board_posix)  # a Makefile project has the port in C
    string(APPEND gs_link_line " -l${target}")
  endif()
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/gradstream.pc.in ${PROJECT_BINARY_DIR}/gradstream.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradstream.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${gs_component})

# A project's own files see the headers that ours see, so that a C++ application may write losses and manifolds. The
# self-test is of a board's image, and its header includes headers of boards/, which are not installed.
foreach(folder include runtime firmware boards/posix host)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${gs_headers}/${folder} COMPONENT ${gs_component}
    FILES_MATCHING PATTERN *.h PATTERN debian EXCLUDE REGEX "/firmware/self_test\\.h$" EXCLUDE)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/generated/proto/gradstream.pb.h
  DESTINATION ${gs_headers}/proto COMPONENT ${gs_component})
install(FILES ${GS_NANOPB}/pb.h ${GS_NANOPB}/pb_decode.h ${GS_NANOPB}/pb_encode.h ${GS_NANOPB}/pb_common.h
  DESTINATION ${gs_headers} COMPONENT ${gs_component})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/third_party/mbedtls/include/
  DESTINATION ${gs_headers} COMPONENT ${gs_component} FILES_MATCHING PATTERN *.h)
install(FILES ${mbedtls_config} DESTINATION ${gs_headers} RENAME gradstream_mbedtls_config.h COMPONENT ${gs_component})
