// Status codes, Result<T> and the macros that pass them on. No text in the code path: a code names the class of the
// fault, the caller that has the context names the thing and the remedy.
#ifndef GRADSTREAM_RUNTIME_BASE_STATUS_H_
#define GRADSTREAM_RUNTIME_BASE_STATUS_H_

#include <cstdint>
#include <utility>

namespace gradstream {

enum class [[nodiscard]] Status : uint8_t{
    kOk = 0,
    kInvalidArgument = 1,   // a value that is wrong whatever the state: shape, bound, enum
    kOutOfMemory = 2,       // the arena or a fixed table is too small for what was asked
    kUnimplemented = 3,     // a known name that this image does not link
    kOutOfRange = 4,        // a number beyond what the encoding or the fold can hold
    kNotFinite = 5,         // NaN or infinity where it enters (loss, gradient, coefficients)
    kSingular = 6,          // no unique answer: rank deficient point, antipodal points
    kWouldBlock = 7,        // nothing to read or no room to write now; call again later
    kClosed = 8,            // the peer or the transport is gone
    kDeadlineExceeded = 9,  // a bounded wait ran out
    kDataCorrupt = 10,      // checksum, digest or format does not hold
    kProtocolError = 11,    // a well-formed message that this state does not allow
    kUnauthenticated = 12,  // identity unknown, revoked or not proven
    kUnfinished = 13,       // a part of the work is done and kept; the same call again goes on with it
};

// Static text of a code, e.g. "out of memory"; for console lines and logs.
const char* status_text(Status status);

// A value, or the Status that says why there is none. T must be default constructible and trivially destructible or
// cheap; value() on an error is a contract breach (GS_ASSERT).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)), status_(Status::kOk) {}  // NOLINT: implicit on purpose
  Result(Status status) : value_{}, status_(status) {}                 // NOLINT: implicit on purpose
  bool ok() const { return status_ == Status::kOk; }
  Status status() const { return status_; }
  T& value();
  const T& value() const { return const_cast<Result*>(this)->value(); }

 private:
  T value_;
  Status status_;
};

// Called when a caller breaks a contract; never returns. The platform defines it: a board logs one line and reboots, a
// host prints and aborts.
[[noreturn]] void assert_failed(const char* file, int line);

template <typename T>
T& Result<T>::value() {
  if (!ok()) {
    assert_failed(__FILE__, __LINE__);
  }
  return value_;
}

}  // namespace gradstream

// Contract of our own caller. Never used for what a message, a sensor or a disk can get wrong.
#define GS_ASSERT(condition) ((condition) ? static_cast<void>(0) : ::gradstream::assert_failed(__FILE__, __LINE__))

// Returns from the enclosing function with the expression's status unless it is kOk.
#define GS_TRY(expression)                                    \
  do {                                                        \
    const ::gradstream::Status gs_try_status_ = (expression); \
    if (gs_try_status_ != ::gradstream::Status::kOk) {        \
      return gs_try_status_;                                  \
    }                                                         \
  } while (false)

#endif  // GRADSTREAM_RUNTIME_BASE_STATUS_H_
