#include "boards/ethernet/lan9118.h"

#include "runtime/base/status.h"
#include "runtime/link/port.h"

namespace gradstream {
namespace {

// ---- The chip's registers (data sheet, chapter 5.3) ----

enum Register : uint32_t {
  kRxDataFifo = 0x00,
  kTxDataFifo = 0x20,
  kRxStatusFifo = 0x40,
  kTxStatusFifo = 0x48,
  kIrqCfg = 0x54,
  kIntSts = 0x58,
  kIntEn = 0x5C,
  kByteTest = 0x64,
  kFifoInt = 0x68,
  kRxCfg = 0x6C,
  kTxCfg = 0x70,
  kHwCfg = 0x74,
  kRxFifoInf = 0x7C,
  kTxFifoInf = 0x80,
  kPmtCtrl = 0x84,
  kGpioCfg = 0x88,
  kRxDrop = 0xA0,
  kMacCsrCmd = 0xA4,
  kMacCsrData = 0xA8,
  kE2pCmd = 0xB0,
};

constexpr uint32_t kByteTestValue = 0x87654321;
constexpr uint32_t kPmtReady = 1;
constexpr uint32_t kHwSoftReset = 1, kHwStoreAndForward = 1 << 20, kHwTransmitFifo5K = 5 << 16;
constexpr uint32_t kE2pBusy = 1U << 31;
constexpr uint32_t kGpioLeds = 7U << 28;
// IRQ_CFG: a push-pull output, active high, and 10 us times 0x22 between two interrupts.
constexpr uint32_t kIrqOutput = 0x22U << 24 | 1 << 8 | 1 << 4 | 1;
constexpr uint32_t kIntReceiveStatus = 1 << 3;                  // RSFL
constexpr uint32_t kIntConfused = 1 << 14 | 1 << 13 | 1 << 10;  // RXE, TXE, TDFO
constexpr uint32_t kTxOn = 1 << 1;
constexpr uint32_t kCsrBusy = 1U << 31, kCsrRead = 1U << 30;
constexpr uint32_t kRxError = 1 << 15, kRxFiltered = 1 << 30;  // of a word of the RX status FIFO
constexpr uint32_t kTxError = 1 << 15;                         // of a word of the TX status FIFO
constexpr uint32_t kTxFirst = 1 << 13, kTxLast = 1 << 12;      // of TX command A

// ---- The registers of the MAC (5.4) and of the PHY (5.5) ----

constexpr uint32_t kMacCr = 1, kMacAddrH = 2, kMacAddrL = 3, kMacMiiAcc = 6, kMacMiiData = 7;
constexpr uint32_t kMacTransmit = 1 << 3, kMacReceive = 1 << 2, kMacFullDuplex = 1 << 20;
constexpr uint32_t kMiiPhy = 1 << 11, kMiiWrite = 1 << 1, kMiiBusy = 1;  // the internal PHY's address is 1
constexpr uint32_t kPhyControl = 0, kPhyStatus = 1, kPhyId1 = 2, kPhyAdvertise = 4, kPhyPartner = 5;
constexpr uint32_t kPhyReset = 1 << 15, kPhyNegotiate = 1 << 12 | 1 << 9;
constexpr uint32_t kPhyLinkUp = 1 << 2;
constexpr uint32_t kPhyAll = 0x01E1;  // 10 and 100 Mbit/s, half and full duplex
constexpr uint32_t k100Full = 1 << 8, k100Half = 1 << 7, k10Full = 1 << 6;

constexpr size_t kCrcSize = 4;
// Of a frame's two commands in the TX data FIFO, and a word of distance to its end.
constexpr size_t kCommandsSize = 12;

// Until (the register & mask) == value; false: not within so long.
bool wait_for(Register at, uint32_t mask, uint32_t value, uint32_t limit_ms) {
  const uint64_t begin_ms = port_now_ms();
  for (;;) {
    const bool is_late = port_now_ms() - begin_ms > limit_ms;  // asked first: the answer may have come meanwhile
    if ((lan9118_get(at) & mask) == value) {
      return true;
    }
    if (is_late) {
      return false;
    }
  }
}

// The data sheet wants up to 135 ns between a FIFO's data port and its counters: three reads of BYTE_TEST (6.1).
void settle() {
  for (int i = 0; i < 3; ++i) {
    (void)lan9118_get(kByteTest);
  }
}

}  // namespace

bool Lan9118::fail(Lan9118Fault fault) {
  fault_ = fault;
  return false;
}

bool Lan9118::start(const uint8_t* mac) {
  fault_ = Lan9118Fault::kNone;
  is_full_ = false;
  words_left_ = 0;
  if (!reset() || !reset_phy() || !set_address(mac)) {
    return false;
  }
  mac_control_ = kMacTransmit | kMacReceive;  // our address and broadcasts, no filter of multicasts
  if (!mac_write(kMacCr, mac_control_)) {
    return false;
  }
  lan9118_put(kTxCfg, kTxOn);
  return true;
}

bool Lan9118::reset() {
  lan9118_put(kByteTest, 0);  // wakes a chip that sleeps
  if (lan9118_get(kByteTest) != kByteTestValue) {
    return fail(Lan9118Fault::kNoChip);
  }
  if (!wait_for(kPmtCtrl, kPmtReady, kPmtReady, kLan9118ResetMs)) {
    return fail(Lan9118Fault::kNoReset);
  }
  lan9118_put(kHwCfg, kHwSoftReset);
  if (!wait_for(kHwCfg, kHwSoftReset, 0, kLan9118ResetMs) ||
      !wait_for(kPmtCtrl, kPmtReady, kPmtReady, kLan9118ResetMs) || !wait_for(kE2pCmd, kE2pBusy, 0, kLan9118ResetMs)) {
    return fail(Lan9118Fault::kNoReset);
  }
  lan9118_put(kHwCfg, kHwStoreAndForward | kHwTransmitFifo5K);
  lan9118_put(kGpioCfg, kGpioLeds);
  lan9118_put(kIntSts, 0xFFFFFFFF);
  lan9118_put(kIrqCfg, kIrqOutput);
  lan9118_put(kIntEn, kIntReceiveStatus);
  lan9118_put(kFifoInt, 0);  // RSFL with the first frame
  lan9118_put(kRxCfg, 0);    // no offset: the frame begins with the first byte of the first word
  return true;
}

bool Lan9118::reset_phy() {
  uint32_t value = 0;
  if (!phy_read(kPhyId1, &value)) {
    return false;
  }
  if (value == 0 || value == 0xFFFF || !phy_write(kPhyControl, kPhyReset)) {
    return fail(Lan9118Fault::kPhySilent);
  }
  const uint64_t begin_ms = port_now_ms();
  do {
    if (port_now_ms() - begin_ms > kLan9118PhyResetMs || !phy_read(kPhyControl, &value)) {
      return fail(Lan9118Fault::kPhySilent);
    }
  } while ((value & kPhyReset) != 0);
  return phy_write(kPhyAdvertise, kPhyAll) && phy_write(kPhyControl, kPhyNegotiate);
}

bool Lan9118::set_address(const uint8_t* mac) {
  uint32_t low = 0, high = 0;
  if (mac != nullptr) {
    low = static_cast<uint32_t>(mac[0] | mac[1] << 8 | mac[2] << 16) | static_cast<uint32_t>(mac[3]) << 24;
    high = static_cast<uint32_t>(mac[4] | mac[5] << 8);
    if (!mac_write(kMacAddrH, high) || !mac_write(kMacAddrL, low)) {
      return false;
    }
  } else if (!mac_read(kMacAddrH, &high) || !mac_read(kMacAddrL, &low)) {
    return false;
  }
  for (size_t i = 0; i < kMacAddressSize; ++i) {
    mac_[i] = static_cast<uint8_t>(i < 4 ? low >> 8 * i : high >> 8 * (i - 4));
  }
  // An empty EEPROM leaves ones; a group's address is nobody's.
  const bool is_one = (low | high) != 0 && (mac_[0] & 1) == 0;
  return is_one || fail(Lan9118Fault::kNoAddress);
}

bool Lan9118::mac_read(uint32_t index, uint32_t* value) {
  if (!wait_for(kMacCsrCmd, kCsrBusy, 0, kLan9118RegisterMs)) {
    return fail(Lan9118Fault::kMacBusy);
  }
  lan9118_put(kMacCsrCmd, kCsrBusy | kCsrRead | index);
  settle();
  if (!wait_for(kMacCsrCmd, kCsrBusy, 0, kLan9118RegisterMs)) {
    return fail(Lan9118Fault::kMacBusy);
  }
  *value = lan9118_get(kMacCsrData);
  return true;
}

bool Lan9118::mac_write(uint32_t index, uint32_t value) {
  if (!wait_for(kMacCsrCmd, kCsrBusy, 0, kLan9118RegisterMs)) {
    return fail(Lan9118Fault::kMacBusy);
  }
  lan9118_put(kMacCsrData, value);
  lan9118_put(kMacCsrCmd, kCsrBusy | index);
  settle();
  return wait_for(kMacCsrCmd, kCsrBusy, 0, kLan9118RegisterMs) || fail(Lan9118Fault::kMacBusy);
}

bool Lan9118::phy_command(uint32_t command) {
  if (!mac_write(kMacMiiAcc, kMiiPhy | command | kMiiBusy)) {
    return false;
  }
  const uint64_t begin_ms = port_now_ms();
  uint32_t busy = 0;
  do {
    if (port_now_ms() - begin_ms > kLan9118RegisterMs) {
      return fail(Lan9118Fault::kPhySilent);
    }
    if (!mac_read(kMacMiiAcc, &busy)) {
      return false;
    }
  } while ((busy & kMiiBusy) != 0);
  return true;
}

bool Lan9118::phy_read(uint32_t index, uint32_t* value) {
  return phy_command(index << 6) && mac_read(kMacMiiData, value);
}

bool Lan9118::phy_write(uint32_t index, uint32_t value) {
  return mac_write(kMacMiiData, value) && phy_command(index << 6 | kMiiWrite);
}

bool Lan9118::update_link(bool* is_up) {
  uint32_t status = 0, partner = 0;
  // The bit keeps a loss until it is read, so that the second read is how it stands now.
  if (!phy_read(kPhyStatus, &status) || !phy_read(kPhyStatus, &status)) {
    return false;
  }
  *is_up = (status & kPhyLinkUp) != 0;
  if (!*is_up) {
    return true;
  }
  if (!phy_read(kPhyPartner, &partner)) {
    return false;
  }
  const bool is_full = (partner & k100Full) != 0 || ((partner & k100Half) == 0 && (partner & k10Full) != 0);
  const uint32_t control = (mac_control_ & ~kMacFullDuplex) | (is_full ? kMacFullDuplex : 0);
  if (control != mac_control_ && !mac_write(kMacCr, control)) {
    return false;
  }
  mac_control_ = control;
  return true;
}

bool Lan9118::poll() {
  for (uint32_t count = lan9118_get(kTxFifoInf) >> 16 & 0xFF; count > 0; --count) {
    const uint32_t status = lan9118_get(kTxStatusFifo);
    counters_.transmit_errors += (status & kTxError) != 0 ? 1 : 0;
    is_full_ = false;
  }
  counters_.receive_overruns += lan9118_get(kRxDrop);  // reading clears it
  if ((lan9118_get(kIntSts) & kIntConfused) != 0) {
    return fail(Lan9118Fault::kConfused);
  }
  if (is_full_ && port_now_ms() - full_since_ms_ > kLan9118TransmitMs) {
    return fail(Lan9118Fault::kStuck);
  }
  return true;
}

bool Lan9118::has_frame() const { return (lan9118_get(kRxFifoInf) >> 16 & 0xFF) != 0; }

size_t Lan9118::receive_begin() {
  GS_ASSERT(words_left_ == 0);
  while (has_frame()) {
    const uint32_t status = lan9118_get(kRxStatusFifo);
    const size_t size = status >> 16 & 0x3FFF;  // with its CRC
    words_left_ = (size + 3) / 4;
    word_size_ = 0;
    const bool is_whole = size >= kFrameOnWireSizeMin + kCrcSize && size <= kFrameOnWireSizeMax + kCrcSize;
    if ((status & (kRxError | kRxFiltered)) == 0 && is_whole) {
      ++counters_.received;
      return size - kCrcSize;
    }
    ++counters_.receive_errors;
    receive_end();
  }
  return 0;
}

void Lan9118::receive(uint8_t* out, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    if (word_size_ == 0) {
      GS_ASSERT(words_left_ > 0);
      --words_left_;
      word_ = lan9118_get(kRxDataFifo);
      word_size_ = 4;
    }
    out[i] = static_cast<uint8_t>(word_);
    word_ >>= 8;
    --word_size_;
  }
}

void Lan9118::receive_end() {
  for (; words_left_ > 0; --words_left_) {
    (void)lan9118_get(kRxDataFifo);
  }
  settle();
}

bool Lan9118::send_begin(size_t size) {
  GS_ASSERT(size >= kFrameOnWireSizeMin && size <= kFrameOnWireSizeMax);
  const size_t wanted = kCommandsSize + (size + 3) / 4 * 4;
  if ((lan9118_get(kTxFifoInf) & 0xFFFF) < wanted) {
    ++counters_.transmit_full;
    if (!is_full_) {
      is_full_ = true;
      full_since_ms_ = port_now_ms();
    }
    return false;
  }
  const uint32_t size_bits = static_cast<uint32_t>(size);
  lan9118_put(kTxDataFifo, kTxFirst | kTxLast | size_bits);
  lan9118_put(kTxDataFifo, size_bits);
  word_ = 0;
  word_size_ = 0;
  return true;
}

void Lan9118::send(const uint8_t* bytes, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    word_ |= static_cast<uint32_t>(bytes[i]) << 8 * word_size_;
    if (++word_size_ == 4) {
      lan9118_put(kTxDataFifo, word_);
      word_ = 0;
      word_size_ = 0;
    }
  }
}

void Lan9118::send_end() {
  if (word_size_ != 0) {
    lan9118_put(kTxDataFifo, word_);
  }
  word_size_ = 0;
  ++counters_.sent;
  settle();
}

void Lan9118::want_interrupt() {
  lan9118_put(kIntSts, kIntReceiveStatus);
  lan9118_enable_interrupt();
}

}  // namespace gradstream
