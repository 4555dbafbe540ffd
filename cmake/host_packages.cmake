# The host's libraries, as targets. The device runtime uses none of them.
#
#   gs_sqlite   SQLite, as an archive
#   gs_spdlog   spdlog and fmt, as headers
#
# A program that was built here starts on other releases of Debian and Ubuntu: of their shared libraries it needs those
# of the compiler and the C library alone (tests/tools/program_libraries_test.py).
find_package(Threads REQUIRED)
find_path(GS_SQLITE_HEADERS sqlite3.h REQUIRED)
find_library(GS_SQLITE_ARCHIVE libsqlite3.a REQUIRED)
add_library(gs_sqlite STATIC IMPORTED)
set_target_properties(gs_sqlite PROPERTIES
  IMPORTED_LOCATION ${GS_SQLITE_ARCHIVE} INTERFACE_INCLUDE_DIRECTORIES ${GS_SQLITE_HEADERS})
target_link_libraries(gs_sqlite INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

# Each release has another version of both, with another name of its shared library. One source of the server includes
# them, so headers alone cost one unit more time.
find_path(GS_SPDLOG_HEADERS spdlog/spdlog.h REQUIRED)
find_path(GS_FMT_HEADERS fmt/format.h REQUIRED)
add_library(gs_spdlog INTERFACE)
target_include_directories(gs_spdlog SYSTEM INTERFACE ${GS_SPDLOG_HEADERS} ${GS_FMT_HEADERS})
target_compile_definitions(gs_spdlog INTERFACE SPDLOG_FMT_EXTERNAL=1 FMT_HEADER_ONLY=1)

# libpq, shared as Debian has it, where the engine on PostgreSQL is wanted or can be tested. gradstream-engine alone
# needs it.
find_package(PostgreSQL QUIET)  # PostgreSQL::PostgreSQL
if(GS_ENGINE_POSTGRESQL AND NOT TARGET PostgreSQL::PostgreSQL)
  message(FATAL_ERROR "GS_ENGINE_POSTGRESQL is ON, and libpq is missing: install libpq-dev, or set it OFF")
endif()

find_package(CLI11 REQUIRED)                   # CLI11::CLI11
find_package(nlohmann_json REQUIRED)           # nlohmann_json::nlohmann_json
find_package(tomlplusplus REQUIRED)            # tomlplusplus::tomlplusplus

# Nettle's SHA-256, as an archive: the server asks a system for the libraries of C and C++ alone.
find_path(GS_NETTLE_INCLUDE nettle/sha2.h REQUIRED)
find_library(GS_NETTLE_LIBRARY libnettle.a REQUIRED)
add_library(gs_nettle INTERFACE)
target_include_directories(gs_nettle SYSTEM INTERFACE ${GS_NETTLE_INCLUDE})
target_link_libraries(gs_nettle INTERFACE ${GS_NETTLE_LIBRARY})

# Asio, its implementation compiled once (server/base/asio_implementation.cc). Its errors come back as codes: no
# exception crosses an interface of the server.
add_library(gs_asio INTERFACE)
# Whether Asio takes std::aligned_alloc depends on which headers stand before its own: one unit would allocate by it and
# another free by operator delete. So no unit takes it.
target_compile_definitions(gs_asio INTERFACE ASIO_STANDALONE=1 ASIO_NO_DEPRECATED=1 ASIO_SEPARATE_COMPILATION=1
  ASIO_DISABLE_STD_ALIGNED_ALLOC=1)
target_link_libraries(gs_asio INTERFACE Threads::Threads)
