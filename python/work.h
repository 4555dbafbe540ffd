// What the functions of python/gradstream_python.h share: one of them works at a time, and what it logs goes to the
// device that it works for.
#ifndef GRADSTREAM_PYTHON_WORK_H_
#define GRADSTREAM_PYTHON_WORK_H_

#include <mutex>
#include <new>
#include <string>

#include "firmware/client_main.h"
#include "python/gradstream_python.h"

namespace gradstream {

// Of one function of the interface, for as long as it works. Mbed TLS has one random generator for the process, and
// the port one state file and one server; so all others wait. A loss may look at a device from inside of one.
// fault: gets the last line that says why the client ends or a claim is refused, as firmware/ logs it; null: nobody.
class WorkTurn {
 public:
  explicit WorkTurn(gs_py_log log, gs_py_fault* fault = nullptr);
  ~WorkTurn();
  WorkTurn(const WorkTurn&) = delete;
  WorkTurn& operator=(const WorkTurn&) = delete;

 private:
  std::scoped_lock<std::recursive_mutex> lock_;
  gs_py_log log_before_;
  gs_py_fault* fault_before_;
};

// Puts both into *fault, the text cut to its size. Returns code.
int tell(gs_py_fault* fault, int code, const std::string& text);
// The same of a process that has no more memory; it takes none itself.
int tell_no_memory(gs_py_fault* fault);

// What work() returns, or kExitMemory where memory has ended in it. An exception must not reach the caller in C, where
// it would end the process. What work() leaves behind then is the caller's to put away.
template <typename Work>
int with_memory(gs_py_fault* fault, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return tell_no_memory(fault);
  }
}

}  // namespace gradstream

#endif  // GRADSTREAM_PYTHON_WORK_H_
