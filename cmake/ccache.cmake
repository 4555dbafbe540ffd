# Boards of the same processor compile the same sources by the same commands: ccache, if it is there, does so once. Its
# folder stands in this tree. An object is the same whichever preset compiled it, but for one thing: its debug data
# name the folder of the preset that compiled it first.
find_program(GS_CCACHE ccache)
if(GS_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_DIR=${PROJECT_SOURCE_DIR}/build/ccache CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_DEPEND=1 CCACHE_MAXSIZE=500M CCACHE_SLOPPINESS=include_file_mtime,include_file_ctime ${GS_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
