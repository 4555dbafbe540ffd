// What stands in a file that somebody wrote, as a message may show it.
#ifndef GRADSTREAM_HOST_SHOWN_H_
#define GRADSTREAM_HOST_SHOWN_H_

#include <string>
#include <string_view>

namespace gradstream {

// At most 40 bytes, in backquotes; a byte that is not printable ASCII as \xNN.
std::string shown(std::string_view text);

}  // namespace gradstream

#endif  // GRADSTREAM_HOST_SHOWN_H_
