// What another user of the machine may do: file permissions are those of the effective user.
#ifndef GRADSTREAM_TESTS_SUPPORT_AS_NOBODY_H_
#define GRADSTREAM_TESTS_SUPPORT_AS_NOBODY_H_

#include <unistd.h>

namespace gradstream {

// While it lives the test's thread is the user nobody. Root alone can become somebody else: a test that is_possible()
// says no to has nothing to look at.
class AsNobody {
 public:
  static bool is_possible() { return geteuid() == 0; }
  AsNobody() : has_changed_(seteuid(kNobody) == 0) {}
  ~AsNobody() {
    if (has_changed_ && seteuid(0) != 0) {
      _exit(1);  // the other tests would run as nobody
    }
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  const bool has_changed_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_AS_NOBODY_H_
