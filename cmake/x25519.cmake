# gs_add_x25519(): gives the target gradstream_mbedcrypto its driver for X25519, cmake/x25519_driver.h.
#   gs_x25519          the driver, objects
#   GS_X25519_SOURCES  what stands in place of psa_crypto.c and psa_crypto_driver_wrappers_no_static.c of Mbed TLS
#
# Mbed TLS's table of drivers is two files of its library. Its generator (scripts/generate_driver_wrappers.py) writes
# calls of importing and exporting a key from a description in JSON, but not of generating a key nor of agreeing on one.
# So the four calls are set before those of p256-m, the driver that the table always has, in copies of both files in
# the build tree. third_party/ stays as it came. A version of Mbed TLS with another table is refused here.

if(NOT EXISTS ${PROJECT_SOURCE_DIR}/third_party/libsodium/src/libsodium)
  message(FATAL_ERROR "third_party/libsodium is missing: run ./run setup build in ${PROJECT_SOURCE_DIR}, which "
    "unpacks it")
endif()

# gs_insert_driver_call(text_variable call statement): before the conditional part that holds p256_transparent_CALL(.
function(gs_insert_driver_call text_variable call statement)
  set(text "${${text_variable}}")
  string(FIND "${text}" "p256_transparent_${call}" place)
  string(FIND "${text}" "p256_transparent_${call}" last REVERSE)
  if(place EQUAL -1 OR NOT place EQUAL last)
    message(FATAL_ERROR "third_party/mbedtls: its table of drivers does not name p256_transparent_${call} once: "
      "cmake/x25519.cmake is made for Mbed TLS 3.6, remove third_party/mbedtls and run ./run setup")
  endif()
  string(SUBSTRING "${text}" 0 ${place} before)
  string(FIND "${before}" "#if" place REVERSE)
  string(SUBSTRING "${text}" 0 ${place} before)
  string(SUBSTRING "${text}" ${place} -1 after)
  set(${text_variable} "${before}${statement}
            if( status != PSA_ERROR_NOT_SUPPORTED )
                return( status );
${after}" PARENT_SCOPE)
endfunction()

# gs_copy_with_calls(name text): writes it where it changed, so that nothing else is built again.
function(gs_copy_with_calls name text)
  set(place "/* BEGIN-driver headers */\n")
  string(REPLACE "${place}" "${place}#include \"cmake/x25519_driver.h\"\n" text "${text}")
  set(path ${PROJECT_BINARY_DIR}/mbedtls_drivers/${name})
  if(EXISTS ${path})
    file(READ ${path} old)
  endif()
  if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${path} "${text}")
  endif()
endfunction()

function(gs_add_x25519)
  set(library ${PROJECT_SOURCE_DIR}/third_party/mbedtls/library)
  set(sodium ${PROJECT_SOURCE_DIR}/third_party/libsodium/src/libsodium)
  set(drivers ${PROJECT_BINARY_DIR}/mbedtls_drivers)
  set(table psa_crypto_driver_wrappers)

  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${library}/${table}.h ${library}/${table}_no_static.c)
  file(READ ${library}/${table}.h header)
  gs_insert_driver_call(header generate_key "            status = gs_x25519_generate_key( attributes,
                key_buffer, key_buffer_size, key_buffer_length );")
  gs_insert_driver_call(header import_key "            status = gs_x25519_import_key( attributes, data,
                data_length, key_buffer, key_buffer_size, key_buffer_length, bits );")
  gs_insert_driver_call(header key_agreement "            status = gs_x25519_key_agreement( attributes,
                key_buffer, key_buffer_size, alg, peer_key, peer_key_length, shared_secret, shared_secret_size,
                shared_secret_length );")
  gs_copy_with_calls(${table}.h "${header}")
  file(READ ${library}/${table}_no_static.c source)
  gs_insert_driver_call(source export_public_key "            status = gs_x25519_export_public_key( attributes,
                key_buffer, key_buffer_size, data, data_size, data_length );")
  gs_copy_with_calls(${table}_no_static.c "${source}")

  # psa_crypto.c alone includes the header, and a compiler looks for it beside psa_crypto.c first.
  configure_file(${library}/psa_crypto.c ${drivers}/psa_crypto.c COPYONLY)
  set_source_files_properties(${library}/psa_crypto.c ${library}/${table}_no_static.c
    TARGET_DIRECTORY gradstream_mbedcrypto PROPERTIES HEADER_FILE_ONLY ON)
  set(GS_X25519_SOURCES ${drivers}/psa_crypto.c ${drivers}/${table}_no_static.c PARENT_SCOPE)

  add_library(gs_x25519 OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/cmake/x25519_driver.c
    ${PROJECT_SOURCE_DIR}/cmake/long_multiplication.c)
  # What the compiler calls by itself must be there when units have become one.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/cmake/long_multiplication.c PROPERTIES COMPILE_OPTIONS -fno-lto)
  gs_layout(gs_x25519)
  target_include_directories(gs_x25519 PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(gs_x25519 SYSTEM PRIVATE ${PROJECT_SOURCE_DIR}/third_party/mbedtls/include
    ${sodium} ${sodium}/include/sodium)
  target_compile_definitions(gs_x25519 PRIVATE MBEDTLS_CONFIG_FILE="${mbedtls_config}")
  target_sources(gradstream_mbedcrypto PRIVATE ${drivers}/psa_crypto.c ${drivers}/${table}_no_static.c
    $<TARGET_OBJECTS:gs_x25519>)
  target_include_directories(gradstream_mbedcrypto PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
