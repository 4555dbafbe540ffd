#include "firmware/fail_posix.h"

#include "firmware/client_main.h"
#include "firmware/name_posix.h"
#include "host/file_cause.h"
#include "runtime/link/port.h"

namespace gradstream {

int fail(int code, const std::string& reason) {
  port_log_line(failed_line(reason).c_str());
  return code;
}

int fail_path(int code, int cause, const std::string& path, const std::string& what, const std::string& remedy) {
  const bool is_lasting = !is_temporary_at(cause, path.c_str());
  return fail(is_lasting ? code : int{kExitTemporary},
              "cannot " + what + " " + path + ": " + cause_text(cause) + "; " + remedy_text(cause, remedy.c_str()));
}

}  // namespace gradstream
