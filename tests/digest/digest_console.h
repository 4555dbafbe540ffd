// Where digest_main.cc writes: a stream on a host, semihosting on an emulated board.
#ifndef GRADSTREAM_TESTS_DIGEST_DIGEST_CONSOLE_H_
#define GRADSTREAM_TESTS_DIGEST_DIGEST_CONSOLE_H_

namespace gradstream {

void console_write(const char* text);

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_DIGEST_DIGEST_CONSOLE_H_
