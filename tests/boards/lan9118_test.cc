// The driver of the Ethernet controller against a file of registers that behaves as its data sheet says, and as a
// broken one does.
#include "boards/ethernet/lan9118.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/link/port.h"

namespace gradstream {
namespace {

constexpr uint32_t kNever = 0xFFFFFFFF;

struct FakeChip {
  // What is wrong with it.
  bool is_there = true;
  uint32_t reset_reads = 3;  // of HW_CFG, until the reset is over
  uint32_t csr_reads = 1;    // of MAC_CSR_CMD, until it is not busy
  uint32_t mii_reads = 1;    // of MII_ACC, likewise
  uint32_t phy_reset_reads = 2;
  uint32_t phy_id = 0x0007;

  std::map<uint32_t, uint32_t> registers;
  std::map<uint32_t, uint32_t> mac = {{2, 0x0000BBAA}, {3, 0x33221102}};
  std::map<uint32_t, uint32_t> phy = {{4, 0}, {5, 0x01E1}};
  std::deque<uint32_t> phy_status = {0x782D};  // the last one stays
  std::deque<uint32_t> receive_data, receive_status, transmit_status;
  std::vector<uint32_t> transmitted;
  uint32_t transmit_free = 4608;
  uint32_t interrupt_status = 0, dropped = 0, interrupts_wanted = 0;
  uint32_t reset_left = 0, csr_left = 0, mii_left = 0, phy_reset_left = 0;

  uint32_t get(uint32_t offset) {
    switch (offset) {
      case 0x00:
        return pop(&receive_data);
      case 0x40:
        return pop(&receive_status);
      case 0x48:
        return pop(&transmit_status);
      case 0x58:
        return interrupt_status;
      case 0x64:
        return is_there ? 0x87654321 : 0xFFFFFFFF;
      case 0x74:
        return is_over(&reset_left) ? 0 : 1;
      case 0x7C:
        return static_cast<uint32_t>(receive_status.size() << 16 | receive_data.size() * 4);
      case 0x80:
        return static_cast<uint32_t>(transmit_status.size() << 16) | transmit_free;
      case 0x84:
        return 1;
      case 0xA0:
        return std::exchange(dropped, 0);
      case 0xA4:
        return is_over(&csr_left) ? 0 : 1U << 31;
      default:
        return registers[offset];
    }
  }

  void put(uint32_t offset, uint32_t value) {
    registers[offset] = value;
    if (offset == 0x20) {
      transmitted.push_back(value);
    } else if (offset == 0x58) {
      interrupt_status &= ~value;
    } else if (offset == 0x74 && (value & 1) != 0) {
      reset_left = reset_reads;
    } else if (offset == 0xA4) {
      csr_left = csr_reads;
      const uint32_t index = value & 0xFF;
      if ((value & 1U << 30) != 0) {
        registers[0xA8] = read_mac(index);
      } else {
        write_mac(index, registers[0xA8]);
      }
    }
  }

  uint32_t read_mac(uint32_t index) { return index == 6 ? (is_over(&mii_left) ? 0 : 1) : mac[index]; }

  void write_mac(uint32_t index, uint32_t value) {
    mac[index] = value;
    if (index != 6) {
      return;
    }
    EXPECT_EQ(value >> 11 & 31, 1U) << "another PHY";
    mii_left = mii_reads;
    const uint32_t number = value >> 6 & 31;
    if ((value & 2) != 0) {
      phy[number] = mac[7];
      phy_reset_left = number == 0 && (mac[7] & 0x8000) != 0 ? phy_reset_reads : phy_reset_left;
    } else {
      mac[7] = read_phy(number);
    }
  }

  uint32_t read_phy(uint32_t number) {
    switch (number) {
      case 0:
        return is_over(&phy_reset_left) ? 0x3000 : 0x8000;
      case 1: {
        const uint32_t status = phy_status.front();
        if (phy_status.size() > 1) {
          phy_status.pop_front();
        }
        return status;
      }
      case 2:
        return phy_id;
      default:
        return phy[number];
    }
  }

  static bool is_over(uint32_t* left) {
    if (*left == kNever || *left == 0) {
      return *left == 0;
    }
    --*left;
    return false;
  }

  static uint32_t pop(std::deque<uint32_t>* fifo) {
    if (fifo->empty()) {
      ADD_FAILURE() << "an empty FIFO was read";
      return 0;
    }
    const uint32_t value = fifo->front();
    fifo->pop_front();
    return value;
  }

  // A frame as it stands in the FIFO: its bytes, and a CRC of EE.
  void receive(const std::vector<uint8_t>& frame, uint32_t error = 0) {
    std::vector<uint8_t> bytes = frame;
    bytes.resize(frame.size() + 4, 0xEE);
    receive_status.push_back(static_cast<uint32_t>(bytes.size() << 16) | error);
    bytes.resize((bytes.size() + 3) / 4 * 4, 0xDD);
    for (size_t i = 0; i < bytes.size(); i += 4) {
      receive_data.push_back(static_cast<uint32_t>(bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16) |
                             static_cast<uint32_t>(bytes[i + 3]) << 24);
    }
  }
};

FakeChip* fake = nullptr;
uint64_t quarter_ms = 0;

class Lan9118Test : public testing::Test {
 protected:
  Lan9118Test() {
    fake = &chip;
    quarter_ms = 4000;
  }

  void start() { ASSERT_TRUE(driver.start(nullptr)) << static_cast<int>(driver.fault()); }

  // Fails with that fault, within so many milliseconds.
  void expect_fault(Lan9118Fault fault, uint64_t limit_ms) {
    const uint64_t begin = quarter_ms;
    EXPECT_FALSE(driver.start(nullptr));
    EXPECT_EQ(driver.fault(), fault);
    EXPECT_LE((quarter_ms - begin) / 4, limit_ms);
  }

  std::vector<uint8_t> frame_of(size_t size) {
    std::vector<uint8_t> frame(size);
    std::iota(frame.begin(), frame.end(), static_cast<uint8_t>(size));
    return frame;
  }

  FakeChip chip;
  Lan9118 driver;
};

TEST_F(Lan9118Test, StartsAndTakesTheAddressOfItsEeprom) {
  start();
  const std::vector<uint8_t> mac(driver.mac_address(), driver.mac_address() + kMacAddressSize);
  EXPECT_EQ(mac, (std::vector<uint8_t>{0x02, 0x11, 0x22, 0x33, 0xAA, 0xBB}));
  EXPECT_EQ(chip.mac[1], 1U << 3 | 1U << 2) << "transmitter and receiver on, half duplex until agreed, no promiscuity";
  EXPECT_EQ(chip.registers[0x70], 2U);
  EXPECT_EQ(chip.phy[4], 0x01E1U);
  EXPECT_EQ(chip.phy[0], 0x1200U) << "negotiates anew";
}

TEST_F(Lan9118Test, TakesTheAddressThatItIsGiven) {
  const uint8_t mac[] = {0x02, 0, 0, 0x44, 0x55, 0x66};
  ASSERT_TRUE(driver.start(mac));
  EXPECT_EQ(chip.mac[3], 0x44000002U);
  EXPECT_EQ(chip.mac[2], 0x6655U);
  EXPECT_TRUE(std::equal(mac, mac + kMacAddressSize, driver.mac_address()));
}

TEST_F(Lan9118Test, EveryWaitOfTheStartEndsWithAFaultOfItsOwn) {
  chip.is_there = false;
  expect_fault(Lan9118Fault::kNoChip, 0);
  chip = {};
  chip.reset_reads = kNever;
  expect_fault(Lan9118Fault::kNoReset, kLan9118ResetMs + 2);
  chip = {};
  chip.csr_reads = kNever;
  expect_fault(Lan9118Fault::kMacBusy, kLan9118RegisterMs + 4);
  chip = {};
  chip.mii_reads = kNever;
  expect_fault(Lan9118Fault::kPhySilent, kLan9118RegisterMs + 6);
  chip = {};
  chip.phy_id = 0xFFFF;
  expect_fault(Lan9118Fault::kPhySilent, 20);
  chip = {};
  chip.phy_reset_reads = kNever;
  expect_fault(Lan9118Fault::kPhySilent, kLan9118PhyResetMs + 20);
  chip = {};
  chip.mac = {{2, 0xFFFF}, {3, 0xFFFFFFFF}};
  expect_fault(Lan9118Fault::kNoAddress, 60);
  chip = {};
  start();  // the fault was of that chip
}

TEST_F(Lan9118Test, AdoptsTheDuplexThatWasAgreed) {
  start();
  const struct {
    uint32_t partner;
    bool is_full;
  } kCases[] = {{0x01E1, true}, {0x00A1, false}, {0x00E1, false}, {0x0061, true}, {0x0021, false}, {0, false}};
  for (const auto& [partner, is_full] : kCases) {
    chip.phy[5] = partner;
    bool is_up = false;
    ASSERT_TRUE(driver.update_link(&is_up));
    EXPECT_TRUE(is_up);
    EXPECT_EQ((chip.mac[1] & 1U << 20) != 0, is_full) << std::hex << partner;
  }
}

TEST_F(Lan9118Test, ALossThatIsOverIsNoLoss) {
  start();
  chip.phy_status = {0x7809, 0x782D};
  bool is_up = false;
  ASSERT_TRUE(driver.update_link(&is_up));
  EXPECT_TRUE(is_up);
  chip.phy_status = {0x7809};
  ASSERT_TRUE(driver.update_link(&is_up));
  EXPECT_FALSE(is_up);
}

TEST_F(Lan9118Test, APhyThatFallsSilentIsAFault) {
  start();
  chip.mii_reads = kNever;
  bool is_up = false;
  EXPECT_FALSE(driver.update_link(&is_up));
  EXPECT_EQ(driver.fault(), Lan9118Fault::kPhySilent);
}

TEST_F(Lan9118Test, ReceivesFramesOfEverySizeInPieces) {
  start();
  for (size_t size = kFrameOnWireSizeMin; size <= kFrameOnWireSizeMax; ++size) {
    const std::vector<uint8_t> sent = frame_of(size);
    chip.receive(sent);
    ASSERT_EQ(driver.receive_begin(), size);
    std::vector<uint8_t> got(size);
    for (size_t at = 0, piece = 1; at < size; at += piece, piece = piece % 7 + 1) {
      piece = std::min(piece, size - at);
      driver.receive(got.data() + at, piece);
    }
    driver.receive_end();
    ASSERT_EQ(got, sent);
    ASSERT_TRUE(chip.receive_data.empty()) << "the CRC stays behind, size " << size;
  }
  EXPECT_EQ(driver.receive_begin(), 0U);
  EXPECT_EQ(driver.counters().received, kFrameOnWireSizeMax - kFrameOnWireSizeMin + 1);
}

TEST_F(Lan9118Test, PassesOverBadFramesAndWhatNobodyReads) {
  start();
  chip.receive(frame_of(60), 1U << 15 | 1U << 1);  // CRC
  chip.receive(frame_of(13));                      // too short to have an address
  chip.receive(frame_of(1515));
  chip.receive(frame_of(61), 1U << 30);  // not for us
  chip.receive(frame_of(77));
  chip.receive(frame_of(64));
  ASSERT_EQ(driver.receive_begin(), 77U);
  EXPECT_EQ(driver.counters().receive_errors, 4U);
  driver.receive_end();
  ASSERT_EQ(driver.receive_begin(), 64U);
  uint8_t byte = 0;
  driver.receive(&byte, 1);
  EXPECT_EQ(byte, 64);
  driver.receive_end();
  EXPECT_FALSE(driver.has_frame());
  EXPECT_TRUE(chip.receive_data.empty());
}

TEST_F(Lan9118Test, SendsFramesOfEverySizeInPieces) {
  start();
  for (size_t size = kFrameOnWireSizeMin; size <= kFrameOnWireSizeMax; ++size) {
    chip.transmitted.clear();
    const std::vector<uint8_t> frame = frame_of(size);
    ASSERT_TRUE(driver.send_begin(size));
    driver.send(frame.data(), 5);
    driver.send(frame.data() + 5, 0);
    driver.send(frame.data() + 5, size - 5);
    driver.send_end();
    ASSERT_EQ(chip.transmitted.size(), 2 + (size + 3) / 4);
    EXPECT_EQ(chip.transmitted[0], 3U << 12 | size) << "first and last piece of the frame, no offset";
    EXPECT_EQ(chip.transmitted[1], size);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(static_cast<uint8_t>(chip.transmitted[2 + i / 4] >> i % 4 * 8), frame[i]);
    }
  }
}

TEST_F(Lan9118Test, AFullFifoRefusesAndIsStuckAfterAWhile) {
  start();
  chip.transmit_free = 100 + 12 - 1;
  EXPECT_FALSE(driver.send_begin(100));
  EXPECT_TRUE(chip.transmitted.empty());
  EXPECT_TRUE(driver.poll());
  quarter_ms += 4 * (kLan9118TransmitMs / 2);
  chip.transmit_status = {0};  // one has left: it is not stuck
  EXPECT_TRUE(driver.poll());
  EXPECT_FALSE(driver.send_begin(100));
  quarter_ms += 4 * (kLan9118TransmitMs - 50);
  EXPECT_TRUE(driver.poll());
  quarter_ms += 4 * 100;
  EXPECT_FALSE(driver.poll());
  EXPECT_EQ(driver.fault(), Lan9118Fault::kStuck);
  EXPECT_EQ(driver.counters().transmit_full, 2U);
  chip.transmit_free = 4608;
  start();
  EXPECT_TRUE(driver.poll()) << "a start forgets it";
  chip.transmit_free = 100 + 12;
  EXPECT_TRUE(driver.send_begin(100));
}

TEST_F(Lan9118Test, CountsWhatTheChipTells) {
  start();
  chip.dropped = 7;
  chip.transmit_status = {0, 1U << 15 | 1U << 10, 0x00010000};
  EXPECT_TRUE(driver.poll());
  EXPECT_TRUE(chip.transmit_status.empty());
  EXPECT_EQ(driver.counters().receive_overruns, 7U);
  EXPECT_EQ(driver.counters().transmit_errors, 1U);
  for (const int bit : {14, 13, 10}) {
    chip.interrupt_status = 1U << bit;
    EXPECT_FALSE(driver.poll());
    EXPECT_EQ(driver.fault(), Lan9118Fault::kConfused);
    start();
    EXPECT_TRUE(driver.poll());
  }
}

TEST_F(Lan9118Test, AnInterruptIsWantedForTheNextFrameOnly) {
  start();
  EXPECT_EQ(chip.registers[0x5C], 1U << 3);
  EXPECT_EQ(chip.interrupts_wanted, 0U);
  chip.interrupt_status = 1U << 3;
  driver.want_interrupt();
  EXPECT_EQ(chip.interrupt_status, 0U);
  EXPECT_EQ(chip.interrupts_wanted, 1U);
}

}  // namespace

uint32_t lan9118_get(uint32_t offset) { return fake->get(offset); }
void lan9118_put(uint32_t offset, uint32_t value) { fake->put(offset, value); }
void lan9118_enable_interrupt() { ++fake->interrupts_wanted; }
uint64_t port_now_ms() { return quarter_ms++ / 4; }

}  // namespace gradstream
