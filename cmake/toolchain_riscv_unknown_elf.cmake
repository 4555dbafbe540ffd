# 32-bit RISC-V with GCC and picolibc. GS_CPU_FLAGS (from the preset) names extensions and calling convention. How an
# image is optimised: bare_metal_flags.cmake. Why nothing links a heap: toolchain_arm_none_eabi.cmake.
#
# Debian has no C++ library for this compiler. The headers are those of the one for arm-none-eabi, of the same version
# of GCC; nothing is linked from a C++ library, as -nodefaultlibs sees to.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv)
set(CMAKE_C_COMPILER riscv64-unknown-elf-gcc)
set(CMAKE_CXX_COMPILER riscv64-unknown-elf-g++)
set(CMAKE_AR riscv64-unknown-elf-gcc-ar)
set(CMAKE_RANLIB riscv64-unknown-elf-gcc-ranlib)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

set(GS_CPU_FLAGS "" CACHE STRING "Processor flags, such as -march=rv32imc -mabi=ilp32")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GS_CPU_FLAGS)
if(NOT GS_CPU_FLAGS)
  message(FATAL_ERROR "GS_CPU_FLAGS is empty: choose a preset of a board, or pass -DGS_CPU_FLAGS=-march=...")
endif()

file(GLOB gs_cxx_headers /usr/include/newlib/c++/12*)
if(NOT gs_cxx_headers)
  message(FATAL_ERROR "/usr/include/newlib/c++/12* is missing: ./run setup installs libstdc++-arm-none-eabi-newlib")
endif()
list(GET gs_cxx_headers 0 gs_cxx_headers)

include(${CMAKE_CURRENT_LIST_DIR}/bare_metal_flags.cmake)
set(gs_flags "${GS_CPU_FLAGS} --specs=picolibc.specs")
string(APPEND gs_flags " -msave-restore")  # registers are saved by one routine: 8 % less flash
set(CMAKE_C_FLAGS_INIT "${gs_flags} -ffunction-sections -fdata-sections -fno-common")
set(CMAKE_CXX_FLAGS_INIT
  "${CMAKE_C_FLAGS_INIT} -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit")
string(APPEND CMAKE_CXX_FLAGS_INIT " -isystem ${gs_cxx_headers} -isystem ${gs_cxx_headers}/arm-none-eabi")
set(CMAKE_EXE_LINKER_FLAGS_INIT
  "-nostartfiles -nodefaultlibs -flto=1 -flto-partition=one -Wl,--gc-sections -Wl,--fatal-warnings")
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "-Wl,--start-group -lm -lc -lgcc -Wl,--end-group")
set(CMAKE_C_STANDARD_LIBRARIES_INIT "${CMAKE_CXX_STANDARD_LIBRARIES_INIT}")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
