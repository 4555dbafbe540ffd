// The descriptors 0, 1 and 2 of a process. Whoever starts it may have closed some of them.
#ifndef GRADSTREAM_HOST_STANDARD_FILES_H_
#define GRADSTREAM_HOST_STANDARD_FILES_H_

#include <string_view>

namespace gradstream {

// Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed, and leaves the others alone. Call it before the
// process opens anything. Reason: the next socket or database would get such a number, and log lines would go into it.
// Standard output is then one that takes nothing, so that flush_output() tells of results that nobody gets.
void open_standard_files();

// Writes the text to standard output, by way of stdio. What fails is kept for flush_output(). Not thread-safe.
void print_output(std::string_view text);
// The same of what printf() would write. One of the two is for all results: of a write by other means that fails, only
// that it failed is known later.
__attribute__((format(printf, 1, 2))) void print_format(const char* format, ...);
// Writes what is left. 0, or the cause (errno) of the first write since the start of the process that failed.
int flush_output();

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_STANDARD_FILES_H_
