// assert_failed() of tests: prints where, then aborts, so that a death test sees the place.
#include <cstdio>
#include <cstdlib>

#include "runtime/base/status.h"

namespace gradstream {

void assert_failed(const char* file, int line) {
  std::fprintf(stderr, "%s:%d: assertion failed\n", file, line);
  std::abort();
}

}  // namespace gradstream
