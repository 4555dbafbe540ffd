// The link by Ethernet: one TCP connection of lwIP to the server of the network settings.
//
//   idle -> cable -> connecting -> open -> over -> (close) idle
//
// All of it runs in the main loop: the controller's interrupt only ends a sleep. What is received waits in a ring whose
// free room is TCP's window, so that a peer that sends more than is read is held back.
#include "boards/bare/link.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lwip/etharp.h>
#include <lwip/init.h>
#include <lwip/netif.h>
#include <lwip/pbuf.h>
#include <lwip/tcp.h>
#include <lwip/timeouts.h>
#include <netif/ethernet.h>

#include "boards/bare/machine.h"
#include "boards/bare/ring.h"
#include "boards/ethernet/lan9118.h"
#include "boards/ethernet/network_settings.h"
#include "runtime/base/config.h"
#include "runtime/link/port.h"

#include GS_BOARD_CONFIG  // the board's board_config.h, by bare.cmake

extern "C" {
extern const char __network_begin, __network_end;
}

namespace gradstream {
namespace {

// For a cable that leads somewhere. Reason: a negotiation of speed and duplex takes up to 3 s.
constexpr uint32_t kCableMs = 4000;
// For the server's SYN. Reason: three of ours, at 0, 1 and 3 s.
constexpr uint32_t kConnectMs = 5000;
static_assert(kCableMs + kConnectMs < kHandshakeDeadlineMs);
// Between two questions to the PHY; while there is no cable.
constexpr uint32_t kCablePollMs = 1000, kCableWaitPollMs = 200;
// Between two reports of frames that were lost.
constexpr uint32_t kReportMs = 10000;
// Frames taken at once; more have their turn after the client.
constexpr int kFrameCountMax = 16;

constexpr char kNoSettings[] =
    "no network settings, or address or server is missing, or no gateway leads to it: write the unit's network page";
constexpr char kNoChip[] = "the Ethernet controller does not answer: look at its wiring and supply";
constexpr char kNoReset[] = "the Ethernet controller's reset does not end: look at its clock and supply";
constexpr char kMacBusy[] = "the Ethernet controller's MAC does not answer; it is started anew";
constexpr char kPhySilent[] = "the Ethernet controller's PHY does not answer; it is started anew";
constexpr char kNoMac[] = "no MAC address in the EEPROM: add a line `mac = ...` to the unit's network page";
constexpr char kStuck[] = "the Ethernet controller sends nothing any more; it is started anew";
constexpr char kConfused[] = "the Ethernet controller lost count of its FIFOs; it is started anew";
constexpr char kUnplugged[] = "the network cable leads nowhere: is it plugged in, and is the other end on?";
constexpr char kNobody[] =
    "nobody in the network has the server's address, or the gateway's: is the network page right?";
constexpr char kRefused[] = "the server refuses the connection: is it running, and are address and port right?";
constexpr char kSilent[] = "the server does not answer any more";
constexpr char kNoMemory[] = "no memory for a connection";

const char* text_of(Lan9118Fault fault) {
  switch (fault) {
    case Lan9118Fault::kNoChip:
      return kNoChip;
    case Lan9118Fault::kNoReset:
      return kNoReset;
    case Lan9118Fault::kMacBusy:
      return kMacBusy;
    case Lan9118Fault::kPhySilent:
      return kPhySilent;
    case Lan9118Fault::kNoAddress:
      return kNoMac;
    case Lan9118Fault::kStuck:
      return kStuck;
    default:
      return kConfused;
  }
}

enum class State : uint8_t { kIdle, kCable, kConnecting, kOpen, kOver };

struct Losses {
  Lan9118Counters chip;
  uint32_t no_buffer = 0;
};

Lan9118 chip;
netif interface;
NetworkSettings settings;
bool has_settings = false;
bool is_lwip_started = false;
bool is_chip_started = false;
bool is_cable_in = false;
uint64_t cable_poll_ms = 0;
State state = State::kIdle;
Status over_status = Status::kClosed;
const char* why = nullptr;
uint64_t deadline_ms = 0;  // of kCable and kConnecting
tcp_pcb* connection = nullptr;
Ring<kNetworkRingSize> ring;
static_assert(TCP_WND <= kNetworkRingSize);
bool has_change = false;     // of the state, since the client was last woken
bool write_blocked = false;  // until something has been acknowledged
uint32_t no_buffer_count = 0;
Losses told;
uint64_t report_ms = 0;

void finish(Status status, const char* reason) {
  if (state == State::kIdle || state == State::kOver) {
    return;
  }
  state = State::kOver;
  over_status = status;
  why = reason;
  has_change = true;
}

// Ends the connection without a word to the server.
void abort_connection() {
  tcp_pcb* const aborted = connection;
  connection = nullptr;
  if (aborted != nullptr) {
    tcp_err(aborted, nullptr);
    tcp_abort(aborted);
  }
}

// ---- Called by lwIP ----

err_t on_connected(void*, tcp_pcb*, err_t) {
  state = State::kOpen;
  has_change = true;
  return ERR_OK;
}

err_t on_received(void*, tcp_pcb*, pbuf* bytes, err_t) {
  if (bytes == nullptr) {
    finish(Status::kClosed, nullptr);  // the server has closed its end
    return ERR_OK;
  }
  for (const pbuf* part = bytes; part != nullptr; part = part->next) {
    for (size_t i = 0; i < part->len; ++i) {
      GS_ASSERT(!ring.is_full());
      ring.push(static_cast<const uint8_t*>(part->payload)[i]);
    }
  }
  pbuf_free(bytes);
  return ERR_OK;
}

err_t on_sent(void*, tcp_pcb*, u16_t) {
  has_change = has_change || write_blocked;
  write_blocked = false;
  return ERR_OK;
}

// lwIP has freed the connection.
void on_error(void*, err_t error) {
  connection = nullptr;
  if (error != ERR_RST) {
    finish(Status::kClosed, kSilent);
  } else {
    finish(Status::kClosed, state == State::kConnecting ? kRefused : nullptr);  // the session may know why
  }
}

err_t send_frame(netif*, pbuf* frame) {
  if (!is_chip_started || frame->tot_len > kFrameOnWireSizeMax) {
    return ERR_IF;
  }
  if (!chip.send_begin(frame->tot_len)) {
    return ERR_MEM;  // TCP sends it again
  }
  for (const pbuf* part = frame; part != nullptr; part = part->next) {
    chip.send(static_cast<const uint8_t*>(part->payload), part->len);
  }
  chip.send_end();
  return ERR_OK;
}

err_t init_interface(netif* made) {
  made->name[0] = 'e';
  made->name[1] = 'n';
  made->output = etharp_output;
  made->linkoutput = send_frame;
  made->mtu = 1500;
  made->hwaddr_len = kMacAddressSize;
  made->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
  return ERR_OK;
}

// ---- The console ----

// One line, cut at its end if need be.
class Text {
 public:
  Text& add(const char* text) {
    for (; *text != '\0' && size_ < sizeof(line_) - 1; ++text) {
      line_[size_++] = *text;
    }
    return *this;
  }
  Text& add(uint32_t number) {
    char digits[11] = {};
    size_t at = sizeof(digits) - 1;
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    return add(digits + at);
  }
  Text& add_address(uint32_t address) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      add(address >> shift & 0xFF).add(shift > 0 ? "." : "");
    }
    return *this;
  }
  Text& add_mac(const uint8_t* mac) {
    for (size_t i = 0; i < kMacAddressSize; ++i) {
      const char digits[] = {i > 0 ? ':' : ' ', hex(mac[i] >> 4), hex(mac[i] & 15), '\0'};
      add(digits + (i > 0 ? 0 : 1));
    }
    return *this;
  }
  const char* c_str() const { return line_; }

 private:
  static char hex(int digit) { return static_cast<char>(digit < 10 ? '0' + digit : 'a' + digit - 10); }

  size_t size_ = 0;
  char line_[160] = {};
};

void report(const char* what, uint32_t count, uint32_t* told_count, const char* reason) {
  if (count != *told_count) {
    *told_count = count;
    port_log_line(Text()
                      .add("event=frames_lost cause=")
                      .add(what)
                      .add(" count=")
                      .add(count)
                      .add(" reason=\"")
                      .add(reason)
                      .add("; TCP sends again\"")
                      .c_str());
    report_ms = machine_now_ms() + kReportMs;
  }
}

void report_losses(uint64_t now_ms) {
  if (now_ms < report_ms) {
    return;
  }
  const Lan9118Counters& now = chip.counters();
  report("receive_overrun", now.receive_overruns, &told.chip.receive_overruns, "frames came faster than were read");
  report("receive_error", now.receive_errors, &told.chip.receive_errors, "damaged frames: look at the cable");
  report("transmit_full", now.transmit_full, &told.chip.transmit_full, "the controller's FIFO is full");
  report("transmit_error", now.transmit_errors, &told.chip.transmit_errors, "no carrier, or collisions");
  report("no_buffer", no_buffer_count, &told.no_buffer, "the board's buffers are in use");
}

// ---- Start ----

void load_settings() {
  uint32_t line = 0;
  has_settings = parse_network_settings({&__network_begin, &__network_end}, &settings, &line) == Status::kOk;
  if (!has_settings && line != 0) {
    port_log_line(Text().add("event=failed reason=\"the network page does not parse\" line=").add(line).c_str());
  }
}

ip4_addr_t ip_of(uint32_t address) { return {lwip_htonl(address)}; }

void start_lwip() {
  lwip_init();
  const ip4_addr_t address = ip_of(settings.address), mask = ip_of(settings.mask()), gateway = ip_of(settings.gateway);
  (void)netif_add(&interface, &address, &mask, &gateway, nullptr, init_interface, ethernet_input);
  netif_set_default(&interface);
  netif_set_up(&interface);
  is_lwip_started = true;
}

// The chip is started anew by the next open().
void lose_chip() {
  is_chip_started = false;
  is_cable_in = false;
  netif_set_link_down(&interface);
  abort_connection();
  finish(Status::kClosed, text_of(chip.fault()));
}

// false: why says why.
bool prepare() {
  if (!has_settings) {
    why = kNoSettings;
    return false;
  }
  if (!is_lwip_started) {
    start_lwip();
  }
  if (!is_chip_started) {
    is_chip_started = chip.start(settings.has_mac ? settings.mac : nullptr);
    if (!is_chip_started) {
      why = text_of(chip.fault());
      return false;
    }
    std::memcpy(interface.hwaddr, chip.mac_address(), kMacAddressSize);
    cable_poll_ms = 0;
  }
  return true;
}

void connect(uint64_t now_ms) {
  state = State::kConnecting;
  deadline_ms = now_ms + kConnectMs;
  connection = tcp_new();
  if (connection == nullptr) {
    finish(Status::kClosed, kNoMemory);
    return;
  }
  tcp_nagle_disable(connection);  // a session hands over whole flights
  tcp_recv(connection, on_received);
  tcp_sent(connection, on_sent);
  tcp_err(connection, on_error);
  const ip4_addr_t server = ip_of(settings.server);
  if (tcp_connect(connection, &server, settings.port, on_connected) != ERR_OK) {
    abort_connection();
    finish(Status::kClosed, kNoMemory);
  }
}

// ---- What has become due ----

void serve_cable(uint64_t now_ms) {
  if (now_ms < cable_poll_ms) {
    return;
  }
  bool is_up = false;
  if (!chip.update_link(&is_up)) {
    lose_chip();
    return;
  }
  cable_poll_ms = now_ms + (is_up ? kCablePollMs : kCableWaitPollMs);
  if (is_up == is_cable_in) {
    return;
  }
  is_cable_in = is_up;
  if (is_up) {
    Text line;
    line.add("event=ethernet cable=in address=").add_address(settings.address);
    port_log_line(line.add(" mac=").add_mac(chip.mac_address()).c_str());
    netif_set_link_up(&interface);
    has_change = true;
  } else {
    port_log_line("event=ethernet cable=out");
    netif_set_link_down(&interface);
    abort_connection();
    finish(Status::kClosed, kUnplugged);
  }
}

bool receive_frame() {
  const size_t size = chip.receive_begin();
  if (size == 0) {
    return false;
  }
  pbuf* const frame = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(size), PBUF_POOL);
  for (pbuf* part = frame; part != nullptr; part = part->next) {
    chip.receive(static_cast<uint8_t*>(part->payload), part->len);
  }
  chip.receive_end();
  if (frame == nullptr) {
    ++no_buffer_count;
  } else if (interface.input(frame, &interface) != ERR_OK) {
    pbuf_free(frame);
  }
  return true;
}

void serve_deadline(uint64_t now_ms) {
  if (now_ms < deadline_ms) {
    return;
  }
  if (state == State::kCable) {
    finish(Status::kClosed, kUnplugged);
  } else if (state == State::kConnecting) {
    eth_addr* hardware = nullptr;
    const ip4_addr_t* found = nullptr;
    const ip4_addr_t hop = ip_of(settings.next_hop());
    const bool is_there = etharp_find_addr(&interface, &hop, &hardware, &found) >= 0;
    abort_connection();
    finish(Status::kDeadlineExceeded, is_there ? nullptr : kNobody);
  }
}

void serve(uint64_t now_ms) {
  if (!is_chip_started) {
    return;
  }
  if (!chip.poll()) {
    lose_chip();
    return;
  }
  serve_cable(now_ms);
  for (int i = 0; i < kFrameCountMax && is_chip_started && receive_frame(); ++i) {
  }
  sys_check_timeouts();
  serve_deadline(now_ms);
  report_losses(now_ms);
}

// ---- The transport ----

Status link_open(void*) {
  const uint64_t now_ms = machine_now_ms();
  if (state == State::kIdle) {
    why = nullptr;
    if (!prepare()) {
      return Status::kClosed;
    }
    state = State::kCable;
    deadline_ms = now_ms + kCableMs;
  }
  serve(now_ms);
  if (state == State::kCable && is_cable_in) {
    connect(now_ms);
  }
  if (state == State::kOver) {
    return over_status;
  }
  return state == State::kOpen ? Status::kOk : Status::kWouldBlock;
}

Result<size_t> link_read(void*, uint8_t* out, size_t size) {
  if (ring.is_empty()) {
    serve(machine_now_ms());
  }
  size_t count = 0;
  while (count < size && !ring.is_empty()) {
    out[count++] = ring.pop();
  }
  if (count == 0) {
    return state == State::kOpen ? Status::kWouldBlock : Status::kClosed;
  }
  if (connection != nullptr) {
    tcp_recved(connection, static_cast<u16_t>(count));
  }
  return count;
}

Result<size_t> link_write(void*, const uint8_t* bytes, size_t size) {
  if (state != State::kOpen || connection == nullptr) {
    return Status::kClosed;
  }
  size_t count = std::min<size_t>(size, tcp_sndbuf(connection));
  while (count > 0 && tcp_write(connection, bytes, static_cast<u16_t>(count), TCP_WRITE_FLAG_COPY) != ERR_OK) {
    count /= 2;  // no memory for so many
  }
  write_blocked = count < size;
  (void)tcp_output(connection);  // what it cannot send now, its timer does
  return count == 0 ? Result<size_t>(Status::kWouldBlock) : Result<size_t>(count);
}

// What is still to be sent, such as a close_notify, leaves; what came in belongs to a session that is over.
void link_close(void*) {
  tcp_pcb* const closed = connection;
  connection = nullptr;
  if (closed != nullptr) {
    tcp_recv(closed, nullptr);
    tcp_sent(closed, nullptr);
    tcp_err(closed, nullptr);
    tcp_setprio(closed, TCP_PRIO_MIN);  // the next connection may take its place
    if (tcp_close(closed) != ERR_OK) {
      tcp_abort(closed);
    }
  }
  ring.forget();
  write_blocked = false;
  state = State::kIdle;
}

constexpr TransportOps kLinkOps = {link_open, link_read, link_write, link_close, true};

}  // namespace

uint32_t link_serve() {
  const uint64_t now_ms = machine_now_ms();
  serve(now_ms);
  if (!is_chip_started) {
    return kSleepMaxMs;
  }
  uint64_t next_ms = std::min(now_ms + sys_timeouts_sleeptime(), cable_poll_ms);
  if (state == State::kCable || state == State::kConnecting) {
    next_ms = std::min(next_ms, deadline_ms);
  }
  return static_cast<uint32_t>(std::clamp<uint64_t>(next_ms - std::min(next_ms, now_ms), 1, kSleepMaxMs));
}

bool link_has_news() {
  const bool changed = has_change;
  has_change = false;
  if (changed || !ring.is_empty() || !is_chip_started) {
    return changed || !ring.is_empty();
  }
  chip.want_interrupt();
  return chip.has_frame();
}

Transport port_transport() {
  load_settings();
  return {&kLinkOps, nullptr, has_settings ? settings.server_text : nullptr, &why};
}

}  // namespace gradstream

extern "C" {

u32_t sys_now() { return static_cast<u32_t>(gradstream::machine_now_ms()); }

// Without random numbers there is no TLS, and so nobody to connect to.
uint32_t gradstream_lwip_random() {
  uint8_t bytes[4] = {};
  (void)(gradstream::port_random_bytes(bytes, sizeof(bytes)) == gradstream::Status::kOk);
  return static_cast<uint32_t>(bytes[0] | bytes[1] << 8 | bytes[2] << 16) | static_cast<uint32_t>(bytes[3]) << 24;
}

void gradstream_lwip_assert_failed(const char* file, int line) { gradstream::assert_failed(file, line); }
}
