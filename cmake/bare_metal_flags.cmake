# How an image is optimised, for the toolchain files of boards: in every build type but Debug. MinSizeRel is the type of
# a project that names none. With -O2 the client does not keep within the flash that ./run footprint allows. C and
# C++ are optimised as a whole when they are linked (-flto): that saves 5 KB of Mbed TLS and nanopb, and 4 KB of ours.
# Functions stay apart for the stack's sake (-fno-inline-functions-called-once), and those with much of their own on it
# always (runtime/base/own_frame.h). A file whose symbols no code names, such as the start, is compiled with -fno-lto or
# marks them as used: else they are gone. Objects have no machine code of their own (-fno-fat-lto-objects, GCC's
# default): that takes 40 % off their compilation. GCC's own ar and ranlib list them.
# CMake reads the size of a pointer out of an object that it compiles by the same file, which must have machine code.
get_property(gs_is_trial GLOBAL PROPERTY IN_TRY_COMPILE)
if(gs_is_trial)
  return()
endif()
set(CMAKE_BUILD_TYPE_INIT MinSizeRel)
foreach(language C CXX)
  foreach(type MINSIZEREL RELEASE RELWITHDEBINFO)
    set(CMAKE_${language}_FLAGS_${type} "-Os -g -flto -flto-partition=one -fno-inline-functions-called-once"
      CACHE STRING "Of an image (cmake/bare_metal_flags.cmake)")
  endforeach()
endforeach()
