# Flags of every target, in one place.
#
#   gs_runtime_flags(target)   code that also runs on a board: runtime, firmware, boards
#   gs_host_flags(target)      code of the host: server, sim
#   gs_test_flags(target)      tests, benchmarks
#   gs_layout(target)          code of others that the library's code is linked with; the three above call it
#   gs_computes(target)        where tests of minutes spend their time: with -O0 in the preset, this alone is optimised
#   gs_runs_seldom(source...)  of the calling directory: commands, which run once, and take half of a build to optimise
#   gs_precompile(target header...)  what most sources of the target include, parsed once
#   gs_reuse_precompiled(target other)  the same headers for one file more, with the flags of the other target
#   gs_unite(target)           under a sanitizer several sources are compiled as one file
#   gs_unite_double(target)    the same in every build, of sources that it compiles one by one as floats too

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# An image must not depend on where it was built, and its asserts name files from the root.
if(GS_BARE_METAL)
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
endif()

if(GS_SANITIZE)
  add_compile_options(-fsanitize=${GS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GS_SANITIZE})
  if(NOT GS_FUZZ)
    # The native build compiles the same sources and takes GCC's warnings as errors. Clang's are others, and GCC warns
    # under a sanitizer of what it does not follow, such as Asio's fences.
    add_compile_options(-w)
  endif()
endif()
if(GS_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

set(GS_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wundef)
# Every compiler version warns of other things. An error is what the version of the tests warns of, GCC 12: a user
# with a newer one gets programs, and the warnings. A project that adds this one gets no error of a warning.
if(PROJECT_IS_TOP_LEVEL
   AND (CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13 OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
  list(APPEND GS_WARNINGS -Werror)
endif()

# What decides bits and the layout of types goes with the target to all that link it, a user's files among them.
function(gs_layout target)
  # Replicas compare their models bit for bit, so no compiler may fuse a multiplication with an addition.
  # runtime/base/no_contraction.h asks whether the flag is there.
  target_compile_options(${target} BEFORE PUBLIC -ffp-contract=off)
  target_compile_definitions(${target} PUBLIC GS_CONTRACTION_OFF=1)
  # runtime/base/config.h leaves out what only hosts call.
  if(GS_BARE_METAL)
    target_compile_definitions(${target} PUBLIC GS_BARE_METAL=1)
  endif()
  # Without key exchange: cmake/mbedtls_config_board.h and firmware/ read it.
  if(GS_PSK_KE_ONLY)
    target_compile_definitions(${target} PUBLIC GS_PSK_KE_ONLY=1)
  endif()
endfunction()

# Includes name their folder from the project's root: "runtime/base/status.h".
function(gs_common target)
  gs_layout(${target})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:include/gradstream-${PROJECT_VERSION}>)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${GS_WARNINGS}>)
endfunction()

function(gs_runtime_flags target)
  gs_common(${target})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wsign-conversion -Wvla
      -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-math-errno>)
endfunction()

function(gs_host_flags target)
  gs_common(${target})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wconversion>)
endfunction()

function(gs_test_flags target)
  gs_common(${target})
  if(GS_SANITIZE)  # compilers name their sanitizers in ways of their own
    target_compile_definitions(${target} PRIVATE GS_SANITIZED=1)
  endif()
endfunction()

function(gs_computes target)
  if(GS_SANITIZE OR GS_COMPILE_FAST)
    target_compile_options(${target} PRIVATE -O1)
  endif()
endfunction()

# The tests' builds have an optimisation of their own.
function(gs_runs_seldom)
  if(NOT GS_COMPILE_FAST)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O1)
  endif()
endfunction()

# Parsing takes half of the time of the host's code, and a user waits for it before the first result. A precompiled
# header hides an include that is missing: tests/house_rules_test.py looks for that in the text. GCC 12 takes
# precompiled headers for our own, and warns of their insides when it optimises. GS_PRECOMPILE=OFF builds with every
# warning, as the builds for other processors do.
function(gs_precompile target)
  if(GS_PRECOMPILE AND GS_NATIVE)
    gs_allow_precompiled(${target})
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

function(gs_reuse_precompiled target other)
  if(GS_PRECOMPILE AND GS_NATIVE)
    gs_allow_precompiled(${target})
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()

function(gs_allow_precompiled target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict>)
endfunction()

# Where GS_UNITE says so, several sources of the library make one file for the compiler: unit_groups.py says which may.
# A precompiled header is parsed once, but its templates are instantiated in every file that uses them. Who edits one
# source compiles its neighbours too, and a unit is no longer seen alone: the preset dev has a file for each. CMake
# leaves out what has options or definitions of its own. A library in double has the sources of one that every build
# compiles file by file as floats, where each is seen alone: it takes half of the time as fewer files.
set(GS_UNITE_SIZE 10)
function(gs_unite target)
  if(GS_UNITE)
    gs_unite_double(${target})
  endif()
endfunction()

function(gs_unite_double target)
  get_target_property(all ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(sources "")
  foreach(source IN LISTS all)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    if(EXISTS ${source})
      list(APPEND sources ${source})
    endif()
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/unit_groups.py)
  execute_process(COMMAND ${GS_PYTHON} -B ${PROJECT_SOURCE_DIR}/cmake/unit_groups.py ${GS_UNITE_SIZE} ${sources}
    OUTPUT_VARIABLE groups OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  foreach(group IN LISTS groups)
    string(REPLACE "|" ";" group "${group}")
    list(GET group 0 first)
    cmake_path(GET first STEM name)
    set_source_files_properties(${group} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${name})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
