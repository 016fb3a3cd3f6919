# The CUDA backend: how the .cu files of src/backend/cuda are compiled, and the programs that need a card.

# As CMake writes them: "80" is machine code and PTX, "86-real" machine code alone. The driver compiles PTX for cards
# that have no machine code here: that of 80 for every card since Ampere, that of 120 for those to come.
set(SNUG_CUDA_ARCHITECTURES "75-real;80;86-real;89-real;90a-real;100-real;103-real;120" CACHE STRING
  "Compute capabilities to build for (90a: Hopper with its own instructions); NN-real: without PTX")
if(NOT CMAKE_CUDA_COMPILER)
  find_program(nvcc nvcc HINTS /usr/local/cuda/bin)
  if(NOT nvcc)
    message(FATAL_ERROR "SNUG_CUDA is ON, but there is no nvcc: install the CUDA 13 toolkit (and put its bin "
      "folder on the PATH), or use the preset 'release' for the CPU.")
  endif()
  set(CMAKE_CUDA_COMPILER "${nvcc}")
endif()
# Our own flags name the targets, so that one list serves machine code and PTX.
set(CMAKE_CUDA_ARCHITECTURES OFF)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake 3.25 does not know it of CUDA 13
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit 13 REQUIRED)

# snug_cuda_targets(<target>): what its .cu files are compiled for.
function(snug_cuda_targets target)
  set(targets)
  foreach(architecture IN LISTS SNUG_CUDA_ARCHITECTURES)
    string(REGEX REPLACE "-real$" "" capability "${architecture}")
    list(APPEND targets "-gencode=arch=compute_${capability},code=sm_${capability}")
    if(capability STREQUAL architecture)
      list(APPEND targets "-gencode=arch=compute_${capability},code=compute_${capability}")
    endif()
  endforeach()
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:${targets};--expt-relaxed-constexpr;-Xcompiler=-Wall,-Wextra>")
endfunction()

# snug_cuda_backend(<target> <links>...): adds src/backend/cuda to it. A library of its own compiles it: everything else
# is compiled as without CUDA, and can be taken over from such a build.
function(snug_cuda_backend target)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cc"
    "${CMAKE_SOURCE_DIR}/src/backend/cuda/*.cu")
  add_library(snug_cuda OBJECT ${sources})
  target_link_libraries(snug_cuda PRIVATE snug_options ${ARGN} CUDA::cudart_static CUDA::cublasLt)
  snug_cuda_targets(snug_cuda)
  # Rates that were measured are those of these kernels, by the costs of the op table.
  list(JOIN SNUG_CUDA_ARCHITECTURES " " architectures)
  snug_source_hash(snug_cuda backend/cuda/kernels_version.h kKernelsVersion
    VERSIONS "cuda ${CUDAToolkit_VERSION} for ${architectures}" FOLDERS ops backend)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:snug_cuda>)
  target_link_libraries(${target} PUBLIC $<LINK_ONLY:CUDA::cudart_static> $<LINK_ONLY:CUDA::cublasLt> ${CMAKE_DL_LIBS})
endfunction()

# snug_cuda_test(<name> <folder under tests/> <library>). Tests name files relative to the source folder, so that
# they also run in a copy of it on another machine.
function(snug_cuda_test name folder library)
  file(GLOB tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/${folder}/*.cc")
  add_executable(${name} ${tests})
  snug_join(${name})
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/tests")
  snug_test_paths(${name} ".")
  target_compile_options(${name} PRIVATE -O0)  # as all tests
  target_link_libraries(${name} PRIVATE ${library} CUDA::cudart_static CUDA::cublasLt GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1800 WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
endfunction()

# Tests and benchmarks that run on the card; the tests skip themselves where there is none.
function(snug_cuda_programs)
  if(SNUG_TESTS)
    snug_cuda_test(test_cuda cuda snug_backend)
    snug_cuda_test(test_cuda_training cuda/training snug_train)
    snug_cuda_on_host()
  endif()
  file(GLOB benches CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/bench/gpu/*.cc")
  foreach(bench IN LISTS benches)
    get_filename_component(name "${bench}" NAME_WE)
    add_executable(${name} "${bench}")
    target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/bench")
    target_link_libraries(${name} PRIVATE snug_train CUDA::cudart_static CUDA::cublasLt)
  endforeach()
  add_executable(attention_check "${CMAKE_SOURCE_DIR}/bench/gpu/attention_check.cu")
  snug_cuda_targets(attention_check)
  target_link_libraries(attention_check PRIVATE snug_backend CUDA::cudart_static CUDA::cublasLt)
endfunction()
