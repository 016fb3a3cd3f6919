# Names for the way in which something is made or measured: a hash over the sources that do it and the versions of what
# helps. What is kept for later carries it, so that nobody has to remember to raise a number.
#
# As a script (cmake -DOUTPUT=... -DHEADER=... -DCONSTANT=... -DSOURCES=... -DVERSIONS=... -P) it writes the file that
# defines the constant which the header declares; the hash does not depend on where the sources lie. Included, it adds
# that to a target.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  set(hashes "${VERSIONS}")
  foreach(source IN LISTS SOURCES)
    file(SHA256 "${source}" hash)
    get_filename_component(name "${source}" NAME)
    string(APPEND hashes " ${name} ${hash}")
  endforeach()
  string(SHA256 version "${hashes}")
  file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
    "#include \"@HEADER@\"\n\nconst char* const snug::@CONSTANT@ = \"@version@\";\n" @ONLY)
  return()
endif()

# snug_source_hash(<target> <header below src> <constant> VERSIONS <text> FOLDERS <folder below src>...)
function(snug_source_hash target header constant)
  cmake_parse_arguments(ARG "" "VERSIONS" "FOLDERS" ${ARGN})
  set(sources)
  foreach(folder IN LISTS ARG_FOLDERS)
    foreach(ending cc h cu cuh)
      file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.${ending}")
      list(APPEND sources ${found})
    endforeach()
  endforeach()
  list(SORT sources)
  set(script "${CMAKE_SOURCE_DIR}/cmake/SnugSourceHash.cmake")
  get_filename_component(name "${header}" NAME_WE)
  set(output "${CMAKE_BINARY_DIR}/generated/${name}.cc")
  add_custom_command(OUTPUT "${output}" DEPENDS ${sources} "${script}" VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DHEADER=${header}" "-DCONSTANT=${constant}" "-DSOURCES=${sources}"
            "-DVERSIONS=${ARG_VERSIONS}" -P "${script}"
    COMMENT "Hashing the sources for ${header}")
  target_sources(${target} PRIVATE "${output}")
endfunction()
