// The second stage of the RP2040's boot. The ROM copies the first 256 bytes of the flash to the end of RAM, checks
// their CRC-32 (tools/rp2040_image.py puts it there) and runs them. They switch the flash to execution in place with
// command 03h, which every serial flash knows, at clk_sys / 4 (31 MHz at 125 MHz), and jump to the image's reset
// handler. RP2040 data sheet 2.8.1.3 (boot), 4.10 (SSI).
namespace gradstream {

// SSI: 0x18000000. CTRLR0: 32-bit frames (DFS_32 = 31), EEPROM-read mode (3). SPI_CTRLR0: command 03h, 8 bits of
// command, 24 of address, both on one line.
__attribute__((naked, used, section(".boot2"))) void boot2() {
  asm volatile(
      "ldr r3, =0x18000000\n"
      "movs r1, #0\n"
      "str r1, [r3, #0x08]\n"  // SSIENR: off
      "movs r1, #4\n"
      "str r1, [r3, #0x14]\n"  // BAUDR
      "ldr r1, =(31 << 16) | (3 << 8)\n"
      "str r1, [r3, #0x00]\n"  // CTRLR0
      "movs r1, #0\n"
      "str r1, [r3, #0x04]\n"  // CTRLR1: one frame
      "ldr r1, =(0x03 << 24) | (2 << 8) | (6 << 2)\n"
      "ldr r2, =0x180000F4\n"
      "str r1, [r2]\n"  // SPI_CTRLR0
      "movs r1, #1\n"
      "str r1, [r3, #0x08]\n"  // SSIENR: on
      "ldr r0, =0x10000100\n"  // the vector table
      "ldr r1, =0xE000ED08\n"
      "str r0, [r1]\n"  // VTOR
      "ldmia r0!, {r1, r2}\n"
      "msr msp, r1\n"
      "bx r2\n"
      ".ltorg\n");
}

}  // namespace gradstream
