# gs_lwip: as much of lwIP, of third_party/, as boards/ethernet needs.
set(GS_LWIP ${PROJECT_SOURCE_DIR}/third_party/lwip/src)
if(NOT EXISTS ${GS_LWIP}/core/tcp.c)
  message(FATAL_ERROR "third_party/lwip is missing: run ./run setup")
endif()

set(lwip_sources
  core/def.c core/inet_chksum.c core/init.c core/ip.c core/mem.c core/memp.c core/netif.c core/pbuf.c core/tcp.c
  core/tcp_in.c core/tcp_out.c core/timeouts.c core/ipv4/etharp.c core/ipv4/icmp.c core/ipv4/ip4.c
  core/ipv4/ip4_addr.c netif/ethernet.c)
list(TRANSFORM lwip_sources PREPEND ${GS_LWIP}/)
add_library(gs_lwip STATIC
  ${lwip_sources}
  ${PROJECT_SOURCE_DIR}/boards/ethernet/lwipopts.h
  ${PROJECT_SOURCE_DIR}/boards/ethernet/arch/cc.h)
gs_layout(gs_lwip)
target_include_directories(gs_lwip SYSTEM PUBLIC ${GS_LWIP}/include ${PROJECT_SOURCE_DIR}/boards/ethernet)
# Apart from the other C code, so that `./run footprint` can tell what the network takes.
target_compile_options(gs_lwip PRIVATE -fno-lto)
