#include "tests/support/call_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GS_COUNTS_CALLS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GS_COUNTS_CALLS 0
#endif
#endif
#if !defined(GS_COUNTS_CALLS)
#define GS_COUNTS_CALLS 1
#endif

namespace {

thread_local uint64_t allocations = 0;
std::atomic<uint64_t> epoll_ctls = 0;

}  // namespace

namespace gradstream {

bool counts_calls() { return GS_COUNTS_CALLS != 0; }
uint64_t allocation_count() { return allocations; }
uint64_t epoll_ctl_count() { return epoll_ctls; }

}  // namespace gradstream

#if GS_COUNTS_CALLS

void* operator new(size_t size) {
  ++allocations;
  if (void* const block = std::malloc(size); block != nullptr) {
    return block;
  }
  std::abort();
}

void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }

extern "C" int epoll_ctl(int poll, int operation, int descriptor, struct epoll_event* event) noexcept {
  ++epoll_ctls;
  return static_cast<int>(syscall(SYS_epoll_ctl, poll, operation, descriptor, event));
}

#endif
