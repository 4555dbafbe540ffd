// GS_OWN_FRAME, for a function whose variables take hundreds of bytes of the stack.
//
// An image is optimised as a whole. As a part of its caller such a function would leave its variables below all that
// the caller calls afterwards: a line of the log below a handshake. So it stays a function of its own, and its bytes
// are free again when it returns. ./run footprint measures what all of it comes to.
#ifndef GRADSTREAM_RUNTIME_BASE_OWN_FRAME_H_
#define GRADSTREAM_RUNTIME_BASE_OWN_FRAME_H_

#define GS_OWN_FRAME [[gnu::noinline]]

#endif  // GRADSTREAM_RUNTIME_BASE_OWN_FRAME_H_
