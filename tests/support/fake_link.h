// A device and a FakeServer joined by bytes in virtual time: the shell that a board or a process is around a Client,
// with faults at every byte and every action.
#ifndef GRADSTREAM_TESTS_SUPPORT_FAKE_LINK_H_
#define GRADSTREAM_TESTS_SUPPORT_FAKE_LINK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/link/client.h"
#include "tests/support/fake_server.h"

namespace gradstream {

// A device: its samples, its memory, what it stores, and the client that lives in them.
struct FakeDevice {
  explicit FakeDevice(uint32_t dimension = 8, size_t arena_size = 1 << 16)
      : samples(10, dimension, random_values(size_t{10} * dimension, 9)),
        problems{{&kKpcaOps, &samples.source}},
        memory(arena_size) {
    config.registry = registry_of(problems);
    config.firmware_version = "0.1.0-test";
    config.board = "a board of the workbench";  // its last letter is one too many
    config.jitter_seed = 17;
    config.has_storage = true;
    config.floors = no_floors();
    config.steps = {[](void* context, uint32_t index, uint8_t* out, size_t capacity) -> Result<size_t> {
                      const std::vector<Bytes>& kept = static_cast<FakeDevice*>(context)->steps;
                      if (index >= kept.size()) {
                        return size_t{0};
                      }
                      std::copy_n(kept[index].begin(), std::min(capacity, kept[index].size()), out);
                      return kept[index].size();
                    },
                    this};
  }
  FakeDevice(const FakeDevice&) = delete;  // config points into it
  FakeDevice& operator=(const FakeDevice&) = delete;

  // Power on: whatever was in RAM is noise now.
  void boot() {
    client.reset();
    std::fill(memory.buffer.begin(), memory.buffer.end(), 0xa5a5a5a5a5a5a5a5ULL);
    memory.arena.reset();
    client = std::make_unique<Client>(config, memory.arena);
    if (!storage.empty()) {
      restore_status = client->restore(storage);
    }
  }

  TestSamples samples;
  Problem problems[1];
  TestArena memory;
  ClientConfig config;
  std::unique_ptr<Client> client;
  Bytes storage;
  std::vector<Bytes> steps;
  Status restore_status = Status::kOk;
};

class FakeLink {
 public:
  FakeLink(FakeDevice& device, FakeServer& server) : device_(device), server_(server) { device_.boot(); }

  static constexpr uint64_t kNoFault = UINT64_MAX;
  // The connection drops once so many bytes of that direction have passed; once.
  uint64_t drop_after_up = kNoFault;
  uint64_t drop_after_down = kNoFault;
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
  uint32_t drops = 0;
  // Connections that fail before one succeeds.
  uint32_t refused_connections = 0;
  bool server_is_silent = false;    // takes bytes, answers nothing
  bool never_reports_sent = false;  // the peer reads nothing
  Status save_status = Status::kOk;
  uint64_t now_ms = 1000;
  uint64_t step_ms = 0;  // virtual duration of one local step
  std::vector<ClientActionKind> actions;
  std::vector<Bytes> saves;
  std::vector<uint64_t> connect_times;
  std::vector<std::string> transcript;  // every frame that passed whole: who sent it, and its bytes in hexadecimal

  Client& client() { return *device_.client; }
  FakeServer& server() { return server_; }
  bool is_connected() const { return is_connected_; }

  void restart() {
    lose();
    device_.boot();
  }
  // The connection breaks; both ends see it.
  void break_connection() {
    lose();
    client().on_connection_lost(Status::kClosed, now_ms);
  }

  // One action of the client, or the delivery of what the server has said.
  void step() {
    if (is_connected_ && !server_.output().empty() && !server_is_silent) {
      deliver_down();
      return;
    }
    const ClientAction action = client().poll(now_ms);
    actions.push_back(action.kind);
    switch (action.kind) {
      case ClientActionKind::kWait:
        pass_time(action.wake_ms);
        break;
      case ClientActionKind::kConnect:
        connect();
        break;
      case ClientActionKind::kSend:
        deliver_up(action.bytes);
        break;
      case ClientActionKind::kDisconnect:
        lose();
        break;
      case ClientActionKind::kSave:
        save(action.pieces);
        break;
      case ClientActionKind::kSaveStep:
        save_step(action);
        pass_time(0);
        break;
    }
  }

  // false: not reached within so many steps.
  bool run_until(const std::function<bool()>& is_done, uint32_t steps_max = 20000) {
    for (uint32_t i = 0; i < steps_max; ++i) {
      if (is_done()) {
        return true;
      }
      step();
    }
    return is_done();
  }
  bool run_to_end() {
    return run_until([this] { return client().run_finished(); });
  }
  // Until the server has this many uploads, and the device has read its answer to the last of them.
  bool run_past_upload(size_t count) {
    return run_until(
        [this, count] { return server_.uploads.size() == count && client().state() == ClientState::kIdle; });
  }
  bool run_to(ClientState state) {
    return run_until([this, state] { return client().state() == state; });
  }

 private:
  void pass_time(uint64_t wake_ms) {
    if (wake_ms == 0) {
      now_ms += client().state() == ClientState::kTrain ? step_ms : 0;
    } else if (wake_ms != UINT64_MAX) {
      now_ms = std::max(now_ms, wake_ms);
    } else {
      now_ms += 1000000;
    }
  }

  void connect() {
    connect_times.push_back(now_ms);
    if (refused_connections > 0) {
      --refused_connections;
      client().on_connection_lost(Status::kClosed, now_ms);
      return;
    }
    is_connected_ = true;
    server_.on_connected();
    client().on_connected(now_ms);
  }

  void lose() {
    is_connected_ = false;
    reader_.reset();
    server_.on_lost();
  }

  // How many of `size` bytes pass before the fault; counts them.
  static size_t pass(size_t size, uint64_t& passed, uint64_t& drop_after, bool& drops_now) {
    drops_now = passed + size >= drop_after;
    const size_t count = drops_now ? static_cast<size_t>(drop_after - passed) : size;
    passed += count;
    drop_after = drops_now ? kNoFault : drop_after;
    return count;
  }

  void deliver_up(std::span<const uint8_t> bytes) {
    bool drops_now = false;
    const size_t count = pass(bytes.size(), bytes_up, drop_after_up, drops_now);
    const Bytes copy(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(count));
    if (count == bytes.size()) {
      write_down("device ", bytes.subspan(kFramePrefixSize));
    }
    server_.on_bytes(copy);
    if (drops_now) {
      ++drops;
      break_connection();
    } else if (!never_reports_sent) {
      client().on_sent(now_ms);
    }
  }

  void deliver_down() {
    Bytes bytes;
    bytes.swap(server_.output());
    bool drops_now = false;
    const size_t count = pass(bytes.size(), bytes_down, drop_after_down, drops_now);
    std::span<const uint8_t> rest(bytes.data(), count);
    while (!rest.empty() && is_connected_) {
      rest = rest.subspan(reader_.feed(rest));
      if (reader_.discarded_size() > discarded_size_) {
        discarded_size_ = reader_.discarded_size();
        client().on_malformed(now_ms);
      }
      if (reader_.has_frame()) {
        write_down("server ", reader_.payload());
        client().on_frame(reader_.payload(), now_ms);
        reader_.pop();
      }
    }
    if (drops_now) {
      ++drops;
      break_connection();
    }
  }

  void write_down(const char* sender, std::span<const uint8_t> payload) {
    static constexpr char kDigits[] = "0123456789abcdef";
    uint8_t prefix[kFramePrefixSize];
    write_frame_prefix(payload.size(), prefix);
    std::string line = sender;
    for (const std::span<const uint8_t> part : {std::span<const uint8_t>(prefix), payload}) {
      for (const uint8_t byte : part) {
        line += kDigits[byte >> 4];
        line += kDigits[byte & 15];
      }
    }
    transcript.push_back(line);
  }

  void save(std::span<const StoragePiece> pieces) {
    Bytes state;
    for (const StoragePiece& piece : pieces) {
      state.insert(state.end(), piece.bytes, piece.bytes + piece.size);
    }
    if (save_status == Status::kOk) {
      device_.storage = state;
      device_.steps.clear();
      saves.push_back(state);
    }
    client().on_saved(save_status, now_ms);
  }

  void save_step(const ClientAction& action) {
    device_.steps.resize(action.step_index);
    Bytes& step = device_.steps.emplace_back();
    for (const StoragePiece& piece : action.pieces) {
      step.insert(step.end(), piece.bytes, piece.bytes + piece.size);
    }
  }

  FakeDevice& device_;
  FakeServer& server_;
  FrameReader reader_;
  size_t discarded_size_ = 0;
  bool is_connected_ = false;
};

}  // namespace gradstream

#endif  // GRADSTREAM_TESTS_SUPPORT_FAKE_LINK_H_
