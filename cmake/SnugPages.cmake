# Web pages that the program carries: the .html files of src/report/pages that begin with <!doctype html> become a C++
# file, as they are, with the files beside them that they include (@include NAME@).
#
# As a script (cmake -DOUTPUT=... -DPAGES=... -P) it writes the file; included, it adds that to a target.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  set(text "#include \"report/pages.h\"\n\nnamespace snug {\n\n")
  foreach(page IN LISTS PAGES)
    get_filename_component(name "${page}" NAME_WE)
    file(READ "${page}" hex HEX)
    if(NOT hex MATCHES "^3c21646f6374797065")  # <!doctype
      continue()
    endif()
    foreach(part IN LISTS PAGES)
      get_filename_component(part_name "${part}" NAME)
      string(HEX "@include ${part_name}@" place)
      file(READ "${part}" part_hex HEX)
      string(REPLACE "${place}" "${part_hex}" hex "${hex}")
    endforeach()
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" bytes "${hex}")
    # 100 bytes a line of source.
    string(LENGTH "${bytes}" length)
    string(APPEND text "const char* const kPage_${name} =\n")
    set(at 0)
    while(at LESS length)
      string(SUBSTRING "${bytes}" ${at} 400 piece)
      string(APPEND text "    \"${piece}\"\n")
      math(EXPR at "${at} + 400")
    endwhile()
    string(APPEND text "    ;\n\n")
  endforeach()
  string(APPEND text "}  // namespace snug\n")
  file(WRITE "${OUTPUT}" "${text}")
  return()
endif()

# snug_pages(<target>)
function(snug_pages target)
  file(GLOB pages CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/report/pages/*")
  set(script "${CMAKE_SOURCE_DIR}/cmake/SnugPages.cmake")
  set(output "${CMAKE_BINARY_DIR}/generated/pages.cc")
  add_custom_command(OUTPUT "${output}" DEPENDS ${pages} "${script}" VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${output}" "-DPAGES=${pages}" -P "${script}"
    COMMENT "Taking up the web pages")
  target_sources(${target} PRIVATE "${output}")
endfunction()
