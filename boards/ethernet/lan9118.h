// Driver of SMSC's LAN9118 family of Ethernet controllers, such as the LAN9220 of Arm's MPS2 boards. Registers have the
// names of the data sheet. Polled: the one interrupt, a frame has come, only ends a sleep.
//
//   start() -> update_link() every second -> receive_begin() receive()... receive_end(); send_begin() send()...
//   send_end()
//
// No wait is longer than the constants below say, and each that runs out has a fault of its own. Not for interrupts.
#ifndef GRADSTREAM_BOARDS_ETHERNET_LAN9118_H_
#define GRADSTREAM_BOARDS_ETHERNET_LAN9118_H_

#include <cstddef>
#include <cstdint>

namespace gradstream {

// Supplied by the board: a register at an offset from the chip's base, 32 bits wide.
uint32_t lan9118_get(uint32_t offset);
void lan9118_put(uint32_t offset, uint32_t value);
// And its interrupt: enabled until it has come once. The processor's, since the chip's line is active before start().
void lan9118_enable_interrupt();

// The chip's reset, with its address read from the EEPROM. Reason: 10 times what the data sheet gives.
inline constexpr uint32_t kLan9118ResetMs = 100;
// A register of the MAC, or of the PHY by way of it. Reason: 32 us at the 2.5 MHz of the PHY's bus, and rounding.
inline constexpr uint32_t kLan9118RegisterMs = 2;
// The PHY's reset. Reason: IEEE 802.3, 22.2.4.1.1.
inline constexpr uint32_t kLan9118PhyResetMs = 500;
// A transmit FIFO without room for so long is stuck. Reason: it empties in 4 ms at 10 Mbit/s.
inline constexpr uint32_t kLan9118TransmitMs = 500;

inline constexpr size_t kMacAddressSize = 6;
// A frame on the wire, without its CRC. Reason: no VLAN tag, no jumbo frames.
inline constexpr size_t kFrameOnWireSizeMin = 14, kFrameOnWireSizeMax = 1514;

enum class Lan9118Fault : uint8_t {
  kNone,
  kNoChip,     // BYTE_TEST does not read as it should: wiring, bus timing
  kNoReset,    // the reset does not end
  kMacBusy,    // a register of the MAC cannot be reached
  kPhySilent,  // the PHY does not answer, or its reset does not end
  kNoAddress,  // neither the EEPROM nor the caller has a MAC address
  kStuck,      // the transmit FIFO does not empty
  kConfused,   // the chip says that the driver and its FIFOs disagree
};

struct Lan9118Counters {
  uint32_t sent = 0;              // frames
  uint32_t received = 0;          // good frames
  uint32_t transmit_full = 0;     // frames refused: no room in the FIFO
  uint32_t transmit_errors = 0;   // carrier, collisions, deferral
  uint32_t receive_errors = 0;    // CRC, length, runts, ...: passed over
  uint32_t receive_overruns = 0;  // frames that the chip dropped: its FIFO was full
};

class Lan9118 {
 public:
  // Resets chip and PHY and begins to negotiate with the other end of the cable, which takes seconds. mac:
  // kMacAddressSize bytes; null: what the EEPROM gave. false: fault() says why; start again later.
  bool start(const uint8_t* mac);
  // Asks the PHY whether the cable leads somewhere and adopts the duplex that was agreed. false: fault().
  bool update_link(bool* is_up);
  // Takes in what the chip has to tell. false: it needs a start(), fault() says why.
  bool poll();

  // Size of the next good frame, 0: there is none. Bad ones before it are passed over and counted.
  size_t receive_begin();
  // The frame's next bytes; together not more than its size. receive_end() passes over the others.
  void receive(uint8_t* out, size_t size);
  void receive_end();
  bool has_frame() const;

  // A frame of so many bytes, kFrameOnWireSizeMin .. Max, follows at once. false: no room, nothing may follow.
  bool send_begin(size_t size);
  void send(const uint8_t* bytes, size_t size);
  void send_end();

  // The next frame raises the interrupt, once.
  void want_interrupt();

  const uint8_t* mac_address() const { return mac_; }
  Lan9118Fault fault() const { return fault_; }
  const Lan9118Counters& counters() const { return counters_; }

 private:
  bool fail(Lan9118Fault fault);
  bool reset();
  bool reset_phy();
  bool set_address(const uint8_t* mac);
  bool mac_read(uint32_t index, uint32_t* value);
  bool mac_write(uint32_t index, uint32_t value);
  bool phy_command(uint32_t command);
  bool phy_read(uint32_t index, uint32_t* value);
  bool phy_write(uint32_t index, uint32_t value);

  uint8_t mac_[kMacAddressSize] = {};
  Lan9118Fault fault_ = Lan9118Fault::kNone;
  Lan9118Counters counters_;
  uint32_t mac_control_ = 0;
  bool is_full_ = false;  // a frame was refused, and none has left since
  uint64_t full_since_ms_ = 0;
  size_t words_left_ = 0;  // of the frame that is being received
  uint32_t word_ = 0;      // bytes between FIFO and caller, the next one lowest
  uint32_t word_size_ = 0;
};

}  // namespace gradstream

#endif  // GRADSTREAM_BOARDS_ETHERNET_LAN9118_H_
