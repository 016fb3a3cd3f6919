# A layer is a folder of src/ with its tests: one static library snug_<folder> and one test program
# test_<folder> made of the .cc files of tests/<folder>. A folder without sources is an interface library:
# headers alone are a layer too.

# What nearly every file includes, compiled once. A file still includes what it uses: clang-tidy compiles
# without this, some files at a time.
set(SNUG_COMMON_HEADERS <algorithm> <array> <cstdint> <filesystem> <functional> <map> <memory> <optional>
  <set> <span> <string> <string_view> <vector> <fmt/format.h> <nlohmann/json.hpp>)

# Compiles the common headers with the first target of a kind; the others of that kind take them over.
function(snug_common_headers target kind)
  get_property(owner GLOBAL PROPERTY SNUG_COMMON_HEADERS_OF_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${SNUG_COMMON_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY SNUG_COMMON_HEADERS_OF_${kind} ${target})
  endif()
endfunction()

if(SNUG_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
endif()

# What the harnesses call (snug_fuzzers).
set(SNUG_FUZZED_LAYERS base io program ops recipe model compile text data)
# What prints and serves: under sanitizers compiling it takes longer than running it ever does.
set(SNUG_LAYERS_FOR_PEOPLE explain report watch doctor)

# snug_layer(<folder> DEPENDS <folder or library>...)
function(snug_layer folder)
  cmake_parse_arguments(LAYER "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${folder}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/src/backend/cuda/")
  set(links)
  foreach(dependency IN LISTS LAYER_DEPENDS)
    if(TARGET snug_${dependency})
      list(APPEND links snug_${dependency})
    else()
      list(APPEND links ${dependency})
    endif()
  endforeach()
  if(sources)
    add_library(snug_${folder} STATIC ${sources})
    target_link_libraries(snug_${folder} PUBLIC snug_options ${links})
    snug_join(snug_${folder})
    if(folder STREQUAL backend)
      # Kernels; the rest is not hot.
      target_compile_options(snug_backend PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O3>)
      if(SNUG_SANITIZE MATCHES "address")
        # Whoever calls these asks AddressSanitizer about a row (base/addressable.h).
        set_source_files_properties(src/backend/cpu/rows.cc PROPERTIES
          COMPILE_OPTIONS "-O3;-fno-sanitize=address,pointer-overflow" SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
      if(SNUG_CUDA)
        snug_cuda_backend(snug_backend ${links})
      endif()
    else()
      set(kind layer)
      if(SNUG_FUZZ AND folder IN_LIST SNUG_FUZZED_LAYERS)
        # The coverage that guides libFuzzer; only the harnesses get its main().
        target_compile_options(snug_${folder} PRIVATE -fsanitize=fuzzer-no-link)
        set(kind fuzzed_layer)
      elseif(SNUG_SANITIZE AND folder IN_LIST SNUG_LAYERS_FOR_PEOPLE)
        target_compile_options(snug_${folder} PRIVATE -O0)
        set(kind layer_for_people)
      endif()
      snug_common_headers(snug_${folder} ${kind})
    endif()
  else()
    add_library(snug_${folder} INTERFACE)
    target_link_libraries(snug_${folder} INTERFACE snug_options ${links})
  endif()
  snug_tests(${folder} snug_${folder})
endfunction()

# snug_test_paths(<target> <source folder>): lets a test include "test_paths.h", which says where things lie. In a
# header, so that files that need no paths compile alike in every checkout and share the compiler cache.
function(snug_test_paths target source_folder)
  string(COMPARE EQUAL "${source_folder}" "." relative)
  set(folder "${CMAKE_BINARY_DIR}/generated/paths_relative_${relative}")
  file(CONFIGURE OUTPUT "${folder}/test_paths.h" CONTENT
    "#pragma once\n#define SNUG_SOURCE_DIR \"${source_folder}\"\n#define SNUG_BINARY \"${CMAKE_BINARY_DIR}/snug\"\n")
  target_include_directories(${target} PRIVATE "${folder}")
endfunction()

# What makes these long is the planning of large models or repeating a run; sanitizers, which make them
# longer by five times, see all of that code in smaller tests.
set(SNUG_TESTS_TOO_LONG_FOR_SANITIZERS FitCases.* PlanCases.* PlanForACard.OfTheCatalogue* StagesPlan.HasAColumn*
  Memory.PlannedIsAllocated* Terminal.ALiveLineTellsMore* Counts.* Experiments/Killed.*/qlora_packed_dropout
  FitRun.IsTheFastestOfTheSameExperiment FitRun.TakesTheSmallestOptIn* Choice.KeepsToTheBudgetToTheByte
  Choice.IsTheFastestOfAllThatLayersCanKeep EncoderDecoder.PlannedIsAllocated* Cli.PlanThatDoesNotFit*
  Explain.WhatItTakesElsewhere Init.ACardIsFittedAndNamed QloraRun.EveryMemoryPolicy* Diff.ARecipeIsEqualToItself
  Diff.TheRiddleOfCase1)

# snug_tests(<folder> <library> [<shards>]): one program of the tests in tests/<folder>.
function(snug_tests folder library)
  if(NOT SNUG_TESTS)
    return()
  endif()
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${folder}/*.cc")
  set(shards ${ARGN})
  if(NOT shards)
    set(shards 1)
  endif()
  if(tests)
    snug_test_program(${folder} ${library} ${shards} ${tests})
  endif()
endfunction()

# snug_test_program(<name> <library> <shards> <file>...): the fast suite runs test_<name> as so many processes, side by
# side. Tests named *Slow* carry the label "slow" and stay out of it.
function(snug_test_program name library shards)
  add_executable(test_${name} ${ARGN})
  snug_join(test_${name})
  target_include_directories(test_${name} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  snug_test_paths(test_${name} "${CMAKE_SOURCE_DIR}")
  target_link_libraries(test_${name} PRIVATE ${library} GTest::gtest_main)
  target_compile_options(test_${name} PRIVATE -O0)  # building them is what takes long; what they test is optimised
  snug_common_headers(test_${name} test <gtest/gtest.h>)
  set(environment "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1;UBSAN_OPTIONS=print_stacktrace=1")
  set(left_out *Slow*)
  if(SNUG_SANITIZE)
    string(JOIN : left_out ${left_out} ${SNUG_TESTS_TOO_LONG_FOR_SANITIZERS})
  endif()
  if(SNUG_SANITIZE STREQUAL thread)
    # They match messages by regcomp and regexec, which Oniguruma has too; ThreadSanitizer takes one of each, and hangs.
    string(APPEND left_out ":*DeathTest.*")
  endif()
  # For tests that hang: on a busy machine all of them take many times as long as on a quiet one.
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    set(part ${name})
    if(shards GREATER 1)
      math(EXPR number "${shard} + 1")
      set(part ${name}_${number})
    endif()
    add_test(NAME ${part} COMMAND test_${name} "--gtest_filter=-${left_out}")
    set_tests_properties(${part} PROPERTIES TIMEOUT 1800 ENVIRONMENT
      "${environment};GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
  endforeach()
  add_test(NAME ${name}_slow COMMAND test_${name} --gtest_filter=*Slow*)
  set_tests_properties(${name}_slow PROPERTIES LABELS slow TIMEOUT 3600 ENVIRONMENT "${environment}")
endfunction()

# What threads do, for ThreadSanitizer: the pool, the kernels on it, tokenizing, preparing the next step, writing
# checkpoints beside training, and what runs tell webhooks and web pages. One program, so that nothing else is built.
function(snug_thread_tests)
  set(tests)
  foreach(place IN ITEMS base/* backend/* data/* train/beside_training_test report/webhooks_test watch/*)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${place}.cc")
    list(APPEND tests ${found})
  endforeach()
  snug_test_program(threads snug_watch 2 ${tests})
endfunction()

# The program itself: src/cli, and the tests that run it.
function(snug_program)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/cli/*.cc")
  if(NOT sources)
    return()
  endif()
  # Which backends there are to choose from is one file's business.
  if(SNUG_CUDA)
    list(FILTER sources EXCLUDE REGEX "/make_backend_cpu\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/make_backend_cuda\\.cc$")
  endif()
  add_executable(snug ${sources})
  snug_join(snug)
  target_link_libraries(snug PRIVATE snug_doctor snug_watch CLI11::CLI11)
  if(SNUG_SANITIZE)
    target_compile_options(snug PRIVATE -O0)  # as SNUG_LAYERS_FOR_PEOPLE
  endif()
  # Libraries beside the program come first, for it and for what they need themselves: that is what a bundle
  # (tools/bundle.sh) lives by.
  set_target_properties(snug PROPERTIES BUILD_RPATH "$ORIGIN/lib")
  target_link_options(snug PRIVATE LINKER:--disable-new-dtags)
  target_precompile_headers(snug PRIVATE ${SNUG_COMMON_HEADERS} <CLI/CLI.hpp>)
  foreach(folder IN ITEMS cli e2e)
    snug_tests(${folder} snug_doctor 8)  # they start the program again and again; many, so that all end together
    if(TARGET test_${folder})
      add_dependencies(test_${folder} snug)
    endif()
  endforeach()
  if(SNUG_TESTS AND CMAKE_BUILD_TYPE STREQUAL Release)
    add_test(NAME browser COMMAND "${CMAKE_SOURCE_DIR}/tests/browser/run.sh" $<TARGET_FILE:snug>)
    set_tests_properties(browser PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
  endif()
endfunction()

# The harnesses: each fuzz/fuzz_<name>.cc is a program, and `fuzzers` builds them all. They call the readers
# of untrusted files: safetensors, config, recipe, tokenizer, data.
function(snug_fuzzers)
  add_custom_target(fuzzers)
  file(GLOB harnesses CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/fuzz/fuzz_*.cc")
  foreach(harness IN LISTS harnesses)
    get_filename_component(program "${harness}" NAME_WE)
    add_executable(${program} "${harness}")
    target_link_libraries(${program} PRIVATE snug_model snug_data)
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${program})
  endforeach()
endfunction()
