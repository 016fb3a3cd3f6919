# Writes snug_commit.h with the commit that is built, and only when it changed, so that a build without news compiles
# nothing. Included by the build to define snug_commit_header(<target>), run with -P to write the header.

if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "unknown (built outside a git checkout)")
  endif()
  file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#pragma once\n#define SNUG_COMMIT \"${commit}\"\n")
  return()
endif()

function(snug_commit_header target)
  set(header "${CMAKE_BINARY_DIR}/generated/snug_commit.h")
  add_custom_target(snug_commit BYPRODUCTS "${header}"
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DHEADER=${header}"
      -P "${CMAKE_SOURCE_DIR}/cmake/SnugVersion.cmake" COMMENT "")
  add_dependencies(${target} snug_commit)
  target_include_directories(${target} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()
