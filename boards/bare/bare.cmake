# Images of the client for boards without an operating system. A board includes the file of its processor's family,
# boards/cortex_m/cortex_m.cmake or boards/riscv/riscv.cmake, which includes this one and gives
#   gs_processor_sections  what its linker scripts include
#   gs_processor_sources   start-up, and what stands in for libgcc; compiled by themselves
#   gs_processor_part(out) what the image compares with the processor (GS_PROCESSOR_PART)
#
# gs_add_bare_client([ETHERNET] [MAINS] SCRIPT file CONFIG file [NETWORK_ARENA_KIB n] SOURCES file...
# SILICON file... EMULATOR file...): two images of the client, the same but for what stands in for silicon.
#   gradstream_client.elf            for silicon; no semihosting in it
#   gradstream_client_emulator.elf   for an emulator (GS_EMULATOR)
#   gradstream_client_all_emulator.elf   the same with all that a host links, on request
#   gradstream_client_network_emulator.elf   the same for a perceptron 64-16-10, on request: with NETWORK_ARENA_KIB, the
#                                    KB of its arena, for which the script takes gs_more_ram
#   gradstream_client_perceptron_emulator.elf   the same for a perceptron 196-32-32-10
#   gradstream_client_gsn.elf, gradstream_client_gsn_emulator.elf   for a network behind the shard, on request
#   gradstream_selftest.elf, gradstream_selftest_emulator.elf   no client: a report of the board, on request
#                                    (docs/how-to/report.md)
# SCRIPT: the linker script; CONFIG: the board's board_config.h; SOURCES: the machine's files; SILICON: those that an
# emulator has no use for; EMULATOR: those that stand in for them. Paths are from the project's root, or absolute, as of
# a board outside the tree (GRADSTREAM_BOARD_DIR). ETHERNET: the link is boards/ethernet, else a UART. MAINS: the board
# has mains power, else a battery. GS_IMAGE_PREFIX, set where a tree makes the images of a second board, begins their
# targets' names.
function(gs_add_bare_image target script config)
  gs_add_bare_program(${target} ${script} ${config} ${PROJECT_SOURCE_DIR}/firmware/main.cc ${ARGN})
endfunction()

# gs_add_bare_application(target script config file...): an image of an application in C, whose main() is in its
# files. firmware/application_board.h gives it the board.
function(gs_add_bare_application target script config)
  gs_add_bare_program(${target} ${script} ${config}
    ${PROJECT_SOURCE_DIR}/firmware/application_board.cc ${ARGN})
  target_compile_definitions(${target} PRIVATE GS_VERSION="${PROJECT_VERSION}")
endfunction()

# What both have: the board's start and port, the script and the libraries.
function(gs_add_bare_program target script config)
  list(TRANSFORM gs_processor_sources PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE apart)
  list(APPEND apart ${PROJECT_SOURCE_DIR}/boards/bare/start.cc)
  add_executable(${target}
    ${apart}
    ${PROJECT_SOURCE_DIR}/boards/bare/strings.cc
    ${PROJECT_SOURCE_DIR}/boards/bare/port.cc
    ${ARGN})
  set_source_files_properties(${apart} PROPERTIES COMPILE_OPTIONS -fno-lto)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/boards/bare/strings.cc
    PROPERTIES COMPILE_OPTIONS "-fno-lto;-fno-builtin;-fno-tree-loop-distribute-patterns")
  cmake_path(ABSOLUTE_PATH script BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(scripts ${script} ${PROJECT_SOURCE_DIR}/${gs_processor_sections})
  set_target_properties(${target} PROPERTIES SUFFIX .elf LINK_DEPENDS "${scripts}")
  gs_runtime_flags(${target})
  gs_processor_part(part)
  get_filename_component(board ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(REPLACE "_" "-" board ${board})  # as the commands of ./run name it
  target_compile_definitions(${target} PRIVATE
    GS_BOARD_CONFIG="${config}" GS_BOARD_NAME="${board}" GS_PROCESSOR_PART=${part})
  target_link_options(${target} PRIVATE -L${PROJECT_SOURCE_DIR}
    -T${script} -Wl,-Map=${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  if(GS_SMALLEST)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/firmware/registry_smallest.cc)
  endif()
  target_link_libraries(${target} PRIVATE gs_firmware)
endfunction()

# gs_use_lean_form(target): an image with a network trains it by scalars in the memory of one model
# (runtime/training/lean.h). It has registry and client of its own, since those of the libraries leave that out.
function(gs_use_lean_form target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/link/client*.cc)
  target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/firmware/registry.cc ${sources})
  target_compile_definitions(${target} PRIVATE GS_LEAN_FORM=1)
endfunction()

# gs_use_measured_loss(target): an image whose loss is measured (docs/own_loss.md) sleeps until it is asked again, and
# gives it up in time. It has client, device and solvers of its own, since those of the libraries leave that out.
function(gs_use_measured_loss target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/link/client*.cc)
  foreach(file firmware/device.cc firmware/gradstream_device.cc
      runtime/training/estimator.cc runtime/training/solver.cc)
    list(APPEND sources ${PROJECT_SOURCE_DIR}/${file})
  endforeach()
  target_sources(${target} PRIVATE ${sources})
  target_compile_definitions(${target} PRIVATE GS_MEASURED_LOSS=1)
endfunction()

# gs_use_held_pulls(target): an image whose board has mains power leaves its Pulls with the server until there is a task
# (docs/how-to/power.md). It has client and device of its own, since those of the libraries leave that out.
function(gs_use_held_pulls target)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/link/client*.cc)
  target_sources(${target} PRIVATE ${sources} ${PROJECT_SOURCE_DIR}/firmware/gradstream_device.cc)
  target_compile_definitions(${target} PRIVATE GS_HOLDS_PULLS=1)
endfunction()

# gs_use_eigen(target file...): an image with these files, whose losses are written with Eigen
# (include/gradstream/eigen.h). With -Os GCC keeps the parts of an expression on the stack, 400 bytes more of it; with
# -O2 it takes less flash too.
function(gs_use_eigen target)
  if(NOT TARGET gs_eigen)
    include(eigen)
  endif()
  target_sources(${target} PRIVATE ${ARGN})
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O2)
  target_link_libraries(${target} PRIVATE gs_eigen)
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/self_test.cmake)

# The images of a network, and the widths of their layers.
set(network_names network perceptron)
set(network_widths "64,16,10" "196,32,32,10")

function(gs_add_bare_client)
  cmake_parse_arguments(arg "ETHERNET;MAINS" "SCRIPT;CONFIG;NETWORK_ARENA_KIB" "SOURCES;SILICON;EMULATOR" ${ARGN})
  foreach(list arg_SOURCES arg_SILICON arg_EMULATOR)
    list(TRANSFORM ${list} PREPEND ${PROJECT_SOURCE_DIR}/ REGEX "^[^/]")
  endforeach()
  set(client ${GS_IMAGE_PREFIX}gradstream_client)
  set(link ${PROJECT_SOURCE_DIR}/boards/bare/uart_link.cc)
  if(arg_ETHERNET)
    include(lwip)
    set(link
      ${PROJECT_SOURCE_DIR}/boards/ethernet/lan9118.cc
      ${PROJECT_SOURCE_DIR}/boards/ethernet/link.cc
      ${PROJECT_SOURCE_DIR}/boards/ethernet/network_settings.cc)
  endif()
  gs_add_bare_image(${client} ${arg_SCRIPT} ${arg_CONFIG}
    ${PROJECT_SOURCE_DIR}/boards/bare/silicon.cc ${link} ${arg_SOURCES} ${arg_SILICON})
  set(emulator
    ${PROJECT_SOURCE_DIR}/boards/bare/emulator.cc ${PROJECT_SOURCE_DIR}/boards/bare/emulated_flash.cc
    ${PROJECT_SOURCE_DIR}/boards/flash_log.cc ${PROJECT_SOURCE_DIR}/boards/flash_storage.cc
    ${link} ${arg_SOURCES} ${arg_EMULATOR})
  set(gs_emulator_sources ${emulator} PARENT_SCOPE)  # for an example's image
  gs_add_bare_image(${client}_emulator ${arg_SCRIPT} ${arg_CONFIG} ${emulator})
  target_compile_definitions(${client}_emulator PRIVATE GS_EMULATOR=1)
  # Every manifold, estimator and solver, what a host links, and the problems spd_mean and perceptron. For
  # algorithm_board_test.py.
  gs_add_bare_image(${client}_all_emulator ${arg_SCRIPT} ${arg_CONFIG}
    ${emulator})
  gs_use_lean_form(${client}_all_emulator)
  set_target_properties(${client}_all_emulator PROPERTIES EXCLUDE_FROM_ALL ON)
  target_compile_definitions(${client}_all_emulator PRIVATE
    GS_EMULATOR=1 GS_LINK_ALL=1 GS_FLOAT_PROBLEM=gs_spd_mean "GS_PERCEPTRON_WIDTHS=64,4,10")
  if(arg_NETWORK_ARENA_KIB)
    # For ./run demo --network and algorithm_board_test.py. The usual arena is client_memory.h's.
    math(EXPR more_ram "(${arg_NETWORK_ARENA_KIB} - 10) * 1024")
    foreach(name widths IN ZIP_LISTS network_names network_widths)
      set(image ${client}_${name}_emulator)
      gs_add_bare_image(${image} ${arg_SCRIPT} ${arg_CONFIG} ${emulator})
      gs_use_lean_form(${image})
      set_target_properties(${image} PROPERTIES EXCLUDE_FROM_ALL ON)
      target_compile_definitions(${image} PRIVATE
        GS_EMULATOR=1 "GS_PERCEPTRON_WIDTHS=${widths}" GS_ARENA_KIB=${arg_NETWORK_ARENA_KIB})
      target_link_options(${image} PRIVATE -Wl,--defsym=gs_more_ram=${more_ram})
    endforeach()
  endif()
  # For networks that users bring, on request: one stands behind the shard. At silicon and in an emulator.
  gs_add_bare_image(${client}_gsn ${arg_SCRIPT} ${arg_CONFIG}
    ${PROJECT_SOURCE_DIR}/boards/bare/silicon.cc ${link} ${arg_SOURCES} ${arg_SILICON})
  gs_add_bare_image(${client}_gsn_emulator ${arg_SCRIPT} ${arg_CONFIG} ${emulator})
  target_compile_definitions(${client}_gsn_emulator PRIVATE GS_EMULATOR=1)
  foreach(image ${client}_gsn ${client}_gsn_emulator)
    gs_use_lean_form(${image})
    set_target_properties(${image} PROPERTIES EXCLUDE_FROM_ALL ON)
    target_compile_definitions(${image} PRIVATE GS_NETWORK=1)
  endforeach()
  foreach(kind "" _emulator)
    set(image ${GS_IMAGE_PREFIX}gradstream_selftest${kind})
    if(kind)
      set(sources ${emulator})
    else()
      set(sources ${PROJECT_SOURCE_DIR}/boards/bare/silicon.cc ${link} ${arg_SOURCES} ${arg_SILICON})
    endif()
    gs_add_bare_program(${image} ${arg_SCRIPT} ${arg_CONFIG} ${PROJECT_SOURCE_DIR}/firmware/self_test_main.cc
      ${PROJECT_SOURCE_DIR}/boards/bare/self_test.cc ${sources})
    gs_use_self_test(${image})
    # X25519 calls what tls.cc defines, of which nothing else is in this image.
    target_link_options(${image} PRIVATE -Wl,--undefined=mbedtls_platform_zeroize)
    set_target_properties(${image} PROPERTIES EXCLUDE_FROM_ALL ON)
    if(arg_ETHERNET)
      target_compile_definitions(${image} PRIVATE GS_ETHERNET=1)
      target_link_libraries(${image} PRIVATE gs_lwip)
    endif()
  endforeach()
  target_compile_definitions(${GS_IMAGE_PREFIX}gradstream_selftest_emulator PRIVATE GS_EMULATOR=1)
  if(arg_MAINS)
    foreach(image ${client} ${client}_emulator ${client}_all_emulator ${client}_gsn ${client}_gsn_emulator)
      gs_use_held_pulls(${image})
    endforeach()
  endif()
  if(arg_ETHERNET)
    foreach(image ${client} ${client}_emulator ${client}_all_emulator ${client}_gsn ${client}_gsn_emulator)
      target_compile_definitions(${image} PRIVATE GS_ETHERNET=1)
      target_link_libraries(${image} PRIVATE gs_lwip)
    endforeach()
  endif()
endfunction()
