# Images of the client on 32-bit RISC-V processors; boards/bare/bare.cmake says how.
set(gs_processor_sections boards/riscv/sections.ld)
set(gs_processor_sources boards/riscv/startup.cc)

# The bits of misa that the code of GS_CPU_FLAGS needs: width, and an extension each letter (RISC-V privileged
# architecture 20211203, 3.1.1). G is short for IMAFD.
function(gs_processor_part out)
  string(REGEX REPLACE "^.*-march=rv32([a-z]+).*$" "\\1" letters "${GS_CPU_FLAGS}")
  if(letters STREQUAL "${GS_CPU_FLAGS}")
    message(FATAL_ERROR "GS_CPU_FLAGS names no processor that boards/riscv/riscv.cmake knows: ${GS_CPU_FLAGS}")
  endif()
  string(REPLACE g imafd letters "${letters}")
  string(REGEX MATCHALL "[a-z]" letters "${letters}")
  set(alphabet abcdefghijklmnopqrstuvwxyz)
  set(part 0x40000000)  # MXL: 32 bits
  foreach(letter IN LISTS letters)
    string(FIND ${alphabet} ${letter} at)
    math(EXPR part "${part} | (1 << ${at})" OUTPUT_FORMAT HEXADECIMAL)
  endforeach()
  set(${out} ${part}U PARENT_SCOPE)
endfunction()

include(${PROJECT_SOURCE_DIR}/boards/bare/bare.cmake)
