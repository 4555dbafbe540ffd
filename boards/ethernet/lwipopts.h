// lwIP for one TCP connection of a client: IPv4 with a fixed address, ARP, ping, nothing else; no heap, no threads.
// What is not named here has the default of lwip/opt.h. The memory is static: boards/mps2_an386_eth/board_config.h.
#ifndef GRADSTREAM_BOARDS_ETHERNET_LWIPOPTS_H_
#define GRADSTREAM_BOARDS_ETHERNET_LWIPOPTS_H_

#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0  // no interrupt calls it
#define LWIP_SINGLE_NETIF 1
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_RAW 0
#define LWIP_UDP 0
#define LWIP_ACD 0
#define LWIP_STATS 0
#define IP_FORWARD 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define IP_OPTIONS_ALLOWED 0
#define ARP_QUEUEING 0    // one packet waits for an answer, TCP sends the others again
#define ARP_TABLE_SIZE 4  // server or gateway, and those who ask for us

// ---- TCP: frames of the wire are at most 1,000 bytes, a record of TLS 1,046 ----

#define TCP_MSS 536                // every segment fits one pbuf
#define TCP_WND 2048               // what the ring of link.cc holds (kNetworkRingSize)
#define TCP_SND_BUF (4 * TCP_MSS)  // two records
#define TCP_SND_QUEUELEN 8
#define TCP_QUEUE_OOSEQ 0       // what overtakes another segment is sent again
#define LWIP_TCP_RTO_TIME 1000  // RFC 6298; the default is the 3 s of its forerunner
#define TCP_SYNMAXRTX 6         // link.cc gives up earlier, after kConnectMs
#define TCP_MAXRTX 8            // likewise the client, by its deadlines

// ---- Memory ----

#define MEM_ALIGNMENT 4
#define MEM_LIBC_MALLOC 0
#define MEMP_MEM_MALLOC 0
#define MEM_SIZE 3584     // what is sent: TCP_SND_BUF in segments with their headers, and an acknowledgement
#define PBUF_POOL_SIZE 4  // what comes in: a frame of full size takes three
#define MEMP_NUM_PBUF 2
#define MEMP_NUM_TCP_PCB 3  // the connection, and old ones that are closing
#define MEMP_NUM_TCP_PCB_LISTEN 1
#define MEMP_NUM_TCP_SEG 8

// A port and a sequence number that nobody can guess, and that differ from those before a reset.
#define LWIP_RAND() gradstream_lwip_random()
#define LWIP_HOOK_TCP_ISN(local_address, local_port, address, port) gradstream_lwip_random()

#endif  // GRADSTREAM_BOARDS_ETHERNET_LWIPOPTS_H_
