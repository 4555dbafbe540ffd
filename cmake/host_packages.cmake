# The host's libraries, as targets. The device runtime uses none of them.
find_package(Threads REQUIRED)
find_package(SQLite3 REQUIRED)                 # SQLite::SQLite3
find_package(spdlog REQUIRED)                  # spdlog::spdlog
find_package(CLI11 REQUIRED)                   # CLI11::CLI11
find_package(nlohmann_json REQUIRED)           # nlohmann_json::nlohmann_json
find_package(tomlplusplus REQUIRED)            # tomlplusplus::tomlplusplus

# Nettle's SHA-256.
find_path(GS_NETTLE_INCLUDE nettle/sha2.h REQUIRED)
find_library(GS_NETTLE_LIBRARY nettle REQUIRED)
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
