# How every file is compiled: the interface library snug_options carries warnings, floating-point rules, the
# instruction set and the sanitizers.

add_library(snug_options INTERFACE)
target_include_directories(snug_options INTERFACE "${CMAKE_SOURCE_DIR}/src")
# For C++ alone: nvcc passes on code of its own that would not survive these warnings.
function(snug_cxx_options)
  foreach(option IN LISTS ARGN)
    target_compile_options(snug_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${option}>")
  endforeach()
endfunction()
snug_cxx_options(-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -fno-math-errno
  -fno-trapping-math -ffp-contract=fast)
# Of files that are joined (SnugJoin.cmake) a local name of one may be a global one of another.
set(local_shadows "$<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>")
snug_cxx_options("$<IF:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>,${local_shadows},-Wshadow>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # At -O3 g++ 12 sees writes past the end in fmt's inlined code, and overlaps in std::string's, that are
  # not there.
  snug_cxx_options(-Wno-stringop-overflow -Wno-restrict)
else()
  # Loops that are marked for g++ at -O3; under sanitizers clang vectorises none.
  snug_cxx_options(-Wno-pass-failed)
endif()
if(SNUG_WERROR)
  snug_cxx_options(-Werror)
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # AVX2 and FMA: every x86 machine that holds a supported card has them. main() checks before it starts.
  snug_cxx_options(-march=x86-64-v3)
endif()

if(SNUG_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "The fuzz harnesses need clang: use 'make fuzz' or the preset 'debug' "
    "(found ${CMAKE_CXX_COMPILER_ID})")
endif()
if(SNUG_SANITIZE)
  set(sanitizers -fsanitize=${SNUG_SANITIZE})
  if(SNUG_SANITIZE MATCHES "undefined")
    list(APPEND sanitizers -fno-sanitize-recover=undefined)
    # What AddressSanitizer sees for itself when it happens; as checks of their own they are a fifth of the build.
    list(APPEND sanitizers -fno-sanitize=null,object-size,vptr)
  endif()
  # Under sanitizers GCC takes std::regex of its own library for uninitialised.
  target_compile_options(snug_options INTERFACE ${sanitizers} -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(snug_options INTERFACE ${sanitizers})
endif()
