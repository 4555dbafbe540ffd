# Raspberry Pi OS, 32 bit, of the first Pi, Zero and Zero W (ARM1176): Debian's cross compiler for armel. That of armhf
# has libraries of ARMv7 code alone. Raspberry Pi OS has no loader for armel, so the program is static.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-linux-gnueabi-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabi-g++)
# The processor's own floating point; arguments go as armel's libraries want them.
set(CMAKE_C_FLAGS_INIT "-mcpu=arm1176jzf-s -mfloat-abi=softfp")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT}")
# VFP11 of some chips reads a wrong operand after one that is subnormal; the linker goes round it.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -Wl,--gc-sections -Wl,--vfp11-denorm-fix=scalar")
set(CMAKE_FIND_ROOT_PATH /usr/arm-linux-gnueabi)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-arm-static -cpu arm1176)
