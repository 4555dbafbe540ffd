// Asio as the server uses it: stand-alone, error codes only. The one place that knows which Asio is installed.
#ifndef GRADSTREAM_SERVER_BASE_ASIO_ALIAS_H_
#define GRADSTREAM_SERVER_BASE_ASIO_ALIAS_H_

#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>

namespace gradstream {

using Tcp = asio::ip::tcp;
using ErrorCode = asio::error_code;
using SteadyTimer = asio::steady_timer;

}  // namespace gradstream

#endif  // GRADSTREAM_SERVER_BASE_ASIO_ALIAS_H_
