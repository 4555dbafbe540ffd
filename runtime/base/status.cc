#include "runtime/base/no_contraction.h"

#include "runtime/base/status.h"

namespace gradstream {

const char* status_text(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kInvalidArgument:
      return "invalid argument";
    case Status::kOutOfMemory:
      return "out of memory";
    case Status::kUnimplemented:
      return "unimplemented";
    case Status::kOutOfRange:
      return "out of range";
    case Status::kNotFinite:
      return "not finite";
    case Status::kSingular:
      return "singular";
    case Status::kWouldBlock:
      return "would block";
    case Status::kClosed:
      return "closed";
    case Status::kDeadlineExceeded:
      return "deadline exceeded";
    case Status::kDataCorrupt:
      return "data corrupt";
    case Status::kProtocolError:
      return "protocol error";
    case Status::kUnauthenticated:
      return "unauthenticated";
    case Status::kUnfinished:
      return "unfinished";
  }
  return "unknown status";
}

}  // namespace gradstream
