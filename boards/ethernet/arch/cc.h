// What lwIP wants to know of its platform.
#ifndef GRADSTREAM_BOARDS_ETHERNET_ARCH_CC_H_
#define GRADSTREAM_BOARDS_ETHERNET_ARCH_CC_H_

#include <stdint.h>

#define LWIP_NO_UNISTD_H 1
#define LWIP_NO_CTYPE_H 1

// No console for its diagnostics; a broken assertion of lwIP is one of ours.
#define LWIP_PLATFORM_DIAG(x)
#define LWIP_PLATFORM_ASSERT(x) gradstream_lwip_assert_failed(__FILE__, __LINE__)

#ifdef __cplusplus
extern "C" {
#endif
void gradstream_lwip_assert_failed(const char* file, int line);
uint32_t gradstream_lwip_random(void);
#ifdef __cplusplus
}
#endif

#endif  // GRADSTREAM_BOARDS_ETHERNET_ARCH_CC_H_
