// How a program ends whose standard output could not be written.
#ifndef GRADSTREAM_HOST_OUTPUT_END_H_
#define GRADSTREAM_HOST_OUTPUT_END_H_

namespace gradstream {

// Exit codes of output that is lost, the same for every program that prints results.
inline constexpr int kExitOutputLost = 8;
inline constexpr int kExitOutputTemporary =
    10;  // the cause may mend by itself (host/file_cause.h), as a full disk does

// At the end of a program that would exit with `code`: writes what is left of standard output. Where output is lost
// and the code is 0, says why on standard error as `PROGRAM: error: ...`, and gives one of the codes above. Else the
// code. The program must have called open_standard_files() at its begin.
int finish_output(const char* program, int code);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_OUTPUT_END_H_
