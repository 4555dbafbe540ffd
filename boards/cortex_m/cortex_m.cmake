# Images of the client on Cortex-M processors; boards/bare/bare.cmake says how.
set(gs_processor_sections boards/cortex_m/sections.ld)
set(gs_processor_sources boards/cortex_m/startup.cc boards/cortex_m/divide.cc)

# The processor's part number, as the image finds it in CPUID (Arm's technical reference manuals). It is the one of
# GS_CPU_FLAGS. GS_PROCESSOR names another one that runs this code too.
function(gs_processor_part out)
  set(parts cortex-m0 0xC20 cortex-m0plus 0xC60 cortex-m3 0xC23 cortex-m4 0xC24 cortex-m7 0xC27 cortex-m23 0xD20
    cortex-m33 0xD21 cortex-m55 0xD22 cortex-m85 0xD23)
  string(REGEX REPLACE "^.*-mcpu=([a-z0-9-]+).*$" "\\1" processor "${GS_CPU_FLAGS}")
  if(GS_PROCESSOR)
    set(processor "${GS_PROCESSOR}")
  endif()
  list(FIND parts "${processor}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "GS_CPU_FLAGS names no processor that boards/cortex_m/cortex_m.cmake knows: ${GS_CPU_FLAGS}")
  endif()
  math(EXPR at "${at} + 1")
  list(GET parts ${at} part)
  set(${out} ${part} PARENT_SCOPE)
endfunction()

include(${PROJECT_SOURCE_DIR}/boards/bare/bare.cmake)
