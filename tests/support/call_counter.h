// What a program asks of the heap and of the kernel, counted. A test that includes this names call_counter.cc among its
// SOURCES, which replaces operator new and epoll_ctl() in its program.
#ifndef GRADSTREAM_TESTS_SUPPORT_CALL_COUNTER_H_
#define GRADSTREAM_TESTS_SUPPORT_CALL_COUNTER_H_

#include <cstdint>

namespace gradstream {

// False under a sanitizer, which has replaced these functions itself: then nothing is counted.
bool counts_calls();
// Calls of operator new by this thread.
uint64_t allocation_count();
// Calls of epoll_ctl() by all threads.
uint64_t epoll_ctl_count();

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_CALL_COUNTER_H_
