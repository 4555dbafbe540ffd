#include "python/work.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "runtime/link/port.h"

// The C library's word for a process of one thread, by which std::shared_ptr counts without atomic operations. The code
// of programs, of which this library is linked, reaches it in a way that a shared library cannot: so here is one of its
// own, hidden, which says that there may be more threads.
extern "C" char __libc_single_threaded;  // NOLINT(bugprone-reserved-identifier)
char __libc_single_threaded = 0;         // NOLINT(bugprone-reserved-identifier)

namespace gradstream {
namespace {

std::recursive_mutex turn;
gs_py_log current_log = nullptr;
gs_py_fault* current_fault = nullptr;

void put_text(std::string_view text, gs_py_fault* fault) {
  (void)std::snprintf(fault->text, sizeof fault->text, "%.*s", static_cast<int>(text.size()), text.data());
}

}  // namespace

WorkTurn::WorkTurn(gs_py_log log, gs_py_fault* fault)
    : lock_(turn), log_before_(std::exchange(current_log, log)), fault_before_(std::exchange(current_fault, fault)) {
  if (fault != nullptr) {
    *fault = {};
  }
}

WorkTurn::~WorkTurn() {
  current_log = log_before_;
  current_fault = fault_before_;
}

int tell(gs_py_fault* fault, int code, const std::string& text) {
  fault->code = code;
  put_text(text, fault);
  return code;
}

int tell_no_memory(gs_py_fault* fault) {
  fault->code = kExitMemory;
  put_text("the process has no more memory: give it more, or fewer devices and samples, and open the device anew",
           fault);
  return kExitMemory;
}

// ---- What an image's board would be ----

void port_log_line(const char* text) {
  const std::string_view line = text;
  if (current_fault != nullptr && (line.starts_with("event=failed ") || line.starts_with("event=claim_"))) {
    put_text(line, current_fault);
  }
  if (current_log != nullptr) {
    current_log(text);
  }
}

void assert_failed(const char* file, int line) {
  (void)std::fprintf(stderr, "event=assert_failed file=%s line=%d\n", file, line);
  port_reboot();
}

}  // namespace gradstream
