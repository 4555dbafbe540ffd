// The shell around the client's state machine: joins Client, FrameReader, TlsSession and the board's port in one poll
// that never blocks.
//
//   application -> poll(now) -> Client: what to do -> link: down -> quiet -> opening -> handshake -> up
//
// A transport that cannot dial (UART through a chardev or ser2net) does not show that its peer is gone, and bytes of an
// old session may still come in. So before each handshake all input is discarded until the link has been quiet for
// kLinkQuietMs; a ClientHello that not a single byte answers within kLinkSilenceMs is taken as lost and the handshake
// begins again. The session itself stays open across rounds.
#ifndef GRADSTREAM_FIRMWARE_DEVICE_H_
#define GRADSTREAM_FIRMWARE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "firmware/key_change.h"
#include "runtime/base/own_frame.h"
#include "runtime/link/client.h"
#include "runtime/link/tls.h"
#include "runtime/link/transport.h"
#include "runtime/wire/frame.h"

namespace gradstream {

struct DeviceConfig {
  ClientConfig client;
  Transport transport;
  Identity identity;
  TlsKeyExchange key_exchange = TlsKeyExchange::kPskEphemeral;
#if !defined(GS_BARE_METAL)
  const Credentials* credentials = nullptr;  // in place of the identity's key; its name stays
  const char* server_name = nullptr;         // with credentials, see TlsSession::begin()
  KeyHolder* keys = nullptr;                 // in place of the identity's key, which may change; null: it never does
#endif
  uint32_t step_delay_ms = 0;  // added to every local step
};

struct DeviceCounters {
  uint32_t link_faults = 0;      // sessions that the link, TLS or the peer ended
  uint32_t handshakes = 0;       // begun
  uint32_t frame_deadlines = 0;  // a frame begun was not complete in time
  uint32_t bytes_sent = 0;       // on the transport, all sessions
  uint32_t bytes_received = 0;
};

// As gs_link of include/gradstream/device.h.
enum class DeviceLink : uint8_t { kDown, kQuiet, kOpening, kHandshake, kUp };

class DeviceShell {
 public:
  // tls_start() comes before. The arena is the client's alone and must outlive the device.
  DeviceShell(const DeviceConfig& config, Arena& arena);
  DeviceShell(const DeviceShell&) = delete;
  DeviceShell& operator=(const DeviceShell&) = delete;

  // Does what is due; at most one local step, and of a long one as much as kSliceMs allow (device.cc). Returns when to
  // poll again at the latest; 0: at once, since a local step is unfinished. A step that waits for a measurement has a
  // time, at most kMeasurePollMs later.
  uint64_t poll(uint64_t now_ms);

  // Makes the client's state durable at a time that is not the client's. Logs as a save does; where there is nothing to
  // save, nothing happens.
  void save_state();

  Client& client() { return client_; }
  const Client& client() const { return client_; }
  DeviceCounters counters() const;
  bool is_connected() const { return link_ == Link::kUp; }
  DeviceLink link() const { return link_; }
  const char* name() const { return config_.identity.name; }
  const char* server() const { return config_.transport.peer; }  // null: the transport names none
  // Words for the last fault of the link, "" for none.
  const char* last_fault_text() const { return fault_text_; }

 private:
  using Link = DeviceLink;

  void connect(uint64_t now_ms);
  void drop();
  GS_OWN_FRAME void lose(Status reason, const char* text, uint64_t now_ms);
  void begin_handshake(uint64_t now_ms);
  void drive(uint64_t now_ms);
  GS_OWN_FRAME void drive_quiet(uint64_t now_ms);
  void drive_opening(uint64_t now_ms);
  void drive_handshake(uint64_t now_ms);
  GS_OWN_FRAME void drive_up(uint64_t now_ms);
  bool push_frame(uint64_t now_ms);
#if !defined(GS_BARE_METAL)
  bool retry_by_other_key(uint64_t now_ms);
  bool push_key_frame(uint64_t now_ms);
#endif
  bool take_frames(std::span<const uint8_t> bytes, uint64_t now_ms);
  uint64_t link_wake_ms(uint64_t now_ms) const;
  uint64_t perform(const ClientAction& action, uint64_t now_ms);
  GS_OWN_FRAME Status save(const ClientAction& action);
  void fill_report();
  GS_OWN_FRAME void log_refusal(gs_Reason reason, uint32_t version) const;
  GS_OWN_FRAME void log_reason(ClientState state);
  GS_OWN_FRAME void log_incapacity() const;

  DeviceConfig config_;
  Client client_;
  TlsSession session_;
  FrameReader reader_;
  Link link_ = Link::kDown;
  const char* fault_text_ = "";
  std::span<const uint8_t> sending_;  // what of the client's frame the session has not taken
  uint64_t quiet_since_ms_ = 0;
  uint64_t handshake_since_ms_ = 0;  // begun, or last byte sent in it
  uint64_t frame_since_ms_ = 0;      // when the frame in progress began
  size_t discarded_size_ = 0;        // of the reader, when the session began
  uint64_t held_until_ms_ = 0;       // the delay of a local step runs
  uint16_t slice_size_ = 1;          // units of work of the next slice
  uint32_t reasons_logged_ = 0;
  uint32_t deadlines_logged_ = 0;
  bool is_incapacity_logged_ = false;
  bool is_storage_failed_ = false;
  uint32_t replays_logged_ = 0;
#if !defined(GS_BARE_METAL)
  std::span<const uint8_t> key_frame_;  // that the session has not taken
#endif
  DeviceCounters counters_;
};

}  // namespace gradstream

#endif  // GRADSTREAM_FIRMWARE_DEVICE_H_
