// The descriptors 0, 1 and 2 of a process. Whoever starts it may have closed some of them.
#ifndef GRADSTREAM_HOST_STANDARD_FILES_H_
#define GRADSTREAM_HOST_STANDARD_FILES_H_

namespace gradstream {

// Opens /dev/null on each of the descriptors 0, 1 and 2 that is closed, and leaves the others alone. Call it before the
// process opens anything. Reason: the next socket or database would get such a number, and log lines would go into it.
void open_standard_files();

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_STANDARD_FILES_H_
