// lwIP on a host for tests/boards/sockets_lwip.c: sockets, threads, and no interface but the loopback. What is not
// named here has the default of lwip/opt.h.
#ifndef GRADSTREAM_TESTS_BOARDS_LWIP_LWIPOPTS_H_
#define GRADSTREAM_TESTS_BOARDS_LWIP_LWIPOPTS_H_

#define NO_SYS 0
#define LWIP_SOCKET 1
#define LWIP_NETCONN 1
#define LWIP_COMPAT_SOCKETS 0  // the host's own have these names
#define LWIP_POSIX_SOCKETS_IO_NAMES 0
#define LWIP_NETIF_LOOPBACK 1
#define LWIP_HAVE_LOOPIF 1
#define LWIP_NETIF_LOOPBACK_MULTITHREADING 1
#define LWIP_ARP 0
#define LWIP_ETHERNET 0
#define LWIP_DNS 0
#define LWIP_RAW 0
#define LWIP_STATS 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define SYS_LIGHTWEIGHT_PROT 1

#define TCPIP_MBOX_SIZE 32
#define DEFAULT_TCP_RECVMBOX_SIZE 32
#define DEFAULT_ACCEPTMBOX_SIZE 4
#define DEFAULT_THREAD_STACKSIZE 65536
#define TCPIP_THREAD_STACKSIZE 65536

#define MEM_ALIGNMENT 8
#define MEM_SIZE 65536
#define MEMP_NUM_NETCONN 8
#define MEMP_NUM_TCP_PCB 8

#endif  // GRADSTREAM_TESTS_BOARDS_LWIP_LWIPOPTS_H_
