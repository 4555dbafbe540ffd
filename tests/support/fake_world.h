// A pipe, a TLS server and a scripted gradstream server behind it, in virtual time: everything that a Device meets.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_WORLD_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/fake_pipe.h"
#include "tests/support/fake_port.h"
#include "tests/support/fake_server.h"
#include "tests/support/fake_tls_server.h"

namespace gradstream {

struct FakeWorld {
  // A peer that is gone is back after so long, as a chardev reconnects.
  static constexpr uint64_t kReconnectMs = 1000;

  explicit FakeWorld(const FakeRun& run = {}) : tls(pipe, test_identity()), server(run) {
    fake_port() = {};
    fake_port().transport = pipe.transport();
  }

  // The server's side, and time: poll() of the device says when it wants to go on.
  void pass(uint64_t wake_ms) {
    uint64_t& now_ms = fake_port().now_ms;
    if (pipe.can_dial && pipe.closed != closed) {  // the peer sees it
      pipe.to_peer.clear();
      pipe.to_device.clear();
      reconnect();
    }
    closed = pipe.closed;
    if (pipe.dropped()) {
      back_ms = back_ms == 0 ? now_ms + kReconnectMs : back_ms;
      if (now_ms >= back_ms) {
        restart();
      }
    } else if (!silent) {
      serve();
    }
    // While bytes move or wait, hardly any time passes.
    const bool news = pipe.moved() != moved || (!pipe.to_device.empty() && !pipe.dropped());
    moved = pipe.moved();
    if (wake_ms > now_ms) {
      now_ms = std::min(wake_ms, now_ms + (news || pipe.blocks_often ? 1 : 100));
    }
  }

  void restart() {
    pipe.restart();
    pipe.drop_after = FakePipe::kNever;
    reconnect();
    back_ms = 0;
  }

  bool has_line(const std::string& text) const {
    return std::any_of(fake_port().lines.begin(), fake_port().lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }

  FakePipe pipe;
  FakeTlsServer tls;
  FakeServer server;
  bool silent = false;
  uint64_t back_ms = 0;
  uint32_t tls_faults = 0;
  uint32_t closed = 0;
  size_t moved = 0;

 private:
  void reconnect() {
    tls.restart();
    server.on_lost();
  }

  void serve() {
    tls.pump();
    if (tls.fault() != 0) {  // a server closes such a connection, and accepts the next
      ++tls_faults;
      pipe.to_peer.clear();
      reconnect();
      return;
    }
    server.on_bytes(tls.received);
    tls.received.clear();
    Bytes& output = server.output();
    while (!output.empty()) {
      const size_t size = kFramePrefixSize + output[2] + 256u * output[3];
      tls.send({output.begin(), output.begin() + static_cast<std::ptrdiff_t>(size)});
      output.erase(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(size));
    }
  }
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_WORLD_H_
