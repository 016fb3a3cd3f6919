# The name of the way in which rows become tokens: a hash over the sources that do it and the versions of the
# libraries that help. Token caches carry it in their names, so that nobody has to remember to raise a number.
#
# As a script (cmake -DOUTPUT=... -DSOURCES=... -DVERSIONS=... -P) it writes the file; the hash does not depend on where
# the sources lie. Included, it adds that to a target.
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
    "#include \"data/tokens/encoding_version.h\"\n\nconst char* const snug::kEncodingVersion = \"@version@\";\n" @ONLY)
  return()
endif()

# snug_encoding_version(<target> <folder of src>...)
function(snug_encoding_version target)
  set(sources)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.cc" "${CMAKE_SOURCE_DIR}/src/${folder}/*.h")
    list(APPEND sources ${found})
  endforeach()
  list(SORT sources)
  set(script "${CMAKE_SOURCE_DIR}/cmake/SnugEncoding.cmake")
  set(output "${CMAKE_BINARY_DIR}/generated/encoding_version.cc")
  add_custom_command(OUTPUT "${output}" DEPENDS ${sources} "${script}" VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DSOURCES=${sources}"
            "-DVERSIONS=oniguruma ${ONIGURUMA_VERSION} utf8proc ${UTF8PROC_VERSION} simdjson ${SIMDJSON_VERSION}" -P "${script}"
    COMMENT "Naming the way in which rows become tokens")
  target_sources(${target} PRIVATE "${output}")
endfunction()
