#include "server/base/descriptors.h"

#include <algorithm>

#include <dirent.h>
#include <sys/resource.h>

namespace gradstream {

uint32_t device_descriptors(uint64_t limit, uint64_t open, const DescriptorNeeds& needs) {
  constexpr uint64_t kLeast = 2;  // a session, and a connection that waits
  const uint64_t threads = needs.io_threads > 1 ? uint64_t{needs.io_threads} * kThreadDescriptors : 0;
  const uint64_t kept = open + kDescriptorReserve + threads;
  const uint64_t left = limit > kept ? limit - kept : 0;
  const uint64_t share = std::max<uint64_t>(left / kHttpShare, 1);
  const uint64_t http = std::min<uint64_t>(needs.http_connections, share);
  return static_cast<uint32_t>(std::clamp<uint64_t>(left > http ? left - http : 0, kLeast, UINT32_MAX));
}

uint64_t open_descriptors() {
  constexpr uint64_t kUnknown = 32;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) {
    return kUnknown;
  }
  uint64_t count = 0;
  for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    count += entry->d_name[0] == '.' ? 0 : 1;
  }
  closedir(folder);
  return count - 1;  // without the folder's own
}

uint64_t descriptor_limit() {
  rlimit files = {};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? uint64_t{files.rlim_cur} : 1024;
}

uint64_t raise_descriptor_limit(uint64_t wanted) {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < wanted && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
  }
  return descriptor_limit();
}

}  // namespace gradstream
