# Compiling several files of a target as one: most of a compiler's time goes into the headers that all of them
# include, and sanitizers make that worse. Their builds and all of CI's do it (SNUG_JOIN); others compile file by file,
# which makes the next build after a change short. An include that is missing in a file is found by tools/tidy.py, which
# joins files in another order.
# (g++ 12 warns of overflows that are not there when files are joined under ThreadSanitizer; clang, which compiles the
# sanitizers' builds, does not.)

option(SNUG_JOIN "Compile files that share no name of their own as one" OFF)
set(SNUG_JOINED_FILES 8)  # at most; more make the last ones of a build wait for each other

# snug_names_of(<variable> <file>): what a file defines for itself, as far as the first column shows it.
function(snug_names_of variable file)
  file(STRINGS "${file}" lines REGEX "^(#define|[A-Za-z]).*[({=;]")
  set(names)
  foreach(line IN LISTS lines)
    if(line MATCHES "^(TEST|INSTANTIATE|namespace|using namespace|using [a-z:]+::|static_assert|template|extern)")
      continue()
    elseif(line MATCHES "^(#define|using|struct|class|enum class|enum|union) +([A-Za-z0-9_]+)")
      list(APPEND names "${CMAKE_MATCH_2}")
    elseif(line MATCHES "([A-Za-z_][A-Za-z0-9_:~]*)(\\[[^]]*\\])? *[({=;]")
      list(APPEND names "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(${variable} "${names}" PARENT_SCOPE)
endfunction()

# snug_join(<target>): each file goes into the first group that has room and none of its names.
function(snug_join target)
  if(NOT SNUG_JOIN)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(groups 0)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cc$")
      continue()
    endif()
    snug_names_of(names "${source}")
    set(group 0)
    while(group LESS groups)
      set(free_names ${names})
      list(REMOVE_ITEM free_names ${names_of_${group}} "")
      if("${free_names}" STREQUAL "${names}" AND files_of_${group} LESS SNUG_JOINED_FILES)
        break()
      endif()
      math(EXPR group "${group} + 1")
    endwhile()
    if(group EQUAL groups)
      math(EXPR groups "${groups} + 1")
      set(files_of_${group} 0)
      set(names_of_${group})
    endif()
    math(EXPR files_of_${group} "${files_of_${group}} + 1")
    list(APPEND names_of_${group} ${names})
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${target}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
