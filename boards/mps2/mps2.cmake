# gs_add_mps2_client(BOARD): two images of the client, the same but for where random numbers come from.
#   gradstream_client.elf            for silicon; no semihosting in it
#   gradstream_client_emulator.elf   for QEMU (GS_EMULATOR)
function(gs_add_mps2_image target)
  add_executable(${target}
    ${PROJECT_SOURCE_DIR}/boards/mps2/startup.cc
    ${PROJECT_SOURCE_DIR}/boards/mps2/board.cc
    ${PROJECT_SOURCE_DIR}/firmware/main.cc
    ${ARGN})
  set_target_properties(${target} PROPERTIES SUFFIX .elf LINK_DEPENDS ${PROJECT_SOURCE_DIR}/boards/mps2/mps2.ld)
  gs_runtime_flags(${target})
  target_link_options(${target} PRIVATE
    -T${PROJECT_SOURCE_DIR}/boards/mps2/mps2.ld -Wl,-Map=${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  target_link_libraries(${target} PRIVATE gs_firmware)
endfunction()

function(gs_add_mps2_client)
  gs_add_mps2_image(gradstream_client ${PROJECT_SOURCE_DIR}/boards/mps2/silicon.cc)
  gs_add_mps2_image(gradstream_client_emulator ${PROJECT_SOURCE_DIR}/boards/mps2/emulator.cc)
  target_compile_definitions(gradstream_client_emulator PRIVATE GS_EMULATOR=1)
endfunction()
