# Writes snug_commit.h with the commit that is built, and only when it changed, so that a build without news compiles
# nothing. Included by the build to define snug_version(<target> <source>), run with -P to write the header.

if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "unknown (built outside a git checkout)")
  endif()
  file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#pragma once\n#define SNUG_COMMIT \"${commit}\"\n")
  return()
endif()

# The source is the only file of the target that knows; it needs no precompiled headers, whose definitions differ.
function(snug_version target source)
  set(header "${CMAKE_BINARY_DIR}/generated/snug_commit.h")
  add_custom_target(snug_commit BYPRODUCTS "${header}"
    COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${CMAKE_SOURCE_DIR}" "-DHEADER=${header}"
      -P "${CMAKE_SOURCE_DIR}/cmake/SnugVersion.cmake" COMMENT "")
  add_dependencies(${target} snug_commit)
  set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON
    INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/generated"
    COMPILE_DEFINITIONS
      "SNUG_VERSION=\"${PROJECT_VERSION}\";SNUG_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")
endfunction()
