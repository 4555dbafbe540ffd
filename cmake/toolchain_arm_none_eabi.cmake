# Cortex-M with GCC and newlib nano. GS_CPU_FLAGS (from the preset) names the processor and its floating point unit.
#
# Nothing links a heap: _sbrk stays undefined, so that an allocation anywhere is a link error. Start-up code and the
# linker script come from the board (-nostartfiles). bare_metal_flags.cmake says how an image is optimised.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
set(CMAKE_AR arm-none-eabi-gcc-ar)
set(CMAKE_RANLIB arm-none-eabi-gcc-ranlib)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

set(GS_CPU_FLAGS "" CACHE STRING "Processor flags, such as -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GS_CPU_FLAGS)
if(NOT GS_CPU_FLAGS)
  message(FATAL_ERROR "GS_CPU_FLAGS is empty: choose a preset of a board, or pass -DGS_CPU_FLAGS=-mcpu=...")
endif()

include(${CMAKE_CURRENT_LIST_DIR}/bare_metal_flags.cmake)
set(CMAKE_C_FLAGS_INIT "${GS_CPU_FLAGS} -mthumb -ffunction-sections -fdata-sections -fno-common")
set(CMAKE_CXX_FLAGS_INIT
  "${CMAKE_C_FLAGS_INIT} -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-use-cxa-atexit")
set(CMAKE_ASM_FLAGS_INIT "${GS_CPU_FLAGS} -mthumb")
set(CMAKE_EXE_LINKER_FLAGS_INIT
  "--specs=nano.specs -nostartfiles -flto=1 -flto-partition=one -Wl,--gc-sections -Wl,--fatal-warnings")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
